"""Rows made from columns at the speed of loops in C: what `for message in …messages()` runs through.

Arrow makes the bytes objects, `zip` joins the columns, `tuple.__new__` makes the rows. No Python code runs
for a single row. Rows are made in blocks, so that the memory of one block can be used for the next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from operator import length_hint
from typing import Any

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.records.columns import SCHEMA
from ottla.records.messages import (
    MessageAndMetadata,
    Origin,
    RawMessageAndMetadata,
    binary_values,
    header_values,
    timestamp_type_values,
    timestamp_values,
)
from ottla.records.typed_records import ColumnSchema, KeyAndValue
from ottla.records.whole_batches import is_whole

BLOCK_ROWS = 4096
_NOTHING = pa.RecordBatch.from_pylist([], SCHEMA)

Deserializer = Callable[[bytes], Any] | ColumnSchema
"""A function of bytes, or an `ottla.Schema`."""
Gate = Callable[[Iterator[int]], Iterator[int]]
"""From the offsets of rows to the same offsets, until no more may be handed out. It takes none in vain."""


def _function(deserializer: Deserializer | None) -> Callable[[bytes], Any]:
    if deserializer is None:
        return bytes
    return deserializer if callable(deserializer) else deserializer.row


def _schema(deserializer: Deserializer | None) -> ColumnSchema | None:
    return None if deserializer is None or callable(deserializer) else deserializer


class RowMaker:
    """Makes the rows of one partition's batches."""

    def __init__(
        self,
        topic: str,
        partition: int,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        *,
        gate: Gate | None = None,
    ) -> None:
        """`gate` limits the rows: they end where its iterator does, and the rest can be read later."""
        self._gate = gate
        is_raw = key_deserializer is None and value_deserializer is None
        self._type = RawMessageAndMetadata if is_raw else MessageAndMetadata
        self._origin = Origin(topic, partition, _function(key_deserializer), _function(value_deserializer))
        self.schemas = KeyAndValue(_schema(key_deserializer), _schema(value_deserializer))

    def rows(self, batch: pa.RecordBatch) -> Rows:
        """The rows of a batch."""
        return Rows(self, batch)

    def block(self, batch: pa.RecordBatch, offsets: Iterator[int]) -> Iterator[MessageAndMetadata[Any, Any]]:
        """The rows of a batch, as many as `offsets` has.

        Raises ConfigError if the batch has undecoded record batches (whole.batches.min.bytes).
        """
        if is_whole(batch):
            raise ConfigError(
                "whole.batches.min.bytes is set, so there are no rows: read chunks, or leave it out"
            )
        columns = zip(
            offsets if self._gate is None else self._gate(offsets),
            binary_values(batch.column("key")),
            binary_values(batch.column("value")),
            timestamp_values(batch),
            timestamp_type_values(batch),
            header_values(batch),
            repeat(self._origin),
            strict=False,
        )
        return map(tuple.__new__, repeat(self._type), columns)


class Rows:
    """The rows of one batch, once: a new iterator continues where the last one stopped.

    `rest`, `take_rest` and `drop` work in the middle of an iteration, and from other threads, without Python
    code for each row: the iterator of the offsets knows how many are left, and ends when its list is emptied.
    Rows that were handed out are not kept, so that their memory can be used again. If a gate shuts, all
    iterators end; a new one continues.
    """

    def __init__(self, maker: RowMaker, batch: pa.RecordBatch) -> None:
        self._maker = maker
        self._batch = batch
        self._lock = threading.Lock()  # guards the next three
        self._begun = 0
        self._offsets: list[int] = []
        self._unread: Iterator[int] = iter(self._offsets)
        self._iterator = chain.from_iterable(self._blocks())

    def __iter__(self) -> Iterator[MessageAndMetadata[Any, Any]]:
        return self._iterator

    def rest(self) -> pa.RecordBatch:
        """Return the rows that were not handed out yet, as a batch."""
        with self._lock:
            return self._rest()

    def take_rest(self) -> pa.RecordBatch:
        """Return the same rows, and end all iterators."""
        with self._lock:
            rest = self._rest()
            self._batch, self._begun = _NOTHING, 0
            self._offsets.clear()
            self._unread = iter(())
            return rest

    def drop(self) -> None:
        """Hand out no more rows."""
        self.take_rest()

    def _rest(self) -> pa.RecordBatch:
        return self._batch.slice(self._begun - length_hint(self._unread))

    def _blocks(self) -> Iterator[Iterator[MessageAndMetadata[Any, Any]]]:
        while True:
            with self._lock:
                left = length_hint(self._unread)
                if left:  # the gate has shut in the middle of a block
                    self._begun -= left
                    self._unread = iter(())
                    self._iterator = chain.from_iterable(self._blocks())
                    return
                batch = self._batch.slice(self._begun, BLOCK_ROWS)
                if not batch.num_rows:
                    self._batch, self._begun = _NOTHING, 0
                    return
                self._begun += batch.num_rows
                self._offsets = batch.column("offset").to_numpy().tolist()
                self._unread = iter(self._offsets)
            yield self._maker.block(batch, self._unread)
