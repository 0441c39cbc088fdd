"""Kafka's consumer stack for Python and Spark.

The names in `__all__` are public, and so are the modules that the documentation shows; everything else is
private. Importing the package loads no arrays, no compiler and no broker: each name loads what it needs when
it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ottla.model.committed_positions import GroupMetadata, OffsetAndMetadata
from ottla.model.error_codes import Code
from ottla.model.errors import (
    AdminErrors,
    AuthenticationFailed,
    BrokerUnreachable,
    ConfigError,
    ConnectionLost,
    ConsumerClosed,
    ConsumerIdInUse,
    ConsumerRebalanceFailed,
    ConsumerTimeout,
    CorruptRecord,
    DamagedLog,
    DataLost,
    DeliveryExpired,
    DirectoryInUse,
    KafkaError,
    ListenerFailed,
    LocalProtocolError,
    LogOffline,
    MessageSizeTooLarge,
    MessageStreamsExist,
    MirrorFailed,
    NoTimestamps,
    NotTranslatable,
    OffsetCommitFailed,
    OffsetFetchFailed,
    OffsetsRefused,
    OttlaError,
    OwnershipLost,
    PartitionsLost,
    ProducerClosed,
    ProducerFenced,
    RecordTooLarge,
    RemoteProtocolError,
    ReplayStalled,
    RequestTimedOut,
    SimulationFailed,
    SimulationStuck,
    StorageError,
    TransactionAborted,
    Unsupported,
)
from ottla.model.offset_spec import OffsetSpec
from ottla.model.topic_partition import TopicAndPartition
from ottla.model.version import VERSION

if TYPE_CHECKING:
    from ottla.admin.admin import Admin
    from ottla.broker.embedded import EmbeddedBroker
    from ottla.broker.security.local_security import BrokerSecurity
    from ottla.consumer.classic.connector import ConsumerConnector
    from ottla.consumer.classic.member_thread import ConsumerRebalanceListener
    from ottla.consumer.classic.stream import KafkaStream
    from ottla.consumer.classic.topic_count import Blacklist, Whitelist
    from ottla.consumer.coordinated.group_consumer import GroupConsumer
    from ottla.consumer.coordinated.rebalancing import RebalanceListener
    from ottla.consumer.partition.partition_consumer import PartitionConsumer
    from ottla.consumer.partition.partition_reader import PartitionReader
    from ottla.consumer.partition.replay import Replay, replay
    from ottla.consumer.reading.health import Health
    from ottla.consumer.share.share_consumer import ShareConsumer
    from ottla.consumer.simple.fetch_request import FetchRequestBuilder
    from ottla.consumer.simple.leader_consumer import LeaderConsumer
    from ottla.consumer.simple.simple_consumer import SimpleConsumer
    from ottla.mirror.mirror import Mirror
    from ottla.offsets.ledger import OffsetLedger
    from ottla.producer.deliveries import BatchDelivery, BufferFull, Delivery, RecordMetadata
    from ottla.producer.producer import Producer
    from ottla.query.scan import Scan, scan
    from ottla.query.sql import sql
    from ottla.schemas.decoded import Undecodable
    from ottla.schemas.registry import RegistryFailed, SchemaNotFound
    from ottla.schemas.schema import Schema
    from ottla.zookeeper.zookeeper_errors import (
        AccessDenied,
        BadVersion,
        LimitExceeded,
        NoChildrenForEphemerals,
        NodeError,
        NodeExists,
        NoNode,
        NotEmpty,
        ServerFailed,
        SessionClosed,
        SessionLost,
        ZnodeError,
        ZooKeeperConnectionLost,
        ZooKeeperError,
    )

__version__ = VERSION

_LOADED_AT_FIRST_USE = {
    "Admin": "ottla.admin.admin",
    "BatchDelivery": "ottla.producer.deliveries",
    "Blacklist": "ottla.consumer.classic.topic_count",
    "BrokerSecurity": "ottla.broker.security.local_security",
    "BufferFull": "ottla.producer.deliveries",
    "ConsumerConnector": "ottla.consumer.classic.connector",
    "ConsumerRebalanceListener": "ottla.consumer.classic.member_thread",
    "Delivery": "ottla.producer.deliveries",
    "EmbeddedBroker": "ottla.broker.embedded",
    "FetchRequestBuilder": "ottla.consumer.simple.fetch_request",
    "GroupConsumer": "ottla.consumer.coordinated.group_consumer",
    "Health": "ottla.consumer.reading.health",
    "KafkaStream": "ottla.consumer.classic.stream",
    "LeaderConsumer": "ottla.consumer.simple.leader_consumer",
    "Mirror": "ottla.mirror.mirror",
    "OffsetLedger": "ottla.offsets.ledger",
    "PartitionConsumer": "ottla.consumer.partition.partition_consumer",
    "PartitionReader": "ottla.consumer.partition.partition_reader",
    "Producer": "ottla.producer.producer",
    "RebalanceListener": "ottla.consumer.coordinated.rebalancing",
    "RecordMetadata": "ottla.producer.deliveries",
    "Replay": "ottla.consumer.partition.replay",
    "Scan": "ottla.query.scan",
    "Schema": "ottla.schemas.schema",
    "ShareConsumer": "ottla.consumer.share.share_consumer",
    "SimpleConsumer": "ottla.consumer.simple.simple_consumer",
    "Whitelist": "ottla.consumer.classic.topic_count",
    "replay": "ottla.consumer.partition.replay",
    "scan": "ottla.query.scan",
    "sql": "ottla.query.sql",
    # errors of values with schemas
    "RegistryFailed": "ottla.schemas.registry",
    "SchemaNotFound": "ottla.schemas.registry",
    "Undecodable": "ottla.schemas.decoded",
    # ZooKeeper's errors
    "AccessDenied": "ottla.zookeeper.zookeeper_errors",
    "BadVersion": "ottla.zookeeper.zookeeper_errors",
    "LimitExceeded": "ottla.zookeeper.zookeeper_errors",
    "NoChildrenForEphemerals": "ottla.zookeeper.zookeeper_errors",
    "NoNode": "ottla.zookeeper.zookeeper_errors",
    "NodeError": "ottla.zookeeper.zookeeper_errors",
    "NodeExists": "ottla.zookeeper.zookeeper_errors",
    "NotEmpty": "ottla.zookeeper.zookeeper_errors",
    "ServerFailed": "ottla.zookeeper.zookeeper_errors",
    "SessionClosed": "ottla.zookeeper.zookeeper_errors",
    "SessionLost": "ottla.zookeeper.zookeeper_errors",
    "ZnodeError": "ottla.zookeeper.zookeeper_errors",
    "ZooKeeperConnectionLost": "ottla.zookeeper.zookeeper_errors",
    "ZooKeeperError": "ottla.zookeeper.zookeeper_errors",
}

__all__ = [
    "__version__",
    # clients
    "Admin",
    "BatchDelivery",
    "ConsumerConnector",
    "Delivery",
    "EmbeddedBroker",
    "GroupConsumer",
    "KafkaStream",
    "LeaderConsumer",
    "Mirror",
    "OffsetLedger",
    "PartitionConsumer",
    "PartitionReader",
    "Producer",
    "Replay",
    "Scan",
    "ShareConsumer",
    "SimpleConsumer",
    "replay",
    "scan",
    "sql",
    # values
    "Blacklist",
    "BrokerSecurity",
    "Code",
    "ConsumerRebalanceListener",
    "FetchRequestBuilder",
    "GroupMetadata",
    "Health",
    "OffsetAndMetadata",
    "OffsetSpec",
    "RebalanceListener",
    "RecordMetadata",
    "Schema",
    "TopicAndPartition",
    "Whitelist",
    # errors
    "AccessDenied",
    "AdminErrors",
    "AuthenticationFailed",
    "BadVersion",
    "BrokerUnreachable",
    "BufferFull",
    "ConfigError",
    "ConnectionLost",
    "ConsumerClosed",
    "ConsumerIdInUse",
    "ConsumerRebalanceFailed",
    "ConsumerTimeout",
    "CorruptRecord",
    "DamagedLog",
    "DataLost",
    "DeliveryExpired",
    "DirectoryInUse",
    "KafkaError",
    "LimitExceeded",
    "ListenerFailed",
    "LocalProtocolError",
    "LogOffline",
    "MessageSizeTooLarge",
    "MessageStreamsExist",
    "MirrorFailed",
    "NoChildrenForEphemerals",
    "NoNode",
    "NoTimestamps",
    "NodeError",
    "NodeExists",
    "NotEmpty",
    "NotTranslatable",
    "OffsetCommitFailed",
    "OffsetFetchFailed",
    "OffsetsRefused",
    "OttlaError",
    "OwnershipLost",
    "PartitionsLost",
    "ProducerClosed",
    "ProducerFenced",
    "RecordTooLarge",
    "RemoteProtocolError",
    "ReplayStalled",
    "RequestTimedOut",
    "ServerFailed",
    "SessionClosed",
    "SessionLost",
    "SimulationFailed",
    "SimulationStuck",
    "StorageError",
    "TransactionAborted",
    "Unsupported",
    "ZnodeError",
    "ZooKeeperConnectionLost",
    "ZooKeeperError",
    # errors of values with schemas
    "RegistryFailed",
    "SchemaNotFound",
    "Undecodable",
]


def __getattr__(name: str) -> object:
    """Load a heavy name when it is first used."""
    module = _LOADED_AT_FIRST_USE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    """Also the names that are not loaded yet."""
    return sorted({*globals(), *_LOADED_AT_FIRST_USE})
