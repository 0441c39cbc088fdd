"""Which batches are hidden from a reader of committed data.

A fetch response lists the aborted transactions that overlap it, each with its producer and first offset.
A transactional batch of such a producer is dropped from that offset on, until the producer's abort marker
(a control batch) ends the transaction. Markers themselves are never delivered, but occupy offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ottla.kernels import layout
from ottla.model import record_layout
from ottla.model.errors import CorruptRecord
from ottla.records.record_bytes import read_varint

ABORT_MARKER, COMMIT_MARKER = 0, 1
# Four varints of nine bytes at most, attributes, and the key; a marker's value does not matter.
MARKER_BYTES_MAX = 64


class AbortedRange(Protocol):
    """An aborted transaction of a fetch response, as `ottla.wire.api.fetch` has it."""

    producer_id: int
    first_offset: int


def visible(
    table: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], aborted: Iterable[AbortedRange] | None
) -> npt.NDArray[np.bool_]:
    """For each entry, whether its records are delivered."""
    attributes = table[:, layout.ATTRIBUTES]
    batches = table[:, layout.MAGIC] == 2
    keep: npt.NDArray[np.bool_] = ~(batches & (attributes & record_layout.CONTROL != 0))
    pending = sorted(aborted or (), key=lambda transaction: transaction.first_offset, reverse=True)
    if not pending:
        return keep
    open_producers: set[int] = set()
    marked = batches & (attributes & (record_layout.CONTROL | record_layout.TRANSACTIONAL) != 0)
    for row in np.flatnonzero(marked):
        entry = table[row]
        while pending and pending[-1].first_offset <= entry[layout.LAST_OFFSET]:
            open_producers.add(pending.pop().producer_id)
        producer_id = int(entry[layout.PRODUCER_ID])
        if entry[layout.ATTRIBUTES] & record_layout.CONTROL:
            if _marker_type(data, entry) == ABORT_MARKER:
                open_producers.discard(producer_id)
        elif producer_id in open_producers:
            keep[row] = False
    return keep


class TransactionStep(NamedTuple):
    """A batch of a transaction: records from first to last offset, or the marker that ends it.

    `marker` is None for records. The epoch of a marker can be above the one of the records (KIP-890).
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    marker: int | None


def transaction_steps(table: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> Iterator[TransactionStep]:
    """The batches of transactions in a record set, in order."""
    bits = record_layout.CONTROL | record_layout.TRANSACTIONAL
    for row in np.flatnonzero((table[:, layout.MAGIC] == 2) & (table[:, layout.ATTRIBUTES] & bits != 0)):
        entry = table[row]
        producer = int(entry[layout.ENTRY]) + record_layout.BATCH_PRODUCER_ID_AT
        producer_id, epoch, _ = record_layout.BATCH_PRODUCER.unpack_from(data.data, producer)
        is_control = entry[layout.ATTRIBUTES] & record_layout.CONTROL
        marker = _marker_type(data, entry) if is_control else None
        if is_control and marker not in (ABORT_MARKER, COMMIT_MARKER):
            continue
        first, last = int(entry[layout.BASE_OFFSET]), int(entry[layout.LAST_OFFSET])
        yield TransactionStep(producer_id, epoch, first, last, marker)


def _marker_type(data: npt.NDArray[np.uint8], entry: npt.NDArray[np.int64]) -> int | None:
    """The type in a control batch's only record, whose key is version i16, type i16; None if it has none."""
    start = entry[layout.START]
    record = bytes(data[start : min(entry[layout.END], start + MARKER_BYTES_MAX)])
    try:
        _, at = read_varint(record, 0)  # length
        _, at = read_varint(record, at + 1)  # attributes, timestamp delta
        _, at = read_varint(record, at)  # offset delta
        key_size, at = read_varint(record, at)
    except (IndexError, CorruptRecord):
        return None
    if key_size < 4 or at + 4 > len(record):
        return None
    return int.from_bytes(record[at + 2 : at + 4], "big", signed=True)
