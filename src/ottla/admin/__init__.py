"""Administration of a cluster: topics, settings, records, groups of every kind, transactions, ACLs and users.

Applications use `Admin`, or `ottla.aio.Admin`; `admin_calls` has what both do. Behind it: `access` (brokers,
ZooKeeper, retries); `topic_admin`, `configs`, `logs`, `groups`, `lag` and `transactions`, whose calls return
an outcome for every name; `security_calls` (ACLs, passwords, quotas); `zookeeper_topics` and
`zookeeper_groups` for brokers that have no such calls; `*_values`, which users give and get. Pure are
`replica_assignment`, `old_topic_configs` and `lag_gauges`.
"""

from ottla.admin.admin import Admin
from ottla.admin.config_values import (
    ConfigEntry,
    ConfigKind,
    ConfigResource,
    ConfigSource,
    broker_logger_resource,
    broker_resource,
    client_metrics_resource,
    client_resource,
    group_resource,
    topic_resource,
)
from ottla.admin.group_values import (
    CommittedOffset,
    GroupDescription,
    GroupKind,
    GroupLag,
    GroupListing,
    GroupMember,
    OffsetMove,
    PartitionLag,
    ShareOffset,
    StoredOffset,
)
from ottla.admin.lag_gauges import lag_exposition
from ottla.admin.logs import MAX_TIMESTAMP, LogOffset
from ottla.admin.security_values import DEFAULT_ENTITY, QuotaEntity, ScramPassword, ScramRemoval
from ottla.admin.topic_values import (
    ClusterDescription,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicCreation,
    TopicDescription,
)
from ottla.admin.transaction_values import (
    OpenTransaction,
    PartitionProducer,
    TransactionDescription,
    TransactionListing,
)
from ottla.model.acls import Acl, AclFilter, PatternType, Permission, ResourceType
from ottla.model.permissions import Operation
from ottla.model.topic_partition import TopicAndPartition

__all__ = [
    "Acl",
    "AclFilter",
    "PatternType",
    "Permission",
    "ResourceType",
    "Operation",
    "DEFAULT_ENTITY",
    "QuotaEntity",
    "ScramPassword",
    "ScramRemoval",
    "MAX_TIMESTAMP",
    "Admin",
    "ClusterDescription",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigKind",
    "ConfigResource",
    "ConfigSource",
    "TopicCreation",
    "GroupDescription",
    "GroupKind",
    "GroupLag",
    "GroupListing",
    "GroupMember",
    "LogOffset",
    "NewPartitions",
    "NewTopic",
    "OffsetMove",
    "OpenTransaction",
    "PartitionDescription",
    "PartitionLag",
    "PartitionProducer",
    "ShareOffset",
    "StoredOffset",
    "TopicAndPartition",
    "TopicDescription",
    "TransactionDescription",
    "TransactionListing",
    "broker_logger_resource",
    "broker_resource",
    "client_metrics_resource",
    "client_resource",
    "group_resource",
    "lag_exposition",
    "topic_resource",
]
