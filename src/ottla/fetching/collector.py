"""One partition's part of a fetch answer → a chunk of Arrow columns, the next offset, what went wrong. Pure.

`glance` looks at the entries only, so that the next request can leave before this answer is decoded. What it
promises holds for sound data of usual size. The position itself moves by what was decoded and by nothing
else, so an answer to a request that was sent too far ahead is ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.config import FetchConfig
from ottla.fetching.errors import damaged
from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import CorruptRecord
from ottla.records.entries import read_only, scan
from ottla.records.reader import DECOMPRESSED_BYTES_MAX, Decoded, decode
from ottla.records.slabs import SlabPool
from ottla.wire.api.fetch import FetchPartitionResponse
from ottla.wire.primitives import Buffer

ENTRY_OVERHEAD = 12
SIZE_AT = 8
_SIZE = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Collected:
    """What an answer brought: a chunk, if there was a record to deliver, and where to go on behind it; or
    what is damaged there. `used_bytes` of the answer are covered; the rest is to be asked for again."""

    next_offset: int
    chunk: FetchedDataChunk | None = None
    damage: CorruptRecord | None = None
    used_bytes: int = 0


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
    *,
    bytes_max: int,
) -> Collected:
    """Decode what was answered to a fetch from `offset`; records below it are left out.

    A megabyte can become a gigabyte, so only `bytes_max` are decompressed. Damage behind sound records is
    left to the next answer, which will begin with it.
    """
    data = memoryview(answer.records or b"")
    if not _has_whole_entry(data):
        return Collected(offset)
    unpack = partial(
        decode,
        from_offset=offset,
        verify_crc=config.check_crcs,
        headers=config.include_headers,
        aborted=answer.aborted_transactions if config.reads_committed else None,
        pool=pool,
    )
    try:
        decoded = _decoded(unpack, data, bytes_max)
        while decoded.next_offset == offset and _has_whole_entry(data[decoded.valid_bytes :]):
            # All that lies below the position, however much a broker sends of it.
            data = data[decoded.valid_bytes :]
            decoded = _decoded(unpack, data, bytes_max)
    except CorruptRecord as damage:
        return Collected(offset, damage=damaged(topic_partition, offset, answer.high_watermark, damage))
    chunk = None
    if decoded.batch.num_rows:
        nbytes = decoded.batch.get_total_buffer_size()
        chunk = FetchedDataChunk(
            topic_partition, decoded.batch, offset, decoded.next_offset, answer.high_watermark, nbytes
        )
    return Collected(decoded.next_offset, chunk, used_bytes=decoded.valid_bytes)


def _decoded(unpack: Callable[..., Decoded], data: memoryview, bytes_max: int) -> Decoded:
    try:
        return unpack(data, decompressed_bytes_max=bytes_max)
    except CorruptRecord:
        # What looks damaged may be a single batch that is larger than that.
        return unpack(data[: _entry_bytes(data)], decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)


def _entry_bytes(data: memoryview) -> int:
    return ENTRY_OVERHEAD + int(_SIZE.unpack_from(data, SIZE_AT)[0])


def _has_whole_entry(data: memoryview) -> bool:
    """Brokers cut the last entry, and before Fetch 3 the first one too."""
    return len(data) >= ENTRY_OVERHEAD and _entry_bytes(data) <= len(data)
