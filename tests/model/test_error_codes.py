"""The table of protocol errors: facts transcribed from Kafka 4.4.0, texts of our own."""

import pytest

from ottla.model.error_codes import Code, ErrorCode, error_code
from ottla.model.errors import KafkaError

# Numbers and names of the classic stack, and the flag of Kafka 4.4.0's Errors enum.
RETRIABLE = {
    2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    9: "REPLICA_NOT_AVAILABLE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    41: "NOT_CONTROLLER",
    51: "CONCURRENT_TRANSACTIONS",
    56: "KAFKA_STORAGE_ERROR",
    70: "FETCH_SESSION_ID_NOT_FOUND",
    71: "INVALID_FETCH_SESSION_EPOCH",
    72: "LISTENER_NOT_FOUND",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
    80: "PREFERRED_LEADER_NOT_AVAILABLE",
    83: "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    84: "ELECTION_NOT_NEEDED",
    88: "UNSTABLE_OFFSET_COMMIT",
    89: "THROTTLING_QUOTA_EXCEEDED",
    100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
    106: "FETCH_SESSION_TOPIC_ID_ERROR",
    122: "SHARE_SESSION_NOT_FOUND",
    123: "INVALID_SHARE_SESSION_EPOCH",
    133: "SHARE_SESSION_LIMIT_REACHED",
}
FINAL = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    1: "OFFSET_OUT_OF_RANGE",
    4: "INVALID_FETCH_SIZE",
    8: "BROKER_NOT_AVAILABLE",
    10: "MESSAGE_TOO_LARGE",
    12: "OFFSET_METADATA_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    21: "INVALID_REQUIRED_ACKS",
    22: "ILLEGAL_GENERATION",
    25: "UNKNOWN_MEMBER_ID",
    27: "REBALANCE_IN_PROGRESS",
    35: "UNSUPPORTED_VERSION",
    42: "INVALID_REQUEST",
    68: "NON_EMPTY_GROUP",
    69: "GROUP_ID_NOT_FOUND",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    79: "MEMBER_ID_REQUIRED",
    81: "GROUP_MAX_SIZE_REACHED",
    82: "FENCED_INSTANCE_ID",
    87: "INVALID_RECORD",
    110: "FENCED_MEMBER_EPOCH",
    113: "STALE_MEMBER_EPOCH",
    129: "REBOOTSTRAP_REQUIRED",
    132: "STREAMS_TOPOLOGY_FENCED",
}


@pytest.mark.parametrize(("code", "name"), [*RETRIABLE.items(), *FINAL.items()])
def test_rows_say_what_kafka_says(code: int, name: str) -> None:
    row = error_code(code)
    assert (row.code, row.name, row.retriable) == (code, name, code in RETRIABLE)
    assert Code[name] == code


def test_all_retriable_codes_are_the_listed_ones() -> None:
    assert {int(code) for code in Code if code.retriable} == set(RETRIABLE)


def test_codes_have_no_gaps_and_names_no_aliases() -> None:
    assert [int(code) for code in Code] == list(range(-1, 137))
    assert len(Code.__members__) == len(Code)


def test_every_row_has_a_sentence_of_its_own() -> None:
    texts = [code.text for code in Code]
    assert all(texts)
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("code", [-2, 137, 32767, -32768])
def test_an_unknown_code_keeps_its_number_and_is_final(code: int) -> None:
    row = error_code(code)
    assert row == ErrorCode(code, "UNKNOWN_SERVER_ERROR", retriable=False, text=row.text)
    assert str(code) in row.text


def test_the_exception_shows_name_number_and_sentence() -> None:
    error = KafkaError(Code.NOT_LEADER_OR_FOLLOWER, "fetch of orders-3")
    assert (error.code, error.retriable) == (6, True)
    assert str(error).startswith("fetch of orders-3: NOT_LEADER_OR_FOLLOWER (6): the partition has moved")
