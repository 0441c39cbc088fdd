"""Administration of a cluster: topics, settings, records, groups of both kinds.

`Admin` is the face. Behind it: `access` (brokers, ZooKeeper, tries); `topics`, `configs`, `logs`, `groups`
and `lag`, whose calls return an outcome for every name, so that nothing is lost of what fails in part;
`zookeeper_topics` and `zookeeper_groups` for what old brokers have no calls for; `*_values`, what users give
and get. Pure are `replica_assignment`, `old_topic_configs`, `member_protocol` and `lag_gauges`.
"""

from ottla.admin.admin import Admin
from ottla.admin.config_values import (
    ConfigEntry,
    ConfigKind,
    ConfigResource,
    ConfigSource,
    broker_resource,
    client_resource,
    topic_resource,
)
from ottla.admin.errors import AdminErrors, Unsupported
from ottla.admin.group_values import (
    CommittedOffset,
    GroupDescription,
    GroupKind,
    GroupLag,
    GroupListing,
    GroupMember,
    OffsetMove,
    PartitionLag,
)
from ottla.admin.lag_gauges import lag_exposition
from ottla.admin.logs import END_OF_LOG, At, LogOffset
from ottla.admin.topic_values import (
    ClusterDescription,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
)
from ottla.model.topic_partition import TopicAndPartition

__all__ = [
    "END_OF_LOG",
    "Admin",
    "AdminErrors",
    "At",
    "ClusterDescription",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigKind",
    "ConfigResource",
    "ConfigSource",
    "CreatedTopic",
    "GroupDescription",
    "GroupKind",
    "GroupLag",
    "GroupListing",
    "GroupMember",
    "LogOffset",
    "NewPartitions",
    "NewTopic",
    "OffsetMove",
    "PartitionDescription",
    "PartitionLag",
    "TopicAndPartition",
    "TopicDescription",
    "Unsupported",
    "broker_resource",
    "client_resource",
    "lag_exposition",
    "topic_resource",
]
