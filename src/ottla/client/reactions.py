"""What clients do about error codes: one table for every answer that they read. Pure.

`action_for(code, call)` looks a code up: first in the row of the call, then in the rows for all calls. A code
without a row is tried again if a second try does no harm (not for Produce, OffsetCommit, transactions and
administrative calls): a broker may answer anything for a moment, and a reader that gives up because of it
would own a partition and not read it. The other calls are tried again only if Kafka calls the code retriable.

FAIL is raised in the caller. A partition that a FAIL stops is tried again all the same, less and less often
(`ottla.fetching`). docs/errors.md shows the table beside what Kafka's own clients do.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from ottla.model.error_codes import Code
from ottla.model.errors import ConnectionLost, KafkaError, OttlaError, RequestTimedOut


class Call(Enum):
    """The calls whose answers are read; OTHER is for administrative calls."""

    FETCH = "Fetch"
    LIST_OFFSETS = "ListOffsets"
    METADATA = "Metadata"
    OFFSET_FETCH = "OffsetFetch"
    OFFSET_COMMIT = "OffsetCommit"
    PRODUCE = "Produce"
    INIT_PRODUCER_ID = "InitProducerId"
    TRANSACTION = "calls of a transactional producer to coordinators"
    FIND_COORDINATOR = "FindCoordinator"
    JOIN_GROUP = "JoinGroup"
    SYNC_GROUP = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    LEAVE_GROUP = "LeaveGroup"
    CONSUMER_GROUP_HEARTBEAT = "ConsumerGroupHeartbeat"
    OTHER = "other"


class Action(Enum):
    """What is done about an error code."""

    NONE = "no error"
    RETRY = "try again later"
    REFRESH = "refresh the metadata, then try again"
    FIND_COORDINATOR = "look the coordinator up again, then try again"
    RESET = "continue where auto.offset.reset says"
    TAKE_ID = "join with the id that came with the error"
    REJOIN = "join again"
    FORGET_GENERATION = "the partitions are lost; join again"
    FORGET_MEMBER = "the partitions are lost; join with a new member id"
    STORED = "the records are in the log already"
    SPLIT = "send the batch in two halves"
    RENUMBER = "the number is not the next: send again, renumbered if it is the first"
    NEW_IDENTITY = "the producer's id is refused: send with another"
    FENCED = "the producer is dead: another one has its transactional id"
    IGNORE = "log it"
    FAIL_LATER = "try again; tell the caller if that fails until the session is over"
    FAIL = "tell the caller"


_FOR_ALL_CALLS: Mapping[Code, Action] = {
    Code.NONE: Action.NONE,
    # Another broker leads the partition, or this broker does not know it (yet).
    Code.UNKNOWN_TOPIC_OR_PARTITION: Action.REFRESH,
    Code.LEADER_NOT_AVAILABLE: Action.REFRESH,
    Code.NOT_LEADER_OR_FOLLOWER: Action.REFRESH,
    Code.BROKER_NOT_AVAILABLE: Action.REFRESH,  # Kafka calls it final, but 0.8 brokers answer it
    Code.REPLICA_NOT_AVAILABLE: Action.REFRESH,
    Code.NETWORK_EXCEPTION: Action.REFRESH,
    Code.KAFKA_STORAGE_ERROR: Action.REFRESH,
    Code.LISTENER_NOT_FOUND: Action.REFRESH,
    Code.FENCED_LEADER_EPOCH: Action.REFRESH,
    Code.UNKNOWN_TOPIC_ID: Action.REFRESH,
    Code.INCONSISTENT_TOPIC_ID: Action.REFRESH,
    Code.NOT_CONTROLLER: Action.REFRESH,
    # The broker has older metadata than this client.
    Code.UNKNOWN_LEADER_EPOCH: Action.RETRY,
    # Another broker coordinates the group, or no broker at present.
    Code.COORDINATOR_NOT_AVAILABLE: Action.FIND_COORDINATOR,
    Code.NOT_COORDINATOR: Action.FIND_COORDINATOR,
    # Somebody has to change rights, settings or versions.
    **dict.fromkeys(
        (
            Code.TOPIC_AUTHORIZATION_FAILED,
            Code.GROUP_AUTHORIZATION_FAILED,
            Code.CLUSTER_AUTHORIZATION_FAILED,
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
            Code.SASL_AUTHENTICATION_FAILED,
            Code.UNSUPPORTED_SASL_MECHANISM,
            Code.ILLEGAL_SASL_STATE,
            Code.SECURITY_DISABLED,
            Code.POLICY_VIOLATION,
            Code.UNSUPPORTED_VERSION,
            Code.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            Code.UNSUPPORTED_COMPRESSION_TYPE,
            Code.INVALID_REQUEST,
            Code.INVALID_TOPIC_EXCEPTION,
            Code.INVALID_GROUP_ID,
        ),
        Action.FAIL,
    ),
}

_MEMBER: Mapping[Code, Action] = {
    Code.REBALANCE_IN_PROGRESS: Action.REJOIN,
    Code.ILLEGAL_GENERATION: Action.FORGET_GENERATION,
    Code.UNKNOWN_MEMBER_ID: Action.FORGET_MEMBER,
    Code.FENCED_INSTANCE_ID: Action.FAIL,
    Code.UNRELEASED_INSTANCE_ID: Action.FAIL,
    Code.INCONSISTENT_GROUP_PROTOCOL: Action.FAIL,
    Code.INVALID_SESSION_TIMEOUT: Action.FAIL,
    Code.GROUP_MAX_SIZE_REACHED: Action.FAIL,
    Code.UNSUPPORTED_ASSIGNOR: Action.FAIL,
}


def _later(row: Mapping[Code, Action]) -> dict[Code, Action]:
    return {code: Action.FAIL_LATER for code, action in row.items() if action is Action.FAIL}


_OF_CALL: Mapping[Call, Mapping[Code, Action]] = {
    Call.FETCH: {
        Code.OFFSET_OUT_OF_RANGE: Action.RESET,
        # Kafka calls it retriable, but a broker whose disk is damaged will find the damage again.
        Code.CORRUPT_MESSAGE: Action.FAIL,
        Code.INVALID_FETCH_SIZE: Action.FAIL,
        Code.MESSAGE_TOO_LARGE: Action.FAIL,
    },
    Call.OFFSET_COMMIT: {
        **_MEMBER,
        Code.UNKNOWN_SERVER_ERROR: Action.RETRY,
        # The next heartbeat brings the member's new epoch.
        Code.STALE_MEMBER_EPOCH: Action.REJOIN,
        Code.FENCED_MEMBER_EPOCH: Action.FORGET_GENERATION,
    },
    Call.PRODUCE: {
        Code.DUPLICATE_SEQUENCE_NUMBER: Action.STORED,
        Code.MESSAGE_TOO_LARGE: Action.SPLIT,
        Code.RECORD_LIST_TOO_LARGE: Action.SPLIT,
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER: Action.RENUMBER,
        Code.UNKNOWN_PRODUCER_ID: Action.RENUMBER,
        Code.INVALID_PRODUCER_EPOCH: Action.NEW_IDENTITY,
        Code.INVALID_PRODUCER_ID_MAPPING: Action.NEW_IDENTITY,
    },
    # A code that fails here ends the transaction.
    Call.TRANSACTION: {
        Code.INVALID_PRODUCER_EPOCH: Action.FENCED,  # before Kafka 2.7
        Code.PRODUCER_FENCED: Action.FENCED,
    },
    Call.JOIN_GROUP: {**_MEMBER, Code.MEMBER_ID_REQUIRED: Action.TAKE_ID},
    Call.SYNC_GROUP: _MEMBER,
    # The partitions are read meanwhile, and the members of the group do not take them yet.
    Call.HEARTBEAT: {
        **_MEMBER,
        **_later({**_FOR_ALL_CALLS, **_MEMBER}),
        Code.FENCED_INSTANCE_ID: Action.FAIL,
    },
    # A member of a consumer group (KIP-848) keeps its own id.
    Call.CONSUMER_GROUP_HEARTBEAT: {
        **_MEMBER,
        **_later(_FOR_ALL_CALLS),
        Code.UNKNOWN_MEMBER_ID: Action.FORGET_GENERATION,
        Code.FENCED_MEMBER_EPOCH: Action.FORGET_GENERATION,
        Code.UNSUPPORTED_VERSION: Action.FAIL,
        Code.INVALID_REQUEST: Action.FAIL,
        Code.GROUP_ID_NOT_FOUND: Action.FORGET_GENERATION,  # its last member has left; final for a join
        Code.INVALID_REGULAR_EXPRESSION: Action.FAIL,
    },
    # Nothing depends on the answer: the session expires by itself.
    Call.LEAVE_GROUP: {code: Action.IGNORE for code in Code if code is not Code.NONE},
}

_WITHOUT_COORDINATOR = frozenset({Call.FETCH, Call.LIST_OFFSETS, Call.METADATA, Call.PRODUCE})
_NOT_REPEATED_UNASKED = frozenset({Call.OFFSET_COMMIT, Call.PRODUCE, Call.TRANSACTION, Call.OTHER})


def _row(call: Call) -> dict[Code, Action]:
    def default(code: Code) -> Action:
        is_repeated = code.retriable or call not in _NOT_REPEATED_UNASKED
        return Action.RETRY if is_repeated else Action.FAIL

    special = {**_FOR_ALL_CALLS, **_OF_CALL.get(call, {})}
    if call in _WITHOUT_COORDINATOR:
        special |= dict.fromkeys((Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR), Action.RETRY)
    return {code: special.get(code) or default(code) for code in Code}


REACTIONS: Mapping[Call, Mapping[Code, Action]] = MappingProxyType({call: _row(call) for call in Call})
"""Every code of Kafka for every call. A code that is newer than the table counts as UNKNOWN_SERVER_ERROR."""


def action_for(code: int, call: Call = Call.OTHER) -> Action:
    """Return what to do about an error code in the answer to a call."""
    return REACTIONS[call][Code.of(code)]


def action_about(error: OttlaError, call: Call = Call.OTHER) -> Action:
    """Return what to do about an error that a call raised; REFRESH for a lost connection or a timeout."""
    if isinstance(error, KafkaError):
        return action_for(error.code, call)
    if isinstance(error, ConnectionLost | RequestTimedOut):
        return Action.REFRESH
    return Action.FAIL
