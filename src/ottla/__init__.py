"""Kafka's consumer stack for Python and Spark.

These names are public, and so are the modules that the README shows; everything else is private by default.
Importing the package loads no arrays, no compiler and no broker: that comes with its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ottla.model.errors import (
    ConfigError,
    CorruptRecord,
    KafkaError,
    LocalProtocolError,
    OttlaError,
    RemoteProtocolError,
    StorageError,
)
from ottla.model.topic_partition import TopicAndPartition
from ottla.model.version import VERSION

if TYPE_CHECKING:
    from ottla.admin.admin import Admin
    from ottla.broker.embedded import EmbeddedBroker
    from ottla.grouped.group_consumer import GroupConsumer
    from ottla.offsets.ledger import OffsetLedger
    from ottla.partition.consumer import PartitionConsumer
    from ottla.partition.replay import replay
    from ottla.producer.producer import Producer
    from ottla.simple.consumer import SimpleConsumer

__version__ = VERSION

__all__ = [
    "Admin",
    "ConfigError",
    "CorruptRecord",
    "EmbeddedBroker",
    "GroupConsumer",
    "KafkaError",
    "LocalProtocolError",
    "OffsetLedger",
    "OttlaError",
    "PartitionConsumer",
    "Producer",
    "RemoteProtocolError",
    "SimpleConsumer",
    "StorageError",
    "TopicAndPartition",
    "__version__",
    "replay",
]


_LOADED_AT_FIRST_USE = {
    "Admin": "ottla.admin.admin",
    "EmbeddedBroker": "ottla.broker.embedded",
    "GroupConsumer": "ottla.grouped.group_consumer",
    "OffsetLedger": "ottla.offsets.ledger",
    "PartitionConsumer": "ottla.partition.consumer",
    "Producer": "ottla.producer.producer",
    "SimpleConsumer": "ottla.simple.consumer",
    "replay": "ottla.partition.replay",
}


def __getattr__(name: str) -> object:
    """Load what is heavy when it is asked for."""
    module = _LOADED_AT_FIRST_USE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
