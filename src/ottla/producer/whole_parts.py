"""Batches, or sets of old messages, that were encoded by somebody else, on their way: sent as they are.

Each goes alone. Only where a broker cannot take one, because of its format, its codec or its size, it is
decoded, and goes the way of columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ottla.kernels.layout import MAGIC_AT
from ottla.producer.deliveries import Submission
from ottla.producer.parts import COLUMNS, Part, Sizes, Source, wall_ms
from ottla.records.builder import NO_PICKS, Piece, Stamp
from ottla.records.compression import Codec
from ottla.records.reader import decode
from ottla.records.whole_batches import stamped


class WholePart(Part):
    """One record batch, or the messages of one request."""

    __slots__ = ("batch", "codec", "magic")

    is_whole = True

    def __init__(
        self, batch: memoryview, codec: Codec, rows: range, submission: Submission, created_ms: float = 0.0
    ) -> None:
        self.batch = batch
        self.codec = codec
        self.magic = batch[MAGIC_AT]
        self.rows = rows
        self.size = self.held_bytes = len(batch)
        self.submission = submission
        self.created_ms = created_ms
        self.wall_ms = wall_ms()

    @property
    def columns(self) -> pa.RecordBatch:
        """The records. Raises CorruptRecord."""
        found = decode(self.batch, verify_crc=False, headers=True)
        if found.damage is not None:
            raise found.damage
        return found.batch.select(COLUMNS)

    @property
    def piece(self) -> Piece:
        return self.decoded().piece

    def stamped(self, stamp: Stamp) -> memoryview:
        """The batch under a producer's numbers, for which old formats have no place."""
        return stamped(self.batch, stamp) if self.magic == 2 else self.batch

    def decoded(self) -> Part:
        """The same records as columns, for the same memory. Raises CorruptRecord."""
        source = Source.of(self.columns)
        size = Sizes(source.records).total
        return Part(
            source,
            NO_PICKS,
            self.rows,
            size,
            self.submission,
            self.created_ms,
            self.wall_ms,
            self.held_bytes,
        )

    def halves(self) -> tuple[Part, Part]:
        return self.decoded().halves()


def whole_parts(batches: pa.RecordBatch, submission: Submission, memory_bytes: int) -> Iterator[WholePart]:
    """A part for each row of `ottla.records.whole_batches`, in order; none holds more than all memory.

    Their time is set when they are taken in: until then they may have waited for memory.
    """
    counts, codecs = batches.column("records").to_pylist(), batches.column("codec").to_pylist()
    first = 0
    for count, codec, batch in zip(counts, codecs, batches.column("batch"), strict=True):
        data = memoryview(batch.as_buffer())
        part = WholePart(data, Codec(codec), range(first, first + count), submission)
        part.held_bytes = min(part.held_bytes, memory_bytes)
        yield part
        first += count
