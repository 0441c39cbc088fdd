"""One partition's part of a fetch answer → chunks of Arrow columns, the next offset, what went wrong. Pure.

`glance` looks at the entries only, so that the next request can leave before this answer is decoded.
What it promises holds for sound data. The position itself moves by what was decoded and by nothing else, so
an answer to a request that was sent too far ahead is ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.config import FetchConfig
from ottla.fetching.errors import damaged
from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import CorruptRecord
from ottla.records.entries import read_only, scan
from ottla.records.reader import decode
from ottla.records.slabs import SlabPool
from ottla.records.transactions import AbortedTransaction
from ottla.wire.api.fetch import FetchPartitionResponse
from ottla.wire.primitives import Buffer

ENTRY_OVERHEAD = 12
SIZE_AT = 8
_SIZE = struct.Struct(">i")


@dataclass(slots=True)
class Collected:
    """What an answer brought. Behind the chunks is `damage`, if any, or `next_offset` to go on at."""

    next_offset: int
    chunks: list[FetchedDataChunk] = field(default_factory=list)
    damage: CorruptRecord | None = None

    @property
    def nbytes(self) -> int:
        """Memory that the chunks take."""
        return sum(chunk.nbytes for chunk in self.chunks)


class Glance(NamedTuple):
    """`is_cut`: not even the first entry is whole, so more bytes must be asked for."""

    next_offset: int
    is_cut: bool


def glance(records: Buffer, offset: int) -> Glance:
    """Where a reader at `offset` will go on behind these records, if they are sound."""
    if not _has_whole_entry(memoryview(records)):
        return Glance(offset, is_cut=True)
    entries = scan(read_only(records), verify_crc=False)
    return Glance(max(offset, entries.summary.next_offset) if len(entries.table) else offset, is_cut=False)


def collect(
    topic_partition: TopicAndPartition,
    offset: int,
    answer: FetchPartitionResponse,
    config: FetchConfig,
    pool: SlabPool,
) -> Collected:
    """Decode what was answered to a fetch from `offset`; records below it are left out."""
    found = Collected(offset)
    data = memoryview(answer.records or b"")
    aborted: Iterable[AbortedTransaction] | None = (
        answer.aborted_transactions if config.reads_committed else None
    )
    while _has_whole_entry(data) and found.damage is None:
        try:
            decoded = decode(
                data,
                from_offset=found.next_offset,
                verify_crc=config.check_crcs,
                headers=config.include_headers,
                aborted=aborted,
                pool=pool,
            )
        except CorruptRecord as damage:
            found.damage = damaged(topic_partition, found.next_offset, answer.high_watermark, damage)
            break
        if decoded.batch.num_rows:
            found.chunks.append(
                FetchedDataChunk(
                    topic_partition,
                    decoded.batch,
                    found.next_offset,
                    decoded.next_offset,
                    answer.high_watermark,
                    decoded.batch.nbytes,
                )
            )
        elif found.chunks:
            found.chunks[-1] = _extended(found.chunks[-1], decoded.next_offset)
        found.next_offset = decoded.next_offset
        if decoded.damage is not None:
            found.damage = damaged(topic_partition, found.next_offset, answer.high_watermark, decoded.damage)
        # Whole entries behind that: a limit of the decoder was reached.
        data = data[decoded.valid_bytes :] if decoded.valid_bytes else data[:0]
    return found


def _has_whole_entry(data: memoryview) -> bool:
    """Brokers cut the last entry, so most answers have a rest; decoding it costs and gives nothing."""
    return len(data) >= ENTRY_OVERHEAD and ENTRY_OVERHEAD + _SIZE.unpack_from(data, SIZE_AT)[0] <= len(data)


def _extended(chunk: FetchedDataChunk, next_offset: int) -> FetchedDataChunk:
    return FetchedDataChunk(
        chunk.topic_partition,
        chunk.batch,
        chunk.fetch_offset,
        next_offset,
        chunk.high_watermark,
        chunk.nbytes,
    )
