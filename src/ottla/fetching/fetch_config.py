"""The settings about fetching. A consumer's table is CLIENT_PROPERTIES + FETCH_PROPERTIES.

values = parse_properties((*CLIENT_PROPERTIES, *FETCH_PROPERTIES), given)
FetchConfig.from_values(values)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Self

from ottla.model.property_table import BOOLEAN, INT, TEXT, Property, parse_properties
from ottla.records.compression import Codec
from ottla.records.whole_batches import Keeping


class OffsetReset(StrEnum):
    """Where to continue if an offset is not in the log (any more); the names of the old consumer."""

    SMALLEST = "smallest"
    LARGEST = "largest"
    NONE = "none"


class IsolationLevel(IntEnum):
    """Whether records of open and aborted transactions are delivered; the numbers of Fetch."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class DamagePolicy(StrEnum):
    """What happens to a partition whose records are damaged."""

    STOP = "stop"
    SKIP = "skip"


_RESETS = {
    "smallest": OffsetReset.SMALLEST,
    "earliest": OffsetReset.SMALLEST,
    "largest": OffsetReset.LARGEST,
    "latest": OffsetReset.LARGEST,
    "none": OffsetReset.NONE,
}
_ISOLATION = {
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
    "read_committed": IsolationLevel.READ_COMMITTED,
}

FETCH_PROPERTIES: tuple[Property, ...] = (
    Property("fetch.min.bytes", INT, 1, "How much a broker collects before it answers.", minimum=0),
    Property(
        "fetch.wait.max.ms",
        INT,
        500,
        "How long a broker waits for that. A seek, or a new partition of the same broker, may take as long.",
        synonyms=("fetch.max.wait.ms",),
        minimum=0,
    ),
    Property(
        "fetch.message.max.bytes",
        INT,
        4 << 20,
        "How much of one partition is fetched at once. Before 0.10.1 a larger message cannot be read. "
        "Kafka's default is 1 MB; every answer costs us some time, so fewer ones are faster.",
        synonyms=("max.partition.fetch.bytes",),
        minimum=1,
    ),
    Property("fetch.max.bytes", INT, 50 << 20, "How much of all partitions is fetched at once.", minimum=1),
    Property(
        "queued.max.message.chunks",
        INT,
        8,
        "How many fetched chunks of a partition wait for its reader; the old consumer's default is 2.",
        minimum=1,
    ),
    Property(
        "queued.max.bytes",
        INT,
        64 << 20,
        "How much memory fetched chunks of all partitions may take while they wait for their readers.",
        minimum=1,
    ),
    Property(
        "num.consumer.fetchers", INT, 1, "How many threads, and connections, read from one broker.", minimum=1
    ),
    Property(
        "refresh.leader.backoff.ms",
        INT,
        200,
        "The first pause before a leader is looked for again.",
        minimum=0,
    ),
    Property(
        "max.processing.time.ms",
        INT,
        100,
        "A partition whose reader takes longer for a chunk is parked: not fetched until its queue is empty.",
        synonyms=("max.processing.time",),
        minimum=0,
    ),
    Property(
        "auto.offset.reset",
        TEXT,
        OffsetReset.LARGEST,
        "Where to continue if an offset is not in the log: smallest, largest, or none, which is an error.",
        choices=tuple(_RESETS),
        check=_RESETS.__getitem__,
    ),
    Property("check.crcs", BOOLEAN, default=True, doc="Whether checksums are verified."),
    Property(
        "isolation.level",
        TEXT,
        IsolationLevel.READ_UNCOMMITTED,
        "Whether records of transactions are seen before they are committed.",
        choices=tuple(_ISOLATION),
        check=_ISOLATION.__getitem__,
    ),
    Property("include.headers", BOOLEAN, default=False, doc="Whether batches have a column of headers."),
    Property(
        "client.rack",
        TEXT,
        "",
        "The rack of this client. Leaders may name a nearer replica, which is read from then (KIP-392).",
    ),
    Property(
        "damaged.records",
        TEXT,
        DamagePolicy.STOP,
        "What happens at damaged records: the partition stops with an error, or they are skipped.",
        choices=tuple(DamagePolicy),
        check=DamagePolicy,
    ),
    Property(
        "whole.batches.min.bytes",
        INT,
        0,
        "Record batches of at least this many bytes are delivered undecoded, one in each row. 0: none are.",
        minimum=0,
    ),
    Property(
        "whole.batches.codec",
        TEXT,
        None,
        "Only batches with this compression are delivered undecoded; unset: all.",
        check=Codec.named,
    ),
    Property(
        "whole.batches.format",
        INT,
        2,
        "Only batches of this message format are delivered undecoded; of 0 and 1 only uncompressed messages.",
        minimum=0,
        maximum=2,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig:
    """Checked settings; FETCH_PROPERTIES says what they mean."""

    fetch_min_bytes: int = 1
    fetch_wait_max_ms: int = 500
    fetch_message_max_bytes: int = 4 << 20
    fetch_max_bytes: int = 50 << 20
    queued_max_message_chunks: int = 8
    queued_max_bytes: int = 64 << 20
    num_consumer_fetchers: int = 1
    refresh_leader_backoff_ms: int = 200
    max_processing_time_ms: int = 100
    auto_offset_reset: OffsetReset = OffsetReset.LARGEST
    check_crcs: bool = True
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    include_headers: bool = False
    client_rack: str = ""
    damaged_records: DamagePolicy = DamagePolicy.STOP
    whole_batches_min_bytes: int = 0
    whole_batches_codec: Codec | None = None
    whole_batches_format: int = 2

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Parse Kafka's names, dotted or snake_case, and no others. Raises ConfigError."""
        return cls.from_values(parse_properties(FETCH_PROPERTIES, properties))

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Make it from the values that `parse_properties` returned for a table that includes
        FETCH_PROPERTIES.
        """
        return cls(**{name: values[name] for name in cls.__dataclass_fields__})

    @property
    def reads_committed(self) -> bool:
        """Whether only committed records are delivered."""
        return self.isolation_level is IsolationLevel.READ_COMMITTED

    @property
    def keeping(self) -> Keeping | None:
        """Which batches are delivered undecoded; None if all are decoded."""
        least = self.whole_batches_min_bytes
        return Keeping(least, self.whole_batches_codec, self.whole_batches_format) if least else None
