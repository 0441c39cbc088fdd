"""Which batches a reader of committed data must not see.

A fetch response lists the aborted transactions that overlap it, each with its producer and first offset.
A transactional batch of such a producer is dropped from that offset on, until the producer's abort marker
(a control batch) ends the transaction. Markers themselves are never delivered, but occupy offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ottla.kernels import layout

ABORT_MARKER = 0
# Four varints of nine bytes at most, attributes, and the key; a marker's value does not matter.
MARKER_BYTES_MAX = 64


class AbortedTransaction(Protocol):
    """One row of a fetch response's list, as `ottla.wire.api.fetch` has it."""

    producer_id: int
    first_offset: int


def visible(
    table: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], aborted: Iterable[AbortedTransaction] | None
) -> npt.NDArray[np.bool_]:
    """For each entry, whether its records are delivered."""
    attributes = table[:, layout.ATTRIBUTES]
    batches = table[:, layout.MAGIC] == 2
    keep: npt.NDArray[np.bool_] = ~(batches & (attributes & layout.CONTROL != 0))
    pending = sorted(aborted or (), key=lambda one: one.first_offset, reverse=True)
    if not pending:
        return keep
    open_producers: set[int] = set()
    marked = batches & (attributes & (layout.CONTROL | layout.TRANSACTIONAL) != 0)
    for row in np.flatnonzero(marked):
        entry = table[row]
        while pending and pending[-1].first_offset <= entry[layout.LAST_OFFSET]:
            open_producers.add(pending.pop().producer_id)
        producer_id = int(entry[layout.PRODUCER_ID])
        if entry[layout.ATTRIBUTES] & layout.CONTROL:
            if _marker_type(data, entry) == ABORT_MARKER:
                open_producers.discard(producer_id)
        elif producer_id in open_producers:
            keep[row] = False
    return keep


def _marker_type(data: npt.NDArray[np.uint8], entry: npt.NDArray[np.int64]) -> int | None:
    """The type in a control batch's only record, whose key is version i16, type i16; None if it has none."""
    start = entry[layout.START]
    record = bytes(data[start : min(entry[layout.END], start + MARKER_BYTES_MAX)])
    try:
        _, at = _varint(record, 0)  # length
        _, at = _varint(record, at + 1)  # attributes, timestamp delta
        _, at = _varint(record, at)  # offset delta
        key_size, at = _varint(record, at)
    except IndexError:
        return None
    if key_size < 4 or at + 4 > len(record):
        return None
    return int.from_bytes(record[at + 2 : at + 4], "big", signed=True)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint of at most 63 bits, as the kernels read them, and the position behind it."""
    value = 0
    for shift in range(0, 63, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise IndexError("a varint of more than nine bytes")
