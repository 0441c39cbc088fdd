"""Every batch of a segment file, also after damage: what can be kept of it, and what cannot.

Recovery stops at the first damage. A survey goes on: it searches the next sound batch, so that a repair
loses only what is broken. Checksums do not cover offsets: where those are out of order, the one batch is
dropped that does not fit between its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.log.lost_offsets import Gap
from ottla.log.segment_file import SegmentFile
from ottla.log.verification import OFFSETS_AHEAD_MAX, SoundBatch, intact, order_fault, sound_batch_after


class BadBytes(NamedTuple):
    """A part of the file that is to go, and why."""

    start: int
    end: int
    reason: str


@dataclass(slots=True)
class SegmentSurvey:
    """What was found in one file. `next_offset` is one past the last sound batch."""

    next_offset: int
    batches: int = 0
    bad: list[BadBytes] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    @property
    def bad_bytes(self) -> int:
        """Bytes that are to go."""
        return sum(item.end - item.start for item in self.bad)


def surveyed(
    file: SegmentFile, base_offset: int, end_offset: int | None, survey: SegmentSurvey
) -> Iterator[SoundBatch]:
    """Yield the sound batches of a file in order, and note everything else in `survey`."""
    offset_max = base_offset + OFFSETS_AHEAD_MAX if end_offset is None else end_offset
    before, expected = base_offset, base_offset  # before and after `held`
    held: SoundBatch | None = None
    for item in _pieces(file, survey):
        if isinstance(item, BadBytes):
            survey.bad.append(item)
            continue
        if held is not None and before <= item.first_offset < expected:
            survey.bad.append(_misplaced(held, before, item.first_offset + 1))
            held, expected = None, before
        if not expected <= item.first_offset <= item.last_offset < offset_max:
            survey.bad.append(_misplaced(item, expected, offset_max))
            continue
        if held is not None:
            yield _counted(held, before, survey)
        held, before, expected = item, expected, item.last_offset + 1
    if held is not None:
        yield _counted(held, before, survey)


def _counted(batch: SoundBatch, expected: int, survey: SegmentSurvey) -> SoundBatch:
    if batch.first_offset > expected:
        survey.gaps.append((expected, batch.first_offset))
    survey.batches += 1
    survey.next_offset = batch.last_offset + 1
    return batch


def _misplaced(batch: SoundBatch, expected: int, offset_max: int) -> BadBytes:
    reason = order_fault(batch.first_offset, batch.last_offset, expected, offset_max)
    return BadBytes(batch.start, batch.end, reason)


def _pieces(file: SegmentFile, survey: SegmentSurvey) -> Iterator[SoundBatch | BadBytes]:
    """Batches with a right checksum, and what is between them."""
    position = 0
    while position < file.size:
        for batch in intact(file, position):
            if isinstance(batch, str):
                sound = sound_batch_after(file, position + 1, survey.next_offset)
                end = file.size if sound is None else sound
                yield BadBytes(position, end, batch)
                position = end
            else:
                position = batch.end
                yield batch
