"""Checks every byte of a segment file: which part recovery keeps, and whether a sound batch follows damage.

Uses the scan kernel, which finds entries and verifies checksums at gigabytes a second.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ottla.kernels import layout
from ottla.log.batch_header import header_at, named
from ottla.log.file_system import FileSystem
from ottla.log.segment import Segment
from ottla.log.segment_file import SegmentFile
from ottla.model import record_layout
from ottla.model.checksums import crc32c
from ottla.model.record_layout import CONTROL, SIZE_MIN, TRANSACTIONAL
from ottla.records.entries import read_only, scan, verified

CHUNK_BYTES = 4 << 20
PLAIN_BYTES_MAX = 16 << 10
SEARCH_BYTES = 1 << 20
OFFSETS_AHEAD_MAX = 1 << 31
_COLUMNS = [
    layout.ENTRY,
    layout.END,
    layout.BASE_OFFSET,
    layout.LAST_OFFSET,
    layout.MAX_TIMESTAMP,
    layout.MAGIC,
    layout.ATTRIBUTES,
]


class SoundBatch(NamedTuple):
    """A batch with a right checksum and its place in the file."""

    start: int
    end: int
    first_offset: int
    last_offset: int
    timestamp: int
    magic: int
    attributes: int

    @property
    def is_in_transaction(self) -> bool:
        """Whether it is part of a transaction, or its marker."""
        return self.magic == 2 and bool(self.attributes & (TRANSACTIONAL | CONTROL))


class Walk(NamedTuple):
    """What is wrong with the first damaged batch, None if all are sound; whether sound ones are markers."""

    fault: str | None
    has_markers: bool


class _Damage(Exception):
    """Bytes that are not a sound batch."""


def walk(segment: Segment, end_offset: int | None = None) -> Walk:
    """Note all batches up to the first damaged one.

    A batch that reaches beyond `end_offset` is damaged too. `segment.noted_bytes` is then the end of the
    sound part, and `segment.next_offset` its next offset.
    """
    has_markers = False
    try:
        for batch in _sound(segment.file, segment.base_offset, end_offset):
            segment.note(batch.start, ((batch.end - batch.start, batch.last_offset, batch.timestamp),))
            if batch.is_in_transaction:
                has_markers |= bool(batch.attributes & CONTROL)
    except _Damage as damage:
        return Walk(str(damage), has_markers)
    return Walk(None, has_markers)


def verified_end(path: Path, base_offset: int, file_system: FileSystem) -> int | None:
    """One past the last offset of a file all of whose batches are sound; None if they are not."""
    file, end = SegmentFile(path, file_system), base_offset
    try:
        for batch in _sound(file, base_offset):
            end = batch.last_offset + 1
    except _Damage:
        return None
    finally:
        file.close()
    return end


def _sound(file: SegmentFile, base_offset: int, end_offset: int | None = None) -> Iterator[SoundBatch]:
    expected = base_offset
    offset_max = base_offset + OFFSETS_AHEAD_MAX if end_offset is None else end_offset
    for batch in intact(file):
        if isinstance(batch, str):
            raise _Damage(batch)
        first, last = batch.first_offset, batch.last_offset
        if not expected <= first <= last < offset_max:
            raise _Damage(order_fault(first, last, expected, offset_max))
        yield batch
        expected = last + 1


def order_fault(first: int, last: int, expected: int, offset_max: int) -> str:
    """What is wrong with the offsets of a batch that is to lie between two others."""
    return f"offsets {first} to {last} are not between {expected} and {offset_max - 1}"


def intact(file: SegmentFile, position: int = 0) -> Iterator[SoundBatch | str]:
    """Each batch whose checksum is right, up to the first other bytes, which begin where the last one ended.

    If there are such bytes, the last thing is what is wrong with them.
    """
    chunk_bytes = CHUNK_BYTES
    while position < file.size:
        data = file.read(position, chunk_bytes)
        if len(data) <= PLAIN_BYTES_MAX and (batches := _plainly_sound(data, position)):
            yield from batches
            position += len(data)
            continue
        entries = scan(read_only(data), verify_crc=True)
        if entries.summary.unverified:
            entries = verified(entries)
        for at, end, *rest in entries.table[:, _COLUMNS].tolist():
            yield named(SoundBatch, (position + at, position + end, *rest))
        if entries.damage is not None:
            yield str(entries.damage)
            return
        position += entries.valid_bytes
        if not entries.valid_bytes:
            if position + len(data) >= file.size:
                yield f"the last {len(data)} bytes are no whole batch"
                return
            chunk_bytes *= 2
        else:
            chunk_bytes = CHUNK_BYTES


def _plainly_sound(data: bytes, position: int) -> list[SoundBatch]:
    """All batches, if the bytes are nothing but whole, sound batches of format 2; else none.

    For few of them this takes a tenth of the time of the kernel, and a crash may leave thousands of segments.
    """
    batches, at, view = [], 0, memoryview(data)
    while at < len(data):
        header = header_at(data, at, position + at)
        if header is None or header.magic != 2 or min(header.base_offset, header.record_count) < 0:
            return []
        end = at + header.size
        if not at + record_layout.BATCH_OVERHEAD <= end <= len(data) or not _has_right_crc(view[at:end], 2):
            return []
        offsets = header.base_offset, header.last_offset
        batches.append(
            SoundBatch(position + at, position + end, *offsets, header.max_timestamp, 2, header.attributes)
        )
        at = end
    return batches


def sound_batch_after(file: SegmentFile, position: int, offset: int) -> int | None:
    """Where the first sound batch with an offset of at least `offset` begins, at or after a position.

    Damage may hide where batches begin, so every byte is tried; the checksum makes a chance hit impossible.
    """
    while position < file.size:
        data = file.read(position, SEARCH_BYTES + record_layout.BATCH_OVERHEAD)
        for at in _plausible(np.frombuffer(data, np.uint8), offset, file.size - position):
            if _is_sound(file, position + at):
                return position + at
        position += SEARCH_BYTES
    return None


def _plausible(data: np.ndarray[tuple[int], np.dtype[np.uint8]], offset: int, bytes_left: int) -> list[int]:
    """Positions where magic, size and offset are possible for a batch."""
    count = min(len(data) - record_layout.MAGIC_AT, SEARCH_BYTES)
    if count <= 0:
        return []
    candidates = np.flatnonzero(
        (data[record_layout.MAGIC_AT : record_layout.MAGIC_AT + count] <= 2) & (data[:count] == 0)
    )
    size = np.zeros(len(candidates), np.int64)
    first = np.zeros(len(candidates), np.int64)
    for byte in range(4):
        size = size << 8 | data[candidates + 8 + byte]
    for byte in range(8):
        first = first << 8 | data[candidates + byte]
    fits = (size >= SIZE_MIN[0]) & (size + record_layout.ENTRY_OVERHEAD + candidates <= bytes_left)
    near = (first >= offset) & (first < offset + OFFSETS_AHEAD_MAX)
    return [int(at) for at in candidates[fits & near]]


def _is_sound(file: SegmentFile, position: int) -> bool:
    head = file.read(position, record_layout.BATCH_OVERHEAD)
    header = header_at(head, 0, position)
    if header is None or header.size < SIZE_MIN[header.magic] + record_layout.ENTRY_OVERHEAD:
        return False
    return _has_right_crc(memoryview(file.read(position, header.size)), header.magic)


def _has_right_crc(entry: memoryview, magic: int) -> bool:
    if magic == 2:
        crc = int.from_bytes(entry[record_layout.BATCH_CRC_AT : record_layout.BATCH_CRC_AT + 4], "big")
        return bool(crc32c(entry[record_layout.BATCH_ATTRIBUTES_AT :]) == crc)
    crc = int.from_bytes(entry[record_layout.LEGACY_CRC_AT : record_layout.LEGACY_CRC_AT + 4], "big")
    return zlib.crc32(entry[record_layout.MAGIC_AT :]) == crc
