"""Where positions are kept: in Kafka, in ZooKeeper, in both, or with the results in the user's database.

`OffsetStore` is the interface of the first three. `OffsetLedger` is the last one; `LedgerOffsets` is its
table as an OffsetStore. `plan_migration` and `carry_out` move a group between any two stores; `exported`
and `imported` write and read positions as lines of text.
"""

from ottla.model.committed_positions import OffsetAndMetadata
from ottla.offsets.dual_offsets import DualOffsets
from ottla.offsets.export_format import exported, imported
from ottla.offsets.kafka_offsets import KafkaOffsets
from ottla.offsets.ledger import OffsetLedger
from ottla.offsets.ledger_offsets import LedgerOffsets
from ottla.offsets.migration import MigrationPlan, MigrationStep, Move, carry_out, plan_migration
from ottla.offsets.store import OffsetStore
from ottla.offsets.zookeeper_offsets import ZooKeeperOffsets

__all__ = [
    "OffsetStore",
    "OffsetAndMetadata",
    "KafkaOffsets",
    "ZooKeeperOffsets",
    "DualOffsets",
    "OffsetLedger",
    "LedgerOffsets",
    "MigrationPlan",
    "Move",
    "MigrationStep",
    "plan_migration",
    "carry_out",
    "exported",
    "imported",
]
