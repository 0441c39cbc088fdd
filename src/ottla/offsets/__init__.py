"""Where positions are kept: in Kafka, in ZooKeeper, in both, or with the results in the user's database.

`OffsetStore` is the port of the first three, by group and partition. `OffsetLedger` is the last one, and
`LedgerOffsets` its table through that port. `plan_migration` and `carry_out` move a group between any two;
`exported` and `imported` are positions as lines of text.
"""

from ottla.offsets.dual_offsets import DualOffsets
from ottla.offsets.export_format import exported, imported
from ottla.offsets.kafka_offsets import KafkaOffsets
from ottla.offsets.ledger import OffsetLedger, OwnershipLost
from ottla.offsets.ledger_offsets import LedgerOffsets
from ottla.offsets.migration import MigrationPlan, Move, Step, carry_out, plan_migration
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
    "LedgerOffsets",
    "OwnershipLost",
    "OffsetsRefused",
    "OffsetCommitFailed",
    "OffsetFetchFailed",
    "MigrationPlan",
    "Move",
    "Step",
    "plan_migration",
    "carry_out",
    "exported",
    "imported",
]
