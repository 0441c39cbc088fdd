"""Columns as rows, at the speed of loops in C: what `for message in …messages()` runs through.

Arrow makes the bytes objects, `zip` brings the columns together, `tuple.__new__` makes the rows. Nothing of
ours runs for a single row. Rows are made a block at a time, so that the memory of one block is there for the
next.
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
from ottla.records.whole_batches import is_whole

BLOCK_ROWS = 4096
_NOTHING = pa.RecordBatch.from_pylist([], SCHEMA)

Decoder = Callable[[bytes], Any]


class RowMaker:
    """Makes the rows of one partition's batches."""

    def __init__(
        self,
        topic: str,
        partition: int,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> None:
        is_raw = key_decoder is None and value_decoder is None
        self._type = RawMessageAndMetadata if is_raw else MessageAndMetadata
        self._origin = Origin(topic, partition, key_decoder or bytes, value_decoder or bytes)

    def rows(self, batch: pa.RecordBatch) -> Rows:
        """The rows of a batch."""
        return Rows(self, batch)

    def block(self, batch: pa.RecordBatch, offsets: Iterator[int]) -> Iterator[MessageAndMetadata[Any, Any]]:
        """Rows of columns whose offsets are at hand. They end when `offsets` end.

        Raises ConfigError if these are record batches as they came.
        """
        if is_whole(batch):
            raise ConfigError("whole.batches.min.bytes gives batches, not rows: read chunks, or leave it out")
        columns = zip(
            offsets,
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
    """The rows of one batch, once: whoever iterates goes on where the last one stopped.

    `rest`, `take_rest` and `drop` work in the middle of an iteration, and from other threads, without a step
    of ours for each row: the iterator of the offsets knows how many are left, and ends when its list is
    emptied. What was given away is not kept, so that its memory can be used again.
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
        """What was not iterated over yet."""
        with self._lock:
            return self._rest()

    def take_rest(self) -> pa.RecordBatch:
        """The same, and it will not be iterated over any more."""
        with self._lock:
            rest = self._rest()
            self._batch, self._begun = _NOTHING, 0
            self._offsets.clear()
            self._unread = iter(())
            return rest

    def drop(self) -> None:
        """Forget the rest."""
        self.take_rest()

    def _rest(self) -> pa.RecordBatch:
        return self._batch.slice(self._begun - length_hint(self._unread))

    def _blocks(self) -> Iterator[Iterator[MessageAndMetadata[Any, Any]]]:
        while True:
            with self._lock:
                batch = self._batch.slice(self._begun, BLOCK_ROWS)
                if not batch.num_rows:
                    self._batch, self._begun = _NOTHING, 0
                    return
                self._begun += batch.num_rows
                self._offsets = batch.column("offset").to_numpy().tolist()
                self._unread = iter(self._offsets)
            yield self._maker.block(batch, self._unread)
