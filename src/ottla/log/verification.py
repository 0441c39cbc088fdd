"""Every byte of a segment file, checked: what recovery may keep, and if anything sound is behind the rest.

Uses the scan kernel, which finds entries and verifies checksums at gigabytes a second.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import crc32c
import numpy as np

from ottla.kernels import layout
from ottla.log.batch_header import SIZE_MIN, header_at
from ottla.log.file_system import FileSystem
from ottla.log.recent_batches import BatchPlace
from ottla.log.segment import Segment
from ottla.log.segment_file import SegmentFile
from ottla.records.entries import read_only, scan, verified

CHUNK_BYTES = 4 << 20
SEARCH_BYTES = 1 << 20
OFFSETS_AHEAD_MAX = 1 << 31
_COLUMNS = [layout.ENTRY, layout.END, layout.BASE_OFFSET, layout.LAST_OFFSET, layout.MAX_TIMESTAMP]


class _Damage(Exception):
    """The walk met something that is no sound batch."""


def walk(segment: Segment) -> str | None:
    """Note all batches up to the first that is not sound; why that is not, or None if all are.

    `segment.noted_bytes` then tells where the sound part ends, and `segment.next_offset` its next offset.
    """
    try:
        for position, place in _sound(segment.file, segment.base_offset):
            segment.note(position, (place,))
    except _Damage as damage:
        return str(damage)
    return None


def verified_end(path: Path, base_offset: int, file_system: FileSystem) -> int | None:
    """One past the last offset of a file all of whose batches are sound; None if they are not."""
    file, end = SegmentFile(path, file_system), base_offset
    try:
        for _, (_, last_offset, _) in _sound(file, base_offset):
            end = last_offset + 1
    except _Damage:
        return None
    finally:
        file.close()
    return end


def _sound(file: SegmentFile, base_offset: int) -> Iterator[tuple[int, BatchPlace]]:
    position, expected, chunk_bytes = 0, base_offset, CHUNK_BYTES
    while position < file.size:
        data = file.read(position, chunk_bytes)
        entries = scan(read_only(data), verify_crc=True)
        if entries.summary.unverified:
            entries = verified(entries)
        for at, end, first, last, timestamp in entries.table[:, _COLUMNS].tolist():
            if not expected <= first <= last or last - base_offset >= OFFSETS_AHEAD_MAX:
                raise _Damage(f"offsets {first} to {last} do not follow {expected - 1}")
            yield position + at, (end - at, last, timestamp)
            expected = last + 1
        if entries.damage is not None:
            raise _Damage(str(entries.damage))
        position += entries.valid_bytes
        if not entries.valid_bytes:
            if position + len(data) >= file.size:
                raise _Damage(f"the last {len(data)} bytes are no whole batch")
            chunk_bytes *= 2
        else:
            chunk_bytes = CHUNK_BYTES


def sound_batch_after(file: SegmentFile, position: int, offset: int) -> int | None:
    """Where the first sound batch with an offset of at least `offset` begins, at or behind a position.

    Damage may hide where batches begin, so every byte is tried; the checksum makes a chance hit impossible.
    """
    while position < file.size:
        data = file.read(position, SEARCH_BYTES + layout.BATCH_OVERHEAD)
        for at in _plausible(np.frombuffer(data, np.uint8), offset, file.size - position):
            if _is_sound(file, position + at):
                return position + at
        position += SEARCH_BYTES
    return None


def _plausible(data: np.ndarray[tuple[int], np.dtype[np.uint8]], offset: int, bytes_left: int) -> list[int]:
    """Where the magic, the size and the offset are such as a batch could have."""
    count = min(len(data) - layout.MAGIC_AT, SEARCH_BYTES)
    if count <= 0:
        return []
    candidates = np.flatnonzero((data[layout.MAGIC_AT : layout.MAGIC_AT + count] <= 2) & (data[:count] == 0))
    size = np.zeros(len(candidates), np.int64)
    first = np.zeros(len(candidates), np.int64)
    for byte in range(4):
        size = size << 8 | data[candidates + 8 + byte]
    for byte in range(8):
        first = first << 8 | data[candidates + byte]
    fits = (size >= SIZE_MIN[0]) & (size + layout.ENTRY_OVERHEAD + candidates <= bytes_left)
    near = (first >= offset) & (first < offset + OFFSETS_AHEAD_MAX)
    return [int(at) for at in candidates[fits & near]]


def _is_sound(file: SegmentFile, position: int) -> bool:
    head = file.read(position, layout.BATCH_OVERHEAD)
    header = header_at(head, 0, position)
    if header is None or header.size < SIZE_MIN[header.magic] + layout.ENTRY_OVERHEAD:
        return False
    entry = memoryview(file.read(position, header.size))
    if header.magic == 2:
        crc = int.from_bytes(entry[layout.BATCH_CRC_AT : layout.BATCH_CRC_AT + 4], "big")
        return bool(crc32c.crc32c(entry[layout.BATCH_ATTRIBUTES_AT :]) == crc)
    crc = int.from_bytes(entry[layout.LEGACY_CRC_AT : layout.LEGACY_CRC_AT + 4], "big")
    return zlib.crc32(entry[layout.MAGIC_AT :]) == crc
