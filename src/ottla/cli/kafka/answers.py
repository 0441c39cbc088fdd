"""Error messages of brokers as Kafka's tools print them."""

from __future__ import annotations

from ottla.model.errors import KafkaError, OttlaError

_JAVA_ERRORS = {
    "GROUP_ID_NOT_FOUND": ("GroupIdNotFound", "The group id does not exist."),
    "NON_EMPTY_GROUP": ("GroupNotEmpty", "The group is not empty."),
    "GROUP_SUBSCRIBED_TO_TOPIC": (
        "GroupSubscribedToTopic",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
    "UNKNOWN_TOPIC_OR_PARTITION": (
        "UnknownTopicOrPartition",
        "This server does not host this topic-partition.",
    ),
    "OFFSET_OUT_OF_RANGE": (
        "OffsetOutOfRange",
        "The requested offset is not within the range of offsets maintained by the server.",
    ),
    "INVALID_CONFIG": ("InvalidConfiguration", "Configuration is invalid."),
    "INVALID_GROUP_ID": ("InvalidGroupId", "The group id is invalid."),
    "GROUP_AUTHORIZATION_FAILED": ("GroupAuthorization", "Group authorization failed."),
    "TOPIC_AUTHORIZATION_FAILED": ("TopicAuthorization", "Topic authorization failed."),
}
"""Java's class of an error, and its text if the broker sends none."""

_NO_MESSAGE = "answered with"
_JAVA_PACKAGE = "org.apache.kafka.common.errors."


def broker_message(error: OttlaError) -> str:
    """The broker's own message if it sent one, else Kafka's text for the error code."""
    if not isinstance(error, KafkaError):
        return str(error)
    ending = f"): {error.error.name} ({error.code}): {error.error.text}"
    text = str(error)
    message = text.removesuffix(ending).partition(" (")[2]
    if not text.endswith(ending) or message.startswith(_NO_MESSAGE):
        return _JAVA_ERRORS.get(error.error.name, ("", error.error.text))[1]
    return message


def java_class(error: Exception) -> str:
    """The Java class name of an error; for errors that brokers do not send, our class name."""
    if not isinstance(error, KafkaError):
        return f"{type(error).__module__}.{type(error).__qualname__}"
    words = "".join(word.capitalize() for word in error.error.name.removesuffix("_EXCEPTION").split("_"))
    name, _ = _JAVA_ERRORS.get(error.error.name, (words, ""))
    return f"{_JAVA_PACKAGE}{name}Exception"


def java_error(error: OttlaError) -> str:
    """As Java prints an exception: its class and its message."""
    if not isinstance(error, KafkaError):
        return str(error)
    return f"{java_class(error)}: {broker_message(error)}"
