"""Requests that check rights: API, version, values. None of them changes what later ones find."""

from __future__ import annotations

from typing import Any

from tests.log.record_sets import batch

TOPIC, GROUP, TRANSACTION = "orders", "billing", "payments"

_PARTITIONS = [{"partition_index": 0}]
_OFFSETS = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
_BOTH = [TOPIC, "absent"]
_RESOURCES = [(2, TOPIC), (4, ""), (32, GROUP)]
_NEW = [{"name": "new", "num_partitions": 1, "replication_factor": 1}]
_PRODUCED = [{"index": 0, "records": batch((b"k", b"v")).hex()}]
_NOBODY = {"principal": "User:nobody", "host": "*", "operation": 3, "permission_type": 3}
_FILTER = {"principal_filter": "User:nobody", "host_filter": None, "operation": 1, "permission_type": 1}
_FILTER |= {"resource_type_filter": 2, "resource_name_filter": "zzz", "pattern_type_filter": 3}
_MEMBER = {"group_id": GROUP, "member_id": "m", "generation_id": 1}
_PRODUCER = {"transactional_id": TRANSACTION, "producer_id": 7, "producer_epoch": 0}

REQUESTS: list[tuple[str, int, dict[str, Any]]] = [
    (
        "Produce",
        9,
        {"acks": -1, "timeout_ms": 5000, "topic_data": [{"name": TOPIC, "partition_data": _PRODUCED}]},
    ),
    (
        "Produce",
        9,
        {
            "transactional_id": TRANSACTION,
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [{"name": TOPIC, "partition_data": _PRODUCED}],
        },
    ),
    (
        "Fetch",
        11,
        {
            "max_bytes": 1000,
            "session_epoch": -1,
            "topics": [
                {"topic": name, "partitions": [{"partition": 0, "partition_max_bytes": 100}]}
                for name in _BOTH
            ],
        },
    ),
    (
        "ListOffsets",
        7,
        {
            "replica_id": -1,
            "topics": [
                {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in _BOTH
            ],
        },
    ),
    (
        "Metadata",
        9,
        {
            "topics": [{"name": name} for name in _BOTH],
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        },
    ),
    ("Metadata", 12, {"topics": None, "include_topic_authorized_operations": True}),
    (
        "OffsetCommit",
        8,
        {
            "group_id": GROUP,
            "generation_id_or_member_epoch": -1,
            "topics": [
                {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
                for name in _BOTH
            ],
        },
    ),
    ("OffsetFetch", 7, {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}),
    (
        "OffsetFetch",
        8,
        {
            "groups": [
                {"group_id": name, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
                for name in (GROUP, "x")
            ]
        },
    ),
    ("FindCoordinator", 3, {"key": GROUP, "key_type": 0}),
    ("FindCoordinator", 3, {"key": TRANSACTION, "key_type": 1}),
    ("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": [GROUP, "x"]}),
    ("FindCoordinator", 4, {"key_type": 1, "coordinator_keys": [TRANSACTION, "x"]}),
    (
        "JoinGroup",
        7,
        {
            "group_id": GROUP,
            "session_timeout_ms": 6000,
            "rebalance_timeout_ms": 1000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": ""}],
        },
    ),
    ("Heartbeat", 4, _MEMBER),
    ("LeaveGroup", 4, {"group_id": GROUP, "members": [{"member_id": "m"}]}),
    ("SyncGroup", 5, {**_MEMBER, "protocol_type": "consumer", "protocol_name": "range"}),
    ("DescribeGroups", 5, {"groups": [GROUP, "x"], "include_authorized_operations": True}),
    ("ListGroups", 4, {}),
    (
        "CreateTopics",
        7,
        {"topics": [*_NEW, {**_NEW[0], "name": TOPIC}], "timeout_ms": 5000, "validate_only": True},
    ),
    ("DeleteTopics", 5, {"topic_names": ["absent"], "timeout_ms": 5000}),
    ("DeleteTopics", 6, {"topics": [{"name": "absent"}], "timeout_ms": 5000}),
    (
        "DeleteRecords",
        2,
        {
            "timeout_ms": 5000,
            "topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in _BOTH],
        },
    ),
    (
        "CreatePartitions",
        3,
        {
            "topics": [{"name": name, "count": 2, "assignments": None} for name in _BOTH],
            "timeout_ms": 5000,
            "validate_only": True,
        },
    ),
    (
        "InitProducerId",
        4,
        {"transactional_id": None, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1},
    ),
    (
        "InitProducerId",
        4,
        {
            "transactional_id": TRANSACTION,
            "transaction_timeout_ms": 1000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
    ),
    (
        "OffsetForLeaderEpoch",
        4,
        {
            "replica_id": -1,
            "topics": [
                {
                    "topic": name,
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                }
                for name in _BOTH
            ],
        },
    ),
    (
        "AddPartitionsToTxn",
        3,
        {
            "v3_and_below_transactional_id": TRANSACTION,
            "v3_and_below_producer_id": 7,
            "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
        },
    ),
    ("AddOffsetsToTxn", 3, {**_PRODUCER, "group_id": GROUP}),
    ("EndTxn", 3, {**_PRODUCER, "committed": True}),
    (
        "TxnOffsetCommit",
        3,
        {**_PRODUCER, "group_id": GROUP, "topics": [{"name": TOPIC, "partitions": _OFFSETS}]},
    ),
    ("DescribeAcls", 3, _FILTER),
    (
        "CreateAcls",
        3,
        {"creations": [{**_NOBODY, "resource_type": 2, "resource_name": "zzz", "resource_pattern_type": 3}]},
    ),
    ("DeleteAcls", 3, {"filters": [_FILTER]}),
    (
        "DescribeConfigs",
        4,
        {
            "resources": [
                {"resource_type": kind, "resource_name": name, "configuration_keys": None}
                for kind, name in _RESOURCES
            ]
        },
    ),
    *(
        (
            "IncrementalAlterConfigs",
            1,
            {
                "resources": [{"resource_type": kind, "resource_name": name, "configs": []}],
                "validate_only": True,
            },
        )
        for kind, name in _RESOURCES
    ),
    (
        "AlterConfigs",
        2,
        {"resources": [{"resource_type": 2, "resource_name": TOPIC, "configs": []}], "validate_only": True},
    ),
    (
        "AlterReplicaLogDirs",
        2,
        {"dirs": [{"path": "/nowhere", "topics": [{"name": TOPIC, "partitions": [0]}]}]},
    ),
    ("DescribeLogDirs", 4, {"topics": None}),
    ("DeleteGroups", 2, {"groups_names": ["absent"]}),
    (
        "ElectLeaders",
        2,
        {"election_type": 0, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout_ms": 5000},
    ),
    (
        "AlterPartitionReassignments",
        0,
        {
            "timeout_ms": 5000,
            "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": None}]}],
        },
    ),
    ("ListPartitionReassignments", 0, {"timeout_ms": 5000, "topics": None}),
    ("OffsetDelete", 0, {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": _PARTITIONS}]}),
    ("DescribeClientQuotas", 1, {"components": [], "strict": False}),
    (
        "AlterClientQuotas",
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "x"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": True}],
                }
            ],
            "validate_only": True,
        },
    ),
    ("DescribeUserScramCredentials", 0, {"users": []}),
    ("AlterUserScramCredentials", 0, {"deletions": [{"name": "absent", "mechanism": 1}]}),
    (
        "DescribeQuorum",
        1,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
    ),
    ("UpdateFeatures", 1, {"timeout_ms": 5000, "feature_updates": [], "validate_only": True}),
    ("DescribeCluster", 1, {"include_cluster_authorized_operations": True, "endpoint_type": 1}),
    ("DescribeProducers", 0, {"topics": [{"name": name, "partition_indexes": [0]} for name in _BOTH]}),
    ("UnregisterBroker", 0, {"broker_id": 99}),
    ("DescribeTransactions", 0, {"transactional_ids": [TRANSACTION, "x"]}),
    ("ListTransactions", 1, {"duration_filter": -1}),
    (
        "ConsumerGroupHeartbeat",
        0,
        {"group_id": "billing", "member_id": "m", "member_epoch": -1, "subscribed_topic_names": None},
    ),
    ("ConsumerGroupDescribe", 0, {"group_ids": [GROUP, "x"], "include_authorized_operations": True}),
    ("ListConfigResources", 1, {}),
    (
        "DescribeTopicPartitions",
        0,
        {"topics": [{"name": name} for name in _BOTH], "response_partition_limit": 10},
    ),
    (
        "ShareGroupHeartbeat",
        1,
        {"group_id": GROUP, "member_id": "m", "member_epoch": -1, "subscribed_topic_names": None},
    ),
    ("ShareGroupDescribe", 1, {"group_ids": [GROUP, "x"], "include_authorized_operations": True}),
    (
        "DescribeShareGroupOffsets",
        0,
        {"groups": [{"group_id": GROUP, "topics": [{"topic_name": TOPIC, "partitions": [0]}]}]},
    ),
    (
        "AlterShareGroupOffsets",
        0,
        {
            "group_id": GROUP,
            "topics": [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, "start_offset": 0}]}],
        },
    ),
    ("DeleteShareGroupOffsets", 0, {"group_id": GROUP, "topics": [{"topic_name": TOPIC}]}),
]
