"""Protocol error codes as data: a table of number, name, retriable and a sentence for people.

`Code` is that table. A member is an int, so decoded fields compare with it directly
(`partition.error_code == Code.NOT_LEADER_OR_FOLLOWER`), and it carries `retriable` and `text`.
`error_code(n)` turns any number into an `ErrorCode`, also a number that no broker had when this was
written: it then behaves as UNKNOWN_SERVER_ERROR but keeps its number, since the number is all that
a person can look up.

`retriable` is Kafka 4.1's own flag: the same request may succeed later without a change. It says
nothing of what to do first (refresh metadata, find the coordinator again); callers decide that by
name. Brokers of 0.8 used 13 for a stale leader epoch; later brokers mean NETWORK_EXCEPTION.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

_RETRY = True
_FINAL = False


class Code(IntEnum):
    """Every code of Kafka 4.1. Members compare equal to the number on the wire."""

    retriable: bool
    text: str

    def __new__(cls, code: int, retriable: bool, text: str) -> Code:  # noqa: FBT001 - rows are positional
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.text = text
        return member

    @classmethod
    def of(cls, number: int) -> Code:
        """Return the member with this number; UNKNOWN_SERVER_ERROR if there is none."""
        return _MEMBERS.get(number, cls.UNKNOWN_SERVER_ERROR)

    UNKNOWN_SERVER_ERROR = -1, _FINAL, "the broker failed in a way it has no code for; its log says more"
    NONE = 0, _FINAL, "no error"
    OFFSET_OUT_OF_RANGE = 1, _FINAL, "the offset is not in the log any more, or not yet; reset the position"
    CORRUPT_MESSAGE = 2, _RETRY, "a checksum or size is wrong; damaged on the way or on disk"
    UNKNOWN_TOPIC_OR_PARTITION = 3, _RETRY, "this broker does not host the topic or partition"
    INVALID_FETCH_SIZE = (
        4,
        _FINAL,
        "the fetch size is not usable; request a positive number of bytes",
    )
    LEADER_NOT_AVAILABLE = 5, _RETRY, "the partition has no leader at present; an election is due"
    NOT_LEADER_OR_FOLLOWER = 6, _RETRY, "the partition has moved to another broker; refresh metadata"
    REQUEST_TIMED_OUT = 7, _RETRY, "the broker could not finish within the time that the request allowed"
    BROKER_NOT_AVAILABLE = 8, _FINAL, "the broker that is needed is down"
    REPLICA_NOT_AVAILABLE = 9, _RETRY, "a replica is down; harmless where the leader is given as well"
    MESSAGE_TOO_LARGE = 10, _FINAL, "a batch is above the topic's max.message.bytes; send smaller batches"
    STALE_CONTROLLER_EPOCH = 11, _FINAL, "the sender is a controller that has been replaced"
    OFFSET_METADATA_TOO_LARGE = 12, _FINAL, "the note committed with the offset is too long"
    NETWORK_EXCEPTION = 13, _RETRY, "the connection broke before an answer came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRY, "the coordinator still reads its state; wait and ask again"
    COORDINATOR_NOT_AVAILABLE = 15, _RETRY, "no coordinator is up for this group or transaction yet"
    NOT_COORDINATOR = 16, _RETRY, "another broker coordinates this group or transaction; look it up again"
    INVALID_TOPIC_EXCEPTION = 17, _FINAL, "the topic name is not allowed, or the topic may not be written to"
    RECORD_LIST_TOO_LARGE = 18, _FINAL, "the records of one request are larger than a log segment"
    NOT_ENOUGH_REPLICAS = 19, _RETRY, "fewer replicas are in sync than min.insync.replicas; nothing written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, _RETRY, "written on too few replicas; a retry may duplicate it"
    INVALID_REQUIRED_ACKS = 21, _FINAL, "acks must be 0, 1 or -1 (all)"
    ILLEGAL_GENERATION = 22, _FINAL, "the group has moved to another generation; join again"
    INCONSISTENT_GROUP_PROTOCOL = 23, _FINAL, "no assignment strategy is common to all members of the group"
    INVALID_GROUP_ID = 24, _FINAL, "the group id is empty or not allowed"
    UNKNOWN_MEMBER_ID = 25, _FINAL, "the group does not know this member (any more); join again as a new one"
    INVALID_SESSION_TIMEOUT = 26, _FINAL, "the session timeout is outside the range that the broker allows"
    REBALANCE_IN_PROGRESS = 27, _FINAL, "the group is rebalancing; join again to take part"
    INVALID_COMMIT_OFFSET_SIZE = 28, _FINAL, "the offsets of this commit do not fit into one batch"
    TOPIC_AUTHORIZATION_FAILED = 29, _FINAL, "this user may not do that with the topic"
    GROUP_AUTHORIZATION_FAILED = 30, _FINAL, "this user may not do that with the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, _FINAL, "this user may not do that with the cluster"
    INVALID_TIMESTAMP = 32, _FINAL, "a record's time is too far from the broker's clock"
    UNSUPPORTED_SASL_MECHANISM = 33, _FINAL, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, _FINAL, "the request does not fit into this step of authentication"
    UNSUPPORTED_VERSION = 35, _FINAL, "the broker does not speak this version of the request"
    TOPIC_ALREADY_EXISTS = 36, _FINAL, "a topic of that name already exists"
    INVALID_PARTITIONS = 37, _FINAL, "the number of partitions must be positive and may only grow"
    INVALID_REPLICATION_FACTOR = 38, _FINAL, "the replication factor is below 1 or above the broker count"
    INVALID_REPLICA_ASSIGNMENT = 39, _FINAL, "the given placement of replicas is not possible"
    INVALID_CONFIG = 40, _FINAL, "a setting has an unknown name or a value that is not allowed"
    NOT_CONTROLLER = 41, _RETRY, "another broker is the controller; look it up again"
    INVALID_REQUEST = 42, _FINAL, "the broker could not make sense of the request"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, _FINAL, "the topic's message format is too old for this operation"
    POLICY_VIOLATION = 44, _FINAL, "a rule set by the cluster's owner forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _FINAL, "a batch of this producer is missing before this one"
    DUPLICATE_SEQUENCE_NUMBER = 46, _FINAL, "the broker has stored this batch already"
    INVALID_PRODUCER_EPOCH = 47, _FINAL, "a newer producer with the same id has taken over"
    INVALID_TXN_STATE = 48, _FINAL, "the transaction is in a state that does not allow this step"
    INVALID_PRODUCER_ID_MAPPING = 49, _FINAL, "the producer id does not belong to this transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, _FINAL, "the transaction timeout is above the broker's maximum"
    CONCURRENT_TRANSACTIONS = 51, _RETRY, "an earlier transaction of this id is still being completed"
    TRANSACTION_COORDINATOR_FENCED = 52, _FINAL, "the sending transaction coordinator has been replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _FINAL, "this user may not use the transactional id"
    SECURITY_DISABLED = 54, _FINAL, "the broker runs without an authorizer"
    OPERATION_NOT_ATTEMPTED = 55, _FINAL, "skipped, because another part of the same request failed"
    KAFKA_STORAGE_ERROR = 56, _RETRY, "the broker's disk failed; another replica may take over"
    LOG_DIR_NOT_FOUND = 57, _FINAL, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, _FINAL, "the credentials were refused"
    UNKNOWN_PRODUCER_ID = 59, _FINAL, "the broker has forgotten this producer, since its records were deleted"
    REASSIGNMENT_IN_PROGRESS = 60, _FINAL, "replicas of the partition are being moved already"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _FINAL, "the broker does not use delegation tokens"
    DELEGATION_TOKEN_NOT_FOUND = 62, _FINAL, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _FINAL, "the delegation token belongs to somebody else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, _FINAL, "this connection cannot handle delegation tokens"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _FINAL, "this user may not do that with delegation tokens"
    DELEGATION_TOKEN_EXPIRED = 66, _FINAL, "the delegation token has expired; get a new one"
    INVALID_PRINCIPAL_TYPE = 67, _FINAL, "the kind of principal is not known to the broker"
    NON_EMPTY_GROUP = 68, _FINAL, "the group still has members; stop them first"
    GROUP_ID_NOT_FOUND = 69, _FINAL, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRY, "the broker dropped the fetch session; start a new one"
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRY, "the fetch session is out of step; start a new one"
    LISTENER_NOT_FOUND = 72, _RETRY, "the leader has no listener of the kind that this connection uses"
    TOPIC_DELETION_DISABLED = 73, _FINAL, "the broker runs with delete.topic.enable=false"
    FENCED_LEADER_EPOCH = 74, _RETRY, "our leader epoch is older than the broker's; refresh metadata"
    UNKNOWN_LEADER_EPOCH = 75, _RETRY, "our leader epoch is newer than the broker's; it has yet to catch up"
    UNSUPPORTED_COMPRESSION_TYPE = 76, _FINAL, "this version of the request cannot carry the codec"
    STALE_BROKER_EPOCH = 77, _FINAL, "the broker has been restarted since the request was made"
    OFFSET_NOT_AVAILABLE = 78, _RETRY, "a new leader does not know its latest offset yet"
    MEMBER_ID_REQUIRED = 79, _FINAL, "join again with the member id that came with this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _RETRY, "the preferred leader is not up"
    GROUP_MAX_SIZE_REACHED = 81, _FINAL, "the group has as many members as the broker allows"
    FENCED_INSTANCE_ID = 82, _FINAL, "another member has taken over this group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _RETRY, "no replica that may lead is up"
    ELECTION_NOT_NEEDED = 84, _RETRY, "the partition has the right leader already"
    NO_REASSIGNMENT_IN_PROGRESS = 85, _FINAL, "no replicas of the partition are being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _FINAL, "offsets cannot be deleted while the group reads the topic"
    INVALID_RECORD = 87, _FINAL, "the broker refused a record, e.g. one without a key in a compacted topic"
    UNSTABLE_OFFSET_COMMIT = 88, _RETRY, "an open transaction may still change these offsets"
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRY, "a quota is used up; wait as long as the answer says"
    PRODUCER_FENCED = 90, _FINAL, "a newer producer with the same transactional id has taken over"
    RESOURCE_NOT_FOUND = 91, _FINAL, "the request names something that does not exist"
    DUPLICATE_RESOURCE = 92, _FINAL, "the request names the same thing twice"
    UNACCEPTABLE_CREDENTIAL = 93, _FINAL, "the new credential breaks the broker's rules"
    INCONSISTENT_VOTER_SET = 94, _FINAL, "sender and receiver do not agree on who may vote"
    INVALID_UPDATE_VERSION = 95, _FINAL, "the feature level or state version is not a valid next one"
    FEATURE_UPDATE_FAILED = 96, _FINAL, "the features could not be changed; the controller's log says why"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, _FINAL, "the principal of a forwarded request is unreadable"
    SNAPSHOT_NOT_FOUND = 98, _FINAL, "the metadata snapshot is gone"
    POSITION_OUT_OF_RANGE = 99, _FINAL, "the position is outside the metadata snapshot"
    UNKNOWN_TOPIC_ID = 100, _RETRY, "this broker does not know the topic id; refresh metadata"
    DUPLICATE_BROKER_REGISTRATION = 101, _FINAL, "a running broker has this broker id already"
    BROKER_ID_NOT_REGISTERED = 102, _FINAL, "no broker of this id is registered"
    INCONSISTENT_TOPIC_ID = (
        103,
        _RETRY,
        "the topic id differs from that in the log: the topic was recreated",
    )
    INCONSISTENT_CLUSTER_ID = 104, _FINAL, "the request was meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, _FINAL, "the transactional id is not known"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _RETRY, "the fetch session mixes topic names and ids; start a new one"
    INELIGIBLE_REPLICA = 107, _FINAL, "the replica may not join the in-sync set now"
    NEW_LEADER_ELECTED = 108, _FINAL, "the change made another replica the leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _FINAL, "the offset is only in tiered storage, not on disk"
    FENCED_MEMBER_EPOCH = 110, _FINAL, "the coordinator has fenced this member; give up partitions and rejoin"
    UNRELEASED_INSTANCE_ID = 111, _FINAL, "a running member still holds this group.instance.id"
    UNSUPPORTED_ASSIGNOR = 112, _FINAL, "the group cannot use the assignor that the member requested"
    STALE_MEMBER_EPOCH = 113, _FINAL, "the member's epoch is not the latest; heartbeat first, then retry"
    MISMATCHED_ENDPOINT_TYPE = 114, _FINAL, "only a controller answers this, or only a broker"
    UNSUPPORTED_ENDPOINT_TYPE = 115, _FINAL, "the broker does not know this kind of endpoint"
    UNKNOWN_CONTROLLER_ID = 116, _FINAL, "there is no controller of this id"
    UNKNOWN_SUBSCRIPTION_ID = 117, _FINAL, "the telemetry subscription is out of date; ask for it again"
    TELEMETRY_TOO_LARGE = 118, _FINAL, "the pushed metrics are larger than the broker takes"
    INVALID_REGISTRATION = 119, _FINAL, "the controller refused the broker's registration"
    TRANSACTION_ABORTABLE = 120, _FINAL, "this transaction cannot be completed; abort it and begin another"
    INVALID_RECORD_STATE = 121, _FINAL, "the shared record cannot be acknowledged in the state that it is in"
    SHARE_SESSION_NOT_FOUND = 122, _RETRY, "the broker dropped the share session; start a new one"
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRY, "the share session is out of step; start a new one"
    FENCED_STATE_EPOCH = 124, _FINAL, "the share state has been taken over by a newer owner"
    INVALID_VOTER_KEY = 125, _FINAL, "the voter's key is not the receiver's"
    DUPLICATE_VOTER = 126, _FINAL, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, _FINAL, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, _FINAL, "the broker cannot compile the pattern; it uses RE2 syntax"
    REBOOTSTRAP_REQUIRED = 129, _FINAL, "the known cluster is stale; start from bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, _FINAL, "the streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, _FINAL, "the epoch of the streams topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, _FINAL, "the group runs a newer streams topology"
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRY, "the broker holds as many share sessions as it allows"
    GROUP_DELETION_FAILED = 134, _FINAL, "the group could not be deleted; the answer's text says why"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        _FINAL,
        "the streams topology could not be described anew",
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, _FINAL, "no controller is registered under the id"


_MEMBERS: dict[int, Code] = {int(member): member for member in Code}


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """An error code: `retriable` as in Kafka, `text` for people."""

    code: int
    name: str
    retriable: bool
    text: str


_KNOWN = {int(code): ErrorCode(int(code), code.name, code.retriable, code.text) for code in Code}


def error_code(code: int) -> ErrorCode:
    """Return the row for a number from the wire; an unknown number keeps itself and is not retriable."""
    return _KNOWN.get(code) or ErrorCode(
        code,
        Code.UNKNOWN_SERVER_ERROR.name,
        _FINAL,
        f"the broker sent code {code}, which is newer than this library's table",
    )
