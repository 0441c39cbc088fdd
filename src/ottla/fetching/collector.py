"""One partition's part of a fetch response → chunks of Arrow columns, the next offset, damage. Pure.

Usually that is one chunk. With `whole.batches.min.bytes` there are chunks of undecoded batches, and chunks of
columns in between.

`glance` only finds the entries and checks their checksums, so that the next request can be sent before this
response is decoded. Its result is right for undamaged data of usual size. Positions move only when data was
decoded; so if a request was sent for an offset too far ahead, its response is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_errors import damaged
from ottla.fetching.request_plan import ReceivedRecords
from ottla.model.errors import CorruptRecord
from ottla.model.record_layout import ENTRY_OVERHEAD, SIZE, SIZE_AT
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.entries import Entries, read_only, scan, verified
from ottla.records.reader import DECOMPRESSED_BYTES_MAX, Decoded, decode, decode_together, is_plain
from ottla.records.slabs import SlabPool
from ottla.records.whole_batches import EntryRun, segments, span, whole
from ottla.wire.api.fetch import FetchPartitionResponse
from ottla.wire.primitives import Buffer

NewChunk = Callable[..., FetchedDataChunk]

SMALL_BYTES = 64 << 10
"""Larger records get memory of their own, so that a chunk that waits for its reader keeps no others."""


class Collected(NamedTuple):
    """The chunks of a response, if it had records to deliver, and the next offset; or the damage at that
    offset.

    `used_bytes` of the response are covered; the rest has to be requested again.
    """

    next_offset: int
    chunks: tuple[FetchedDataChunk, ...] = ()
    damage: CorruptRecord | None = None
    used_bytes: int = 0


class Glance(NamedTuple):
    """Where to continue after a response.

    `scanned` are its entries, for `collect`; None if not even the first entry is whole: more bytes must be
    requested.
    """

    next_offset: int
    scanned: Entries | None


def glance(records: Buffer, offset: int, *, verify_crc: bool = False) -> Glance:
    """Return where a reader at `offset` continues after these records, if they are undamaged."""
    if not _has_whole_entry(memoryview(records)):
        return Glance(offset, None)
    entries = scan(read_only(records), verify_crc=verify_crc)
    return Glance(max(offset, entries.summary.next_offset) if len(entries.table) else offset, entries)


def collect(
    topic_partition: TopicAndPartition,
    offset: int,
    answer: FetchPartitionResponse,
    config: FetchConfig,
    pool: SlabPool,
    *,
    bytes_max: int,
    scanned: Entries | None = None,
) -> Collected:
    """Decode the response to a fetch from `offset`; records below it are left out.

    A megabyte can become a gigabyte, so at most `bytes_max` are decompressed. Damage after sound records is
    left to the next response, which will begin with it. `scanned` are the entries, verified as `config` says,
    if a `glance` has found them.
    """
    data = memoryview(answer.records or b"")
    if not _has_whole_entry(data):
        return Collected(offset)
    if scanned is None:
        scanned = scan(read_only(data), verify_crc=config.check_crcs)
    aborted = answer.aborted_transactions if config.reads_committed else None
    unpack = partial(
        decode,
        from_offset=offset,
        verify_crc=config.check_crcs,
        headers=config.include_headers,
        aborted=aborted,
        pool=pool,
    )
    new_chunk = partial(FetchedDataChunk, topic_partition, high_watermark=answer.high_watermark)
    try:
        if config.keeping is not None:
            divide = partial(segments, from_offset=offset, aborted=aborted, keeping=config.keeping)
            collected = _collected_in_segments(data, scanned, offset, divide, unpack, bytes_max, new_chunk)
            if collected is not None:
                return collected
        decoded = _decoded(unpack, data, bytes_max, scanned)
        while decoded.next_offset == offset and _has_whole_entry(data[decoded.valid_bytes :]):
            # Everything so far is below the position: continue with the rest of the response.
            data = data[decoded.valid_bytes :]
            decoded = _decoded(unpack, data, bytes_max)
    except CorruptRecord as damage:
        return Collected(offset, damage=damaged(topic_partition, offset, answer.high_watermark, damage))
    return Collected(decoded.next_offset, _chunks(decoded, offset, new_chunk), used_bytes=decoded.valid_bytes)


def split_small(
    received: Iterable[ReceivedRecords], config: FetchConfig
) -> tuple[list[ReceivedRecords], list[ReceivedRecords]]:
    """Return the parts of a response that `collect_small` takes, and the others."""
    small: list[ReceivedRecords] = []
    others: list[ReceivedRecords] = []
    is_possible = not config.include_headers and config.keeping is None
    for records in received:
        is_small = is_possible and len(records.answer.records or b"") <= SMALL_BYTES
        scanned = records.scanned
        (small if is_small and scanned is not None and is_plain(scanned) else others).append(records)
    return small, others


def collect_small(received: Sequence[ReceivedRecords], pool: SlabPool) -> list[Collected]:
    """As `collect`, for small parts of a response together; ends before one that is damaged."""
    sets = [(records.scanned, records.request.offset) for records in received if records.scanned is not None]
    collected = []
    for (request, answer, _), decoded in zip(received, decode_together(sets, pool), strict=False):
        where = request.cursor.feed.topic_partition
        new_chunk = partial(FetchedDataChunk, where, high_watermark=answer.high_watermark)
        chunks = _chunks(decoded, request.offset, new_chunk)
        collected.append(Collected(decoded.next_offset, chunks, used_bytes=decoded.valid_bytes))
    return collected


def _chunks(decoded: Decoded, offset: int, new_chunk: NewChunk) -> tuple[FetchedDataChunk, ...]:
    """Return one chunk; none if there are no records."""
    batch, next_offset, nbytes = decoded.batch, decoded.next_offset, decoded.nbytes
    if not batch.num_rows:
        return ()
    return (new_chunk(batch=batch, fetch_offset=offset, next_offset=next_offset, nbytes=nbytes),)


def _collected_in_segments(
    data: memoryview,
    scanned: Entries,
    offset: int,
    divide: Callable[[Entries], list[EntryRun]],
    unpack: partial[Decoded],
    bytes_max: int,
    new_chunk: NewChunk,
) -> Collected | None:
    """Return batches undecoded where they are large enough, and the rest as columns.

    Returns None if everything must be decoded. Raises CorruptRecord.
    """
    if not any(part.is_whole for part in divide(scanned)):
        return None
    entries = verified(scanned)
    memory_bytes = memoryview(data.obj).nbytes  # of the whole response
    chunks: list[FetchedDataChunk] = []
    reached, left_bytes = offset, bytes_max
    for part in divide(entries):
        start, end = span(entries, part)
        if part.is_whole:
            chunks.append(
                new_chunk(
                    batch=whole(entries, part, memory_bytes, unpack.keywords["pool"]),
                    fetch_offset=reached,
                    next_offset=part.next_offset,
                    nbytes=end - start,
                )
            )
            reached = part.next_offset
            continue
        if left_bytes <= 0:
            return Collected(reached, tuple(chunks), used_bytes=start)
        try:
            # Hidden records (aborted, control) are not in any segment.
            decoded = _decoded(partial(unpack, aborted=None), data[start:end], left_bytes)
        except CorruptRecord:
            if not chunks:
                raise
            return Collected(reached, tuple(chunks), used_bytes=start)
        chunks += _chunks(decoded, reached, new_chunk)
        reached = decoded.next_offset
        left_bytes -= decoded.nbytes
        if decoded.damage is not None or decoded.valid_bytes < end - start:
            used_bytes = start + decoded.valid_bytes
            return Collected(reached, tuple(chunks), used_bytes=used_bytes) if reached > offset else None
    if entries.damage is not None and entries.summary.next_offset <= offset:
        raise copy(entries.damage)  # no cycle with this frame, as in `decode`
    reached = max(offset, entries.summary.next_offset)
    if chunks:
        chunks[-1] = replace(chunks[-1], next_offset=reached)
    return Collected(reached, tuple(chunks), used_bytes=entries.valid_bytes)


def _decoded(
    unpack: Callable[..., Decoded], data: memoryview, bytes_max: int, scanned: Entries | None = None
) -> Decoded:
    try:
        return unpack(data, decompressed_bytes_max=bytes_max, scanned=scanned)
    except CorruptRecord:
        # What looks damaged may be a single batch that is larger than `bytes_max`.
        return unpack(data[: _entry_bytes(data)], decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)


def _entry_bytes(data: memoryview) -> int:
    return ENTRY_OVERHEAD + int(SIZE.unpack_from(data, SIZE_AT)[0])


def _has_whole_entry(data: memoryview) -> bool:
    """Whether the first entry is whole. Brokers cut the last entry, and before Fetch 3 the first
    entry too.
    """
    return len(data) >= ENTRY_OVERHEAD and _entry_bytes(data) <= len(data)


def visible_end(answer: FetchPartitionResponse, config: FetchConfig) -> int:
    """Return the offset up to which records are visible at this isolation level."""
    if config.reads_committed and answer.last_stable_offset >= 0:
        return answer.last_stable_offset
    return answer.high_watermark
