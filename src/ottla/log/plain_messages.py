"""Many plain messages as columns: formats 0 and 1 without compression, as the clients of 0.8 and 0.9 send
them.

Each has its own checksum, offset and length fields, and one by one they cost far more than a batch of the
same size. The positions come from a walk over the sizes (`message_walk`), everything else by position at
once.

The log gets stretches of about index.interval.bytes instead of single messages: its indexes are no finer.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.log.batch_header import BatchHeader, named
from ottla.log.log_config import LogConfig
from ottla.model.record_layout import (
    ENTRY_OVERHEAD,
    LEGACY_BODY_AT,
    LEGACY_CRC_AT,
    LEGACY_TIMESTAMP_AT,
    LENGTH_BYTES,
    MAGIC_AT,
    NO_TIMESTAMP,
    SIZE_MIN,
)

Positions = npt.NDArray[np.int64]


class PlainMessages(NamedTuple):
    """A sound set: where its messages begin, and its stretches as if each were one entry."""

    positions: Positions
    stretches: tuple[BatchHeader, ...]


def plain_messages(
    view: memoryview, starts: list[int], config: LogConfig, now_ms: int
) -> PlainMessages | None:
    """The set as columns, if all of it is valid plain messages of one format; else None."""
    magic = view[MAGIC_AT]
    positions = np.array(starts, np.int64)
    ends = np.append(positions[1:], len(view))
    sizes = ends - positions
    if (
        int(sizes.min()) < ENTRY_OVERHEAD + SIZE_MIN[magic]
        or int(sizes.max()) > config.max_message_bytes
        or (_at_each(view, positions + MAGIC_AT, ">u2") != magic << 8).any()  # no attributes either
        or not _are_filled(view, positions + LEGACY_BODY_AT[magic], ends)
        or not _have_right_checksums(view, positions, ends)
    ):
        return None
    times = np.full(len(positions), NO_TIMESTAMP, np.int64)
    if magic == 1:
        times = _at_each(view, positions + LEGACY_TIMESTAMP_AT, ">i8").astype(np.int64)
        if not _are_timely(times, config, now_ms):
            return None
    return PlainMessages(positions, _stretches(positions, times, len(view), magic, config))


def number(view: memoryview, positions: Positions, base_offset: int) -> None:
    """Give the messages offsets from `base_offset` on; no checksum covers them."""
    _overlapping(view, ">i8")[positions] = np.arange(base_offset, base_offset + len(positions))


def _overlapping(view: memoryview, kind: str) -> npt.NDArray[Any]:
    """The number that begins at each byte: what is picked from them is copied once, by their positions."""
    return np.ndarray((len(view) - np.dtype(kind).itemsize + 1,), kind, view, strides=(1,))


def _at_each(view: memoryview, positions: Positions, kind: str) -> npt.NDArray[Any]:
    """One big-endian number at each position."""
    numbers: npt.NDArray[Any] = _overlapping(view, kind)[positions]
    return numbers


def _are_filled(view: memoryview, key_lengths_at: Positions, ends: Positions) -> bool:
    """Whether key and value, null or not, fill each message to its last byte."""
    keys = _at_each(view, key_lengths_at, ">i4").astype(np.int64)
    value_lengths_at = key_lengths_at + LENGTH_BYTES + np.maximum(keys, 0)
    if (keys < -1).any() or (value_lengths_at + LENGTH_BYTES > ends).any():
        return False
    values = _at_each(view, value_lengths_at, ">i4").astype(np.int64)
    filled = value_lengths_at + LENGTH_BYTES + np.maximum(values, 0) == ends
    return bool((values >= -1).all() and filled.all())


def _have_right_checksums(view: memoryview, positions: Positions, ends: Positions) -> bool:
    data, crc32 = bytes(view), zlib.crc32  # a slice of bytes takes half as long as one of a view
    spans = zip((positions + MAGIC_AT).tolist(), ends.tolist(), strict=True)
    stored: list[int] = _at_each(view, positions + LEGACY_CRC_AT, ">u4").tolist()
    return [crc32(data[start:end]) for start, end in spans] == stored


def _are_timely(times: Positions, config: LogConfig, now_ms: int) -> bool:
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    known = times[times != NO_TIMESTAMP]
    return not len(known) or (int(known.min()) >= max(earliest, 0) and int(known.max()) <= latest)


def _stretches(
    positions: Positions, times: Positions, size: int, magic: int, config: LogConfig
) -> tuple[BatchHeader, ...]:
    pieces = positions // max(config.index_interval_bytes, 1)
    firsts = np.flatnonzero(np.append(True, pieces[1:] != pieces[:-1]))
    newest = np.maximum.reduceat(times, firsts).tolist()
    begins = positions[firsts].tolist()
    counts = np.diff(np.append(firsts, len(positions))).tolist()
    rows = zip(begins, [*begins[1:], size], newest, counts, strict=True)
    return tuple(
        named(BatchHeader, (begin, end - begin, 0, 0, magic, 0, time, time, count, -1, -1, -1, -1))
        for begin, end, time, count in rows
    )
