"""Where positions are kept: in Kafka, in ZooKeeper, in both, or with the results in the user's database.

`OffsetStore` is the port of the first three, by group and partition. `OffsetLedger` is the last one.
"""

from ottla.offsets.dual_offsets import DualOffsets
from ottla.offsets.kafka_offsets import KafkaOffsets
from ottla.offsets.ledger import OffsetLedger, OwnershipLost
from ottla.offsets.store import (
    OffsetAndMetadata,
    OffsetCommitFailed,
    OffsetFetchFailed,
    OffsetsRefused,
    OffsetStore,
)
from ottla.offsets.zookeeper_offsets import ZooKeeperOffsets

__all__ = [
    "OffsetStore",
    "OffsetAndMetadata",
    "KafkaOffsets",
    "ZooKeeperOffsets",
    "DualOffsets",
    "OffsetLedger",
    "OwnershipLost",
    "OffsetsRefused",
    "OffsetCommitFailed",
    "OffsetFetchFailed",
]
