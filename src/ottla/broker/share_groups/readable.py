"""Which batches of fetched bytes a share group may deliver: no markers, no aborted batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.broker.share_groups.core.share_partition import ReadBatches
from ottla.log.batch_header import BatchHeader, whole_entries
from ottla.log.file_system import Buffer
from ottla.log.undecided import StoredAbort
from ottla.model.record_layout import TRANSACTIONAL


def readable_batches(data: Buffer, read_offset: int, aborted: Sequence[StoredAbort] = ()) -> ReadBatches:
    """Return the whole batches of bytes that were read from `read_offset` on."""
    spans: list[tuple[int, int]] = []
    position = read_offset
    for header in _delivered(whole_entries(memoryview(data)), aborted):
        # The header of a compressed message of the old formats has only its last offset.
        first = position if header.magic < 2 and header.codec else header.base_offset
        spans.append((first, header.last_offset))
        position = header.last_offset + 1
    end = max((header.last_offset for header in whole_entries(memoryview(data))), default=read_offset - 1)
    return ReadBatches(spans, end + 1)


def _delivered(headers: Iterable[BatchHeader], aborted: Sequence[StoredAbort]) -> Iterable[BatchHeader]:
    waiting = sorted(aborted, key=lambda item: item.first_offset, reverse=True)
    open_producers: set[int] = set()
    for header in headers:
        while waiting and waiting[-1].first_offset <= header.last_offset:
            open_producers.add(waiting.pop().producer_id)
        if header.is_control:
            open_producers.discard(header.producer_id)
        elif not (header.attributes & TRANSACTIONAL and header.producer_id in open_producers):
            yield header


def slice_of(data: Buffer, first: int, last: int) -> Buffer:
    """Return the batches from the one with the offset `first` to the one with `last`."""
    inside = [
        header
        for header in whole_entries(memoryview(data))
        if header.last_offset >= first and header.base_offset <= last
    ]
    if not inside:
        return b""
    return memoryview(data)[inside[0].position : inside[-1].position + inside[-1].size]
