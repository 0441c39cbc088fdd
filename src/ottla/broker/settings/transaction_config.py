"""The settings of the transaction coordinator, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.settings.setting import Setting, UpdateMode
from ottla.model.property_table import BOOLEAN, INT

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """One frozen value for all transactions of a broker. TRANSACTION_ROWS says what each field is."""

    timeout_max_ms: int = 900_000
    id_expiration_ms: int = 7 * DAY_MS
    timeout_check_ms: int = 10_000
    expiry_check_ms: int = 3_600_000
    partition_count: int = 50
    segment_bytes: int = 100 << 20
    verifies: bool = True


TRANSACTION_ROWS = (
    Setting(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        "The longest transaction timeout that a producer may have.",
        unit="ms",
        minimum=1,
        target="transactions.timeout_max_ms",
    ),
    Setting(
        "transactional.id.expiration.ms",
        INT,
        7 * DAY_MS,
        "How long a transactional id is remembered that no producer uses.",
        unit="ms",
        minimum=1,
        target="transactions.id_expiration_ms",
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often transactions are aborted whose timeout is over.",
        unit="ms",
        minimum=1,
        target="transactions.timeout_check_ms",
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "How often expired transactional ids are deleted.",
        unit="ms",
        minimum=1,
        target="transactions.expiry_check_ms",
    ),
    Setting(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of __transaction_state when it is created; later changes have no effect.",
        minimum=1,
        target="transactions.partition_count",
    ),
    Setting(
        "transaction.state.log.segment.bytes",
        INT,
        100 << 20,
        "The segment size of __transaction_state; small segments are compacted sooner.",
        unit="bytes",
        minimum=1,
        target="transactions.segment_bytes",
    ),
    Setting(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,  # noqa: FBT003
        "Whether records of a transaction are refused in partitions that AddPartitionsToTxn has not named.",
        update=UpdateMode.CLUSTER_WIDE,
        target="transactions.verifies",
    ),
)
