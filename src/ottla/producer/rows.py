"""Records as a user gives them, checked and turned into bytes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.producer.deliveries import OnDelivery
from ottla.records.columns import HEADERS

Bytes: TypeAlias = bytes | bytearray | memoryview | str
HeaderPairs: TypeAlias = "Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]"
Header: TypeAlias = dict[str, Any]

TIMESTAMP_MAX = 1 << 60
PARTITION_MAX = (1 << 31) - 1


def as_bytes(value: object, name: str) -> bytes:
    """Return a key or value as bytes; text as UTF-8. Raises ConfigError for anything else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    remedy = "; json.dumps makes text of it" if isinstance(value, dict | list) else ""
    raise ConfigError(f"{name} is of type {type(value).__name__}: bytes, text or None can be sent{remedy}")


def as_int(value: object, name: str) -> int:
    """Return a number of a record. Raises ConfigError for anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ConfigError(f"{name} is of type {type(value).__name__}: a whole number is wanted")
    return operator.index(value)


def header_rows(headers: HeaderPairs) -> list[Header]:
    """Return a record's headers as Arrow takes them. Raises ConfigError."""
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


def table_of_rows(
    values: Iterable[Any],
    keys: Iterable[Any] | None = None,
    timestamps_ms: Iterable[int | None] | None = None,
    headers: Iterable[HeaderPairs | None] | None = None,
) -> pa.Table:
    """Return records as columns, from lists of their fields. Raises ConfigError."""
    columns = {"value": _binary("value", values)}
    if keys is not None:
        columns["key"] = _binary("key", keys)
    if timestamps_ms is not None:
        columns["timestamp"] = _times(timestamps_ms)
    if headers is not None:
        columns["headers"] = pa.array([header_rows(pairs or ()) for pairs in headers], HEADERS)
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{count:,} of {name}" for name, count in counts.items())
        raise ConfigError(f"the lists are not of the same length: {shown}")
    return pa.table(columns)


def _binary(name: str, fields: Iterable[Any]) -> pa.Array:
    """Return keys or values as a column; Arrow converts lists of bytes or text in one call."""
    if isinstance(fields, Bytes):
        raise ConfigError(f"{name}s are {fields!r:.50}: a list is wanted")
    rows = fields if isinstance(fields, list | tuple) else list(fields)
    try:
        return pa.array(rows, pa.binary())
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return pa.array([None if row is None else as_bytes(row, name) for row in rows], pa.binary())


def _times(timestamps_ms: Iterable[int | None]) -> pa.Array:
    rows = [None if time is None else as_timestamp(time) for time in timestamps_ms]
    return pa.array(rows, pa.int64())


def as_timestamp(timestamp_ms: object) -> int:
    """Return a record's time. Raises ConfigError."""
    number = as_int(timestamp_ms, "timestamp_ms")
    if not 0 <= number <= TIMESTAMP_MAX:
        raise ConfigError(f"timestamp_ms={timestamp_ms}: milliseconds since 1970 are wanted")
    return number


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
        """Check the fields. Raises ConfigError."""
        if timestamp_ms is None and not headers and on_delivery is None and partition.__class__ is int:
            return _only_partition(partition)
        if timestamp_ms is not None:
            as_timestamp(timestamp_ms)
        if partition is not None:
            partition = _only_partition(as_int(partition, "partition")).partition
        return cls(timestamp_ms, partition, header_rows(headers) if headers else [], on_delivery)

    @property
    def size(self) -> int:
        """Bytes of the headers."""
        return sum(len(row["key"]) + len(row["value"] or b"") for row in self.headers)


@lru_cache(maxsize=1024)
def _only_partition(partition: int) -> Notes:
    """Return the notes of rows that only name a partition; such rows share them. Raises ConfigError."""
    if abs(partition) > PARTITION_MAX:
        raise ConfigError(f"partition={partition}: no topic has as many partitions")
    return Notes(None, partition, [], None)
