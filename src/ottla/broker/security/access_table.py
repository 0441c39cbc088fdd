"""The access table: which operations each API checks, on which resources, as Kafka 4.x does. By API key.

An API without a row needs ClusterAction on the cluster: so a new handler is closed at first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.broker.security.access_rules import ERRORS, Access, Allowed, Asker, Each, OnlyVisible, Whole
from ottla.model.acls import CLUSTER_NAME, ResourceType
from ottla.model.error_codes import Code
from ottla.model.permissions import Operation
from ottla.wire.declared_class import replaced

CLUSTER, GROUP, TOPIC = ResourceType.CLUSTER, ResourceType.GROUP, ResourceType.TOPIC
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE, DELETE, ALTER = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
)
DESCRIBE, DESCRIBE_CONFIGS = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS
ALTER_CONFIGS, CLUSTER_ACTION = Operation.ALTER_CONFIGS, Operation.CLUSTER_ACTION

_CONFIG_RESOURCES = {2: TOPIC, 32: GROUP}
"""Resource types of the config APIs whose resources have rights of their own; others are the cluster's."""
_SEVERAL_TRANSACTIONS_SINCE = 4
_SEVERAL_GROUPS_SINCE = 8
_SEVERAL_KEYS_SINCE = 4
_NO_SESSION = -1


def _cluster(operation: Operation) -> Access:
    return Access(whole=(Whole(lambda asker, _: asker.may(operation, CLUSTER), ERRORS[CLUSTER]),))


def _named(operation: Operation, resource: ResourceType, field: str) -> Whole:
    """One check of the resource that a field of the request names; null names none, and passes."""

    def test(asker: Asker, request: Any) -> bool:
        name = getattr(request, field)
        return name is None or asker.may(operation, resource, name)

    return Whole(test, ERRORS[resource])


def _topics(operation: Operation, requested: str = "topics", answered: str = "topics") -> Each:
    """Check each topic, by name or by id. The handler refuses an id that does not exist."""

    def test(asker: Asker, _request: Any, item: Any) -> bool:
        name = asker.topic(item)
        return name is None or asker.may(operation, TOPIC, name)

    return Each(requested, answered, test, ERRORS[TOPIC])


def _texts(operation: Operation, resource: ResourceType, requested: str, answered: str) -> Each:
    """Check each name in a list of names."""
    return Each(
        requested, answered, lambda asker, _, name: asker.may(operation, resource, name), ERRORS[resource]
    )


def _configs(operation: Operation, answered: str) -> Access:
    """Return the rules of a config API: topics and groups have rights of their own, the rest is the
    cluster's.
    """

    def test(asker: Asker, _request: Any, item: Any) -> bool:
        resource = _CONFIG_RESOURCES.get(item.resource_type, CLUSTER)
        name = CLUSTER_NAME if resource is CLUSTER else item.resource_name
        return asker.may(operation, resource, name)

    def error(_asker: Asker, item: Any) -> Code:
        return ERRORS[_CONFIG_RESOURCES.get(item.resource_type, CLUSTER)]

    return Access(each=(Each("resources", answered, test, error),))


def _shown(path: tuple[str, ...], field: str, resource: ResourceType) -> OnlyVisible:
    return OnlyVisible(
        path, lambda asker, item: asker.may(DESCRIBE, resource, getattr(item, field), logs=False)
    )


def _metadata_topic(asker: Asker, request: Any, item: Any) -> bool:
    name = asker.topic(item)
    if name is None:
        return True
    if not asker.may(DESCRIBE, TOPIC, name):
        return False
    if not asker.creates(request, name):
        return True
    return asker.may(CREATE, CLUSTER, logs=False) or asker.may(CREATE, TOPIC, name)


def _created_topic(asker: Asker, _request: Any, item: Any) -> bool:
    return asker.may(CREATE, CLUSTER, logs=False) or asker.may(CREATE, TOPIC, item.name)


def _listed_group(asker: Asker, item: Any) -> bool:
    if asker.may(DESCRIBE, CLUSTER, logs=False):
        return True
    return asker.may(DESCRIBE, GROUP, item.group_id, logs=False)


def _coordinator_key(asker: Asker, request: Any, key: str) -> bool:
    if request.key_type == 0:
        return asker.may(DESCRIBE, GROUP, key)
    if request.key_type == 1:
        return asker.may(DESCRIBE, TRANSACTIONAL_ID, key)
    return asker.may(CLUSTER_ACTION, CLUSTER)


def _coordinator_kind(kind: int, error: Code) -> Whole:
    """Check FindCoordinator of one key (before version 4): the whole request."""

    def test(asker: Asker, request: Any) -> bool:
        is_other = asker.version >= _SEVERAL_KEYS_SINCE or request.key_type != kind
        return is_other or _coordinator_key(asker, request, request.key)

    return Whole(test, error)


def _of_coordinator_keys(kind: int, error: Code) -> Each:
    def test(asker: Asker, request: Any, key: str) -> bool:
        return request.key_type != kind or _coordinator_key(asker, request, key)

    return Each("coordinator_keys", "coordinators", test, error)


def _producer_id(asker: Asker, request: Any) -> bool:
    if request.transactional_id is not None:
        return True
    return asker.may(Operation.IDEMPOTENT_WRITE, CLUSTER, logs=False) or asker.may_any(WRITE, TOPIC)


def _transaction_partitions(asker: Asker, request: Any) -> bool:
    """Check AddPartitionsToTxn: before version 4 a request of a client, from then on one of brokers."""
    if asker.version >= _SEVERAL_TRANSACTIONS_SINCE:
        return True
    return asker.may(WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id)


def _transactions_of_brokers(asker: Asker, _request: Any) -> bool:
    return asker.version < _SEVERAL_TRANSACTIONS_SINCE or asker.may(CLUSTER_ACTION, CLUSTER)


def _epoch_topic(asker: Asker, _request: Any, item: Any) -> bool:
    return asker.may(CLUSTER_ACTION, CLUSTER, logs=False) or asker.may(DESCRIBE, TOPIC, item.topic)


def _subscribed_topics(asker: Asker, request: Any) -> bool:
    return all(asker.may(DESCRIBE, TOPIC, name) for name in request.subscribed_topic_names or ())


def _fetched_group(asker: Asker, request: Any) -> bool:
    """Check OffsetFetch of one group (before version 8)."""
    return asker.version >= _SEVERAL_GROUPS_SINCE or asker.may(DESCRIBE, GROUP, request.group_id)


def _seen_topic(asker: Asker, item: Any) -> bool:
    name = asker.topic(item)
    return item.error_code != Code.NONE or name is None or asker.may(DESCRIBE, TOPIC, name, logs=False)


def _fetched_offsets(asker: Asker, item: Any) -> bool:
    """Whether offsets of a topic are visible. If not: an error if the request names the topic,
    else nothing.
    """
    name = asker.topic(item)
    if name is None or asker.may(DESCRIBE, TOPIC, name, logs=asker.names_topics):
        return True
    for partition in item.partitions:
        partition.committed_offset = partition.committed_leader_epoch = -1
        partition.metadata, partition.error_code = "", ERRORS[TOPIC]
    return asker.names_topics


def _share_offsets(asker: Asker, item: Any) -> bool:
    """Whether a share group's offsets in a topic are visible; if not, they are replaced by an error."""
    if asker.may(DESCRIBE, TOPIC, item.topic_name):
        return True
    item.topic_id = bytes(16)
    for partition in item.partitions:
        partition.start_offset = partition.leader_epoch = partition.lag = -1
        partition.error_code, partition.error_message = ERRORS[TOPIC], ERRORS[TOPIC].text
    return True


def _created_settings(asker: Asker, item: Any) -> bool:
    """Whether the client may see the settings of a new topic."""
    if item.error_code == Code.NONE and not asker.may(DESCRIBE_CONFIGS, TOPIC, item.name, logs=False):
        item.topic_config_error_code = ERRORS[TOPIC]
        item.num_partitions = item.replication_factor = -1
        item.configs = []
    return True


def _transaction_topics(asker: Asker, request: Any, _item: Any) -> bool:
    """Whether all topics may be written: all or none of them are added."""
    return all(asker.may(WRITE, TOPIC, topic.name) for topic in request.v3_and_below_topics)


def _transaction_error(asker: Asker, item: Any) -> Code:
    is_allowed = asker.may(WRITE, TOPIC, item.name, logs=False)
    return Code.OPERATION_NOT_ATTEMPTED if is_allowed else ERRORS[TOPIC]


def _without_session(request: Any) -> Any:
    """Return a fetch that begins no session: later requests of a session do not name all that they read."""
    return replaced(request, session_epoch=_NO_SESSION) if request.session_epoch == 0 else request


def _read_topic(asker: Asker, item: Any) -> bool:
    name = asker.topic(item)
    return name is None or asker.may(READ, TOPIC, name)


_READ_GROUP = _named(READ, GROUP, "group_id")
_WRITE_TRANSACTION = _named(WRITE, TRANSACTIONAL_ID, "transactional_id")
_GROUPS = _texts(DESCRIBE, GROUP, "group_ids", "groups")
_GROUP_RIGHTS = Allowed("authorized_operations", GROUP, "groups", "group_id")
_CLUSTER_RIGHTS = Allowed("cluster_authorized_operations", CLUSTER)
_OPEN = Access()

ACCESS: Mapping[int, Access] = {
    0: Access((_WRITE_TRANSACTION,), (_topics(WRITE, "topic_data", "responses"),)),  # Produce
    1: Access(each=(_topics(READ, "topics", "responses"),), prepare=_without_session),  # Fetch
    2: Access(each=(_topics(DESCRIBE),)),  # ListOffsets
    3: Access(  # Metadata
        each=(Each("topics", "topics", _metadata_topic, ERRORS[TOPIC]),),
        answer=(
            OnlyVisible(("topics",), _seen_topic),
            Allowed("topic_authorized_operations", TOPIC, "topics", "name"),
            _CLUSTER_RIGHTS,
        ),
    ),
    8: Access((_READ_GROUP,), (_topics(READ),)),  # OffsetCommit
    9: Access(  # OffsetFetch
        whole=(Whole(_fetched_group, ERRORS[GROUP]),),
        each=(
            Each(
                "groups",
                "groups",
                lambda asker, _, item: asker.may(DESCRIBE, GROUP, item.group_id),
                ERRORS[GROUP],
            ),
        ),
        answer=(
            OnlyVisible(("topics",), _fetched_offsets),
            OnlyVisible(("groups", "topics"), _fetched_offsets),
        ),
    ),
    10: Access(  # FindCoordinator
        whole=(
            _coordinator_kind(0, ERRORS[GROUP]),
            _coordinator_kind(1, ERRORS[TRANSACTIONAL_ID]),
            _coordinator_kind(2, ERRORS[CLUSTER]),
        ),
        each=(
            _of_coordinator_keys(0, ERRORS[GROUP]),
            _of_coordinator_keys(1, ERRORS[TRANSACTIONAL_ID]),
            _of_coordinator_keys(2, ERRORS[CLUSTER]),
        ),
    ),
    11: Access((_READ_GROUP,)),  # JoinGroup
    12: Access((_READ_GROUP,)),  # Heartbeat
    13: Access((_READ_GROUP,)),  # LeaveGroup
    14: Access((_READ_GROUP,)),  # SyncGroup
    15: Access(
        each=(_texts(DESCRIBE, GROUP, "groups", "groups"),), answer=(_GROUP_RIGHTS,)
    ),  # DescribeGroups
    16: Access(answer=(OnlyVisible(("groups",), _listed_group),)),  # ListGroups
    17: _OPEN,  # SaslHandshake
    18: _OPEN,  # ApiVersions
    19: Access(  # CreateTopics
        each=(Each("topics", "topics", _created_topic, ERRORS[TOPIC]),),
        answer=(OnlyVisible(("topics",), _created_settings),),
    ),
    20: Access(
        each=(_topics(DELETE, "topics", "responses"), _texts(DELETE, TOPIC, "topic_names", "responses"))
    ),
    21: Access(each=(_topics(DELETE),)),  # DeleteRecords
    22: Access((_WRITE_TRANSACTION, Whole(_producer_id, ERRORS[CLUSTER]))),  # InitProducerId
    23: Access(each=(Each("topics", "topics", _epoch_topic, ERRORS[TOPIC]),)),  # OffsetForLeaderEpoch
    24: Access(  # AddPartitionsToTxn
        whole=(
            Whole(_transactions_of_brokers, ERRORS[CLUSTER]),
            Whole(_transaction_partitions, ERRORS[TRANSACTIONAL_ID]),
        ),
        each=(
            Each(
                "v3_and_below_topics",
                "results_by_topic_v3_and_below",
                _transaction_topics,
                _transaction_error,
            ),
        ),
    ),
    25: Access((_WRITE_TRANSACTION, _READ_GROUP)),  # AddOffsetsToTxn
    26: Access((_WRITE_TRANSACTION,)),  # EndTxn
    27: Access(  # WriteTxnMarkers
        (
            Whole(
                lambda asker, _: asker.may(ALTER, CLUSTER, logs=False) or asker.may(CLUSTER_ACTION, CLUSTER),
                ERRORS[CLUSTER],
            ),
        )
    ),
    28: Access((_WRITE_TRANSACTION, _READ_GROUP), (_topics(READ),)),  # TxnOffsetCommit
    29: _cluster(DESCRIBE),  # DescribeAcls
    30: _cluster(ALTER),  # CreateAcls
    31: _cluster(ALTER),  # DeleteAcls
    32: _configs(DESCRIBE_CONFIGS, "results"),  # DescribeConfigs
    33: _configs(ALTER_CONFIGS, "responses"),  # AlterConfigs
    34: _cluster(ALTER),  # AlterReplicaLogDirs
    35: _cluster(DESCRIBE),  # DescribeLogDirs
    36: _OPEN,  # SaslAuthenticate
    37: Access(each=(_topics(ALTER, "topics", "results"),)),  # CreatePartitions
    42: Access(each=(_texts(DELETE, GROUP, "groups_names", "results"),)),  # DeleteGroups
    43: _cluster(ALTER),  # ElectLeaders
    44: _configs(ALTER_CONFIGS, "responses"),  # IncrementalAlterConfigs
    45: _cluster(ALTER),  # AlterPartitionReassignments
    46: _cluster(DESCRIBE),  # ListPartitionReassignments
    47: Access((_named(DELETE, GROUP, "group_id"),), (_topics(READ),)),  # OffsetDelete
    48: _cluster(DESCRIBE_CONFIGS),  # DescribeClientQuotas
    49: _cluster(ALTER_CONFIGS),  # AlterClientQuotas
    50: _cluster(DESCRIBE),  # DescribeUserScramCredentials
    51: _cluster(ALTER),  # AlterUserScramCredentials
    55: _cluster(DESCRIBE),  # DescribeQuorum
    57: _cluster(ALTER),  # UpdateFeatures
    60: Access(answer=(_CLUSTER_RIGHTS,)),  # DescribeCluster
    61: Access(each=(_topics(READ),)),  # DescribeProducers
    64: _cluster(ALTER),  # UnregisterBroker
    65: Access(  # DescribeTransactions
        each=(_texts(DESCRIBE, TRANSACTIONAL_ID, "transactional_ids", "transaction_states"),),
        answer=(_shown(("transaction_states", "topics"), "topic", TOPIC),),
    ),
    66: Access(answer=(_shown(("transaction_states",), "transactional_id", TRANSACTIONAL_ID),)),
    68: Access((_READ_GROUP, Whole(_subscribed_topics, ERRORS[TOPIC]))),  # ConsumerGroupHeartbeat
    69: Access(each=(_GROUPS,), answer=(_GROUP_RIGHTS,)),  # ConsumerGroupDescribe
    71: _OPEN,  # GetTelemetrySubscriptions
    72: _OPEN,  # PushTelemetry
    74: _cluster(DESCRIBE_CONFIGS),  # ListConfigResources
    75: Access(  # DescribeTopicPartitions
        each=(_topics(DESCRIBE),),
        answer=(
            OnlyVisible(("topics",), _seen_topic),
            Allowed("topic_authorized_operations", TOPIC, "topics", "name"),
        ),
    ),
    76: Access((_READ_GROUP, Whole(_subscribed_topics, ERRORS[TOPIC]))),  # ShareGroupHeartbeat
    77: Access(each=(_GROUPS,), answer=(_GROUP_RIGHTS,)),  # ShareGroupDescribe
    78: Access(  # ShareFetch; a session may have topics that the request does not name
        (_READ_GROUP,), (_topics(READ, "topics", "responses"),), (OnlyVisible(("responses",), _read_topic),)
    ),
    79: Access((_READ_GROUP,), (_topics(READ, "topics", "responses"),)),  # ShareAcknowledge
    90: Access(  # DescribeShareGroupOffsets
        each=(
            Each(
                "groups",
                "groups",
                lambda asker, _, item: asker.may(DESCRIBE, GROUP, item.group_id),
                ERRORS[GROUP],
            ),
        ),
        answer=(OnlyVisible(("groups", "topics"), _share_offsets),),
    ),
    91: Access((_READ_GROUP,), (_topics(READ, "topics", "responses"),)),  # AlterShareGroupOffsets
    92: Access((_named(DELETE, GROUP, "group_id"),), (_topics(READ, "topics", "responses"),)),
}
CLOSED = _cluster(CLUSTER_ACTION)
"""The rules for an API without a row."""
