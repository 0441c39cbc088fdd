"""The arguments of a producer that are not settings: functions, which are checked, and the member
of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from ottla.model.committed_positions import GroupMetadata
from ottla.model.errors import ConfigError
from ottla.producer.partitioners import ColumnPartitioner, PartitionerChoice, RowPartitioner
from ottla.producer.producer_config import ProducerConfig
from ottla.producer.rows import HeaderPairs, table_of_rows

ROUND_ROBIN = "round_robin"


class WriterSchema(Protocol):
    """Encodes rows, and columns of rows, into bytes: an `ottla.Schema`."""

    def value(self, row: Any) -> bytes:
        """The bytes of a row."""

    def encode(self, column: pa.Array) -> pa.Array:
        """A column of rows as a column of bytes."""


SerializerFunction: TypeAlias = Callable[[Any], bytes | str]
Serializer: TypeAlias = SerializerFunction | WriterSchema
"""A key or value → its bytes; text is sent as UTF-8. A function, or an `ottla.Schema`."""


class Serializers:
    """The serializers of a producer. Raises ConfigError for what is neither a function nor a Schema."""

    def __init__(self, key: Serializer | None, value: Serializer | None) -> None:
        self.key = _function("key_serializer", key)
        self.value = _function("value_serializer", value)
        given = {"key": key, "value": value}
        self._schemas = {
            name: serializer
            for name, serializer in given.items()
            if serializer is not None and not callable(serializer)
        }
        registers = [getattr(schema, "register", None) for schema in self._schemas.values()]
        self.registrations: list[Callable[[], None]] = [
            register for register in registers if register is not None
        ]
        """Functions that store schemas in their registries; each blocks.

        If they are not called, the first record does it.
        """

    def of_columns(self, columns: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        """Return the columns with typed keys and values encoded by their Schema. Raises as the Schema."""
        for name, schema in self._schemas.items():
            at = columns.schema.get_field_index(name)
            if at >= 0 and not _is_bytes(columns.schema.field(at).type):
                column = columns.column(at)
                if isinstance(column, pa.ChunkedArray):
                    made = pa.chunked_array([schema.encode(chunk) for chunk in column.chunks], pa.binary())
                else:
                    made = schema.encode(column)
                columns = columns.set_column(at, name, made)
        return columns

    def table_of(
        self,
        values: Iterable[Any],
        keys: Iterable[Any] | None,
        timestamps_ms: Iterable[int | None] | None,
        headers: Iterable[HeaderPairs | None] | None,
    ) -> pa.Table:
        """Return a table of records whose fields are given as lists.

        Raises as the serializers, and as the table.
        """
        return table_of_rows(
            _serialized(values, self.value),
            None if keys is None else _serialized(keys, self.key),
            timestamps_ms,
            headers,
        )


def _is_bytes(kind: pa.DataType) -> bool:
    return kind in {pa.binary(), pa.large_binary(), pa.string(), pa.large_string()}


def _function(name: str, serializer: Serializer | None) -> SerializerFunction | None:
    if serializer is None or callable(serializer):
        return serializer
    if not hasattr(serializer, "value"):
        raise ConfigError(f"{name}={serializer!r}: a function that returns bytes, or a Schema, is wanted")
    return serializer.value


def _serialized(fields: Iterable[Any], serializer: SerializerFunction | None) -> Iterable[Any]:
    """Return keys or values as their serializer makes them; it is not called for None."""
    if serializer is None:
        return fields
    return [None if field is None else serializer(field) for field in fields]


def partitioner_choice(
    row: RowPartitioner | str | None, column: ColumnPartitioner | None, config: ProducerConfig
) -> PartitionerChoice:
    """Return how partitions are chosen, from the arguments of a producer. Raises ConfigError."""
    if isinstance(row, str):
        if row != ROUND_ROBIN:
            raise ConfigError(f"partitioner={row!r}: give a function, or {ROUND_ROBIN!r}")
        return PartitionerChoice(column=column, is_round_robin=True)
    return PartitionerChoice(row=row, column=column, ignores_keys=config.ignores_keys)


class ReadingMember(Protocol):
    """A consumer that reads as a member of a group."""

    @property
    def group_metadata(self) -> GroupMetadata:
        """The group, and the current identity of the member."""
