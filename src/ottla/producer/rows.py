"""One record as a user gives it: checked, and turned into bytes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ottla.model.errors import ConfigError
from ottla.producer.deliveries import OnDelivery

Bytes: TypeAlias = bytes | bytearray | memoryview | str
HeaderPairs: TypeAlias = "Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]"
Header: TypeAlias = dict[str, Any]

TIMESTAMP_MAX = 1 << 60
PARTITION_MAX = (1 << 31) - 1


def as_bytes(value: object, name: str) -> bytes:
    """A key or value as bytes; text as UTF-8. Raises ConfigError for anything else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise ConfigError(f"{name} is of type {type(value).__name__}: bytes, text or None can be sent")


def as_int(value: object, name: str) -> int:
    """A number of a record. Raises ConfigError for anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ConfigError(f"{name} is of type {type(value).__name__}: a whole number is wanted")
    return operator.index(value)


def header_rows(headers: HeaderPairs) -> list[Header]:
    """A record's headers as Arrow takes them. Raises ConfigError."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        rows = [{"key": key, "value": value} for key, value in pairs]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"headers={headers!r:.100}: pairs of a text and bytes are wanted") from error
    for row in rows:
        if not isinstance(row["key"], str):
            raise ConfigError(f"headers={headers!r:.100}: a header's name is text, not {row['key']!r:.50}")
        if row["value"] is not None:
            row["value"] = as_bytes(row["value"], f"header {row['key']!r}")
    return rows


class Notes(NamedTuple):
    """The optional fields of a row."""

    timestamp_ms: int | None
    partition: int | None
    headers: list[Header]
    on_delivery: OnDelivery | None

    @classmethod
    def of(
        cls,
        timestamp_ms: int | None,
        partition: int | None,
        headers: HeaderPairs | None,
        on_delivery: OnDelivery | None,
    ) -> Notes:
        """Checked fields. Raises ConfigError."""
        if timestamp_ms is not None and not 0 <= as_int(timestamp_ms, "timestamp_ms") <= TIMESTAMP_MAX:
            raise ConfigError(f"timestamp_ms={timestamp_ms}: milliseconds since 1970 are wanted")
        if partition is not None:
            partition = as_int(partition, "partition")
            if abs(partition) > PARTITION_MAX:
                raise ConfigError(f"partition={partition}: no topic has as many partitions")
        return cls(timestamp_ms, partition, header_rows(headers) if headers else [], on_delivery)

    @property
    def size(self) -> int:
        """Bytes of the headers."""
        return sum(len(row["key"]) + len(row["value"] or b"") for row in self.headers)
