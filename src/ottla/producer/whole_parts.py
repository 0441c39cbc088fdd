"""Batches, or sets of old messages, that were encoded elsewhere and are sent unchanged.

Each is sent alone. If a broker cannot take one because of its format, codec or size, it is decoded and sent
as columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ottla.model.record_layout import MAGIC_AT
from ottla.producer.parts import COLUMNS, ColumnSource, Part, Sizes
from ottla.producer.settled_rows import Recipient
from ottla.records.builder import NO_PICKS, EncodedPiece, Stamp
from ottla.records.compression import Codec
from ottla.records.reader import decode
from ottla.records.whole_batches import stamped


class WholePart(Part):
    """One record batch, or the messages of one request."""

    __slots__ = ("batch", "codec", "magic")

    is_whole = True

    def __init__(
        self,
        batch: memoryview,
        codec: Codec,
        rows: range,
        submission: Recipient,
        wall_ms: int,
        created_ms: float = 0.0,
    ) -> None:
        self.batch = batch
        self.codec = codec
        self.magic = batch[MAGIC_AT]
        self.rows = rows
        self.size = self.held_bytes = len(batch)
        self.submission = submission
        self.created_ms = created_ms
        self.wall_ms = wall_ms

    @property
    def columns(self) -> pa.RecordBatch:
        """Return the records as columns. Raises CorruptRecord."""
        decoded = decode(self.batch, verify_crc=False, headers=True)
        if decoded.damage is not None:
            raise decoded.damage
        return decoded.batch.select(COLUMNS)

    @property
    def piece(self) -> EncodedPiece:
        return self.decoded().piece

    def stamped(self, stamp: Stamp) -> memoryview:
        """Return the batch with the producer's id and numbers; unchanged in old formats, which have none."""
        return stamped(self.batch, stamp) if self.magic == 2 else self.batch

    def decoded(self) -> Part:
        """Return the same records as columns, with the same reserved memory. Raises CorruptRecord."""
        source = ColumnSource.of(self.columns, self.wall_ms)
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


def whole_parts(
    batches: pa.RecordBatch, submission: Recipient, memory_bytes: int, wall_ms: int
) -> Iterator[WholePart]:
    """Yield a part for each row of `ottla.records.whole_batches`, in order; each reserves at most
    `memory_bytes`.

    Their `created_ms` is set when they are taken in: before that they may wait for memory.
    """
    counts, codecs = batches.column("records").to_pylist(), batches.column("codec").to_pylist()
    first = 0
    for count, codec, batch in zip(counts, codecs, batches.column("batch"), strict=True):
        data = memoryview(batch.as_buffer())
        part = WholePart(data, Codec(codec), range(first, first + count), submission, wall_ms)
        part.held_bytes = min(part.held_bytes, memory_bytes)
        yield part
        first += count
