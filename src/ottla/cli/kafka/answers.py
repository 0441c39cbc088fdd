"""What brokers say when they refuse, in their own words, which Kafka's tools print."""

from __future__ import annotations

from ottla.model.errors import KafkaError, OttlaError

_JAVA_NAMES = {
    "GROUP_ID_NOT_FOUND": "GroupIdNotFoundException",
    "NON_EMPTY_GROUP": "GroupNotEmptyException",
    "GROUP_SUBSCRIBED_TO_TOPIC": "GroupSubscribedToTopicException",
    "UNKNOWN_TOPIC_OR_PARTITION": "UnknownTopicOrPartitionException",
    "OFFSET_OUT_OF_RANGE": "OffsetOutOfRangeException",
    "INVALID_GROUP_ID": "InvalidGroupIdException",
    "GROUP_AUTHORIZATION_FAILED": "GroupAuthorizationException",
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorizationException",
    "POLICY_VIOLATION": "PolicyViolationException",
}
_JAVA_PACKAGE = "org.apache.kafka.common.errors."


def broker_message(error: OttlaError) -> str:
    """The broker's own message if it sent one, else what Kafka says of the code."""
    if not isinstance(error, KafkaError):
        return str(error)
    ending = f"): {error.error.name} ({error.code}): {error.error.text}"
    text = str(error)
    if not text.endswith(ending):
        return error.error.text
    return text.removesuffix(ending).partition(" (")[2]


def java_error(error: OttlaError) -> str:
    """As Java prints an exception: its class and its message."""
    if not isinstance(error, KafkaError):
        return str(error)
    name = _JAVA_NAMES.get(error.error.name)
    if name is None:
        name = "".join(word.capitalize() for word in error.error.name.split("_")) + "Exception"
    return f"{_JAVA_PACKAGE}{name}: {broker_message(error)}"
