"""What an opening found lost, cut or damaged in a partition, in numbers and in sentences for the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.log import file_names
from ottla.log.lost_offsets import Gap

if TYPE_CHECKING:
    from ottla.log.recovery import LogOpening


class Cut(NamedTuple):
    """The end of a log that was cut off: from `position` of a segment file on, with all segments after it."""

    file_name: str
    position: int
    offset: int
    size: int
    segments: int
    reason: str


@dataclass(slots=True)
class RecoveryReport:
    """What one opening did. `is_clean`: the last stop was clean.

    snapshots    names of the producer snapshots
    gaps         offsets that are missing between segments
    lost_start   (where the log started, where it starts now)
    begun_anew   nothing was left from the log's start on: it begins there, empty
    grown        (where the log ended when it was closed, where it ends now)
    lost_end     (where the log ends now, up to where it could be read before the crash)
    """

    is_clean: bool = False
    swaps_finished: list[int] = field(default_factory=list)
    files_removed: list[str] = field(default_factory=list)
    segments_verified: list[int] = field(default_factory=list)
    indexes_rebuilt: list[int] = field(default_factory=list)
    epochs_rebuilt: bool = False
    begun_anew: bool = False
    cut: Cut | None = None
    gaps: list[Gap] = field(default_factory=list)
    lost_start: Gap | None = None
    lost_end: Gap | None = None
    grown: Gap | None = None
    snapshots: Sequence[str] | None = None

    @property
    def has_changed_files(self) -> bool:
        """Whether files were made, renamed or removed."""
        changes = self.swaps_finished, self.files_removed, self.segments_verified
        return any(changes) or self.begun_anew or self.cut is not None

    @property
    def bytes_cut(self) -> int:
        """Bytes that were cut off the end."""
        return self.cut.size if self.cut is not None else 0

    @property
    def offsets_lost(self) -> int:
        """How many offsets are known to be lost; those before the start count only after a clean stop."""
        spans = [*self.gaps, *([self.lost_end] if self.lost_end else [])]
        if self.lost_start and self.is_clean:
            spans.append(self.lost_start)
        return sum(end - start for start, end in spans)

    def note_ends(self, first: int, end: int, opening: LogOpening) -> None:
        """Compare where the log starts and ends with what the checkpoints say."""
        if opening.start_offset is not None and opening.start_offset < first:
            self.lost_start = opening.start_offset, first
        if opening.high_watermark is not None and end < opening.high_watermark:
            self.lost_end = end, opening.high_watermark
        if opening.clean and 0 < opening.recovery_point < end:
            self.grown = opening.recovery_point, end

    def sentences(self) -> Iterator[str]:
        """What an operator must be told, a line each."""
        if self.cut is not None:
            file_name, position, offset, size, segments, reason = self.cut
            more = f", with {segments} later segments" if segments else ""
            yield f"{size:,} bytes were cut from byte {position} of {file_name} on{more}: {reason}"
            yield f"the log ends at offset {offset} now"
        if self.lost_end is not None:
            start, end = self.lost_end
            yield f"offsets {start} to {end - 1} could be read before the crash, and are lost"
        if self.grown is not None:
            yield "the log ended at offset {} when it was closed, and ends at {} now".format(*self.grown)
        for start, end in self.gaps:
            yield f"offsets {start} to {end - 1} are missing between two segments"
        if self.lost_start is not None:
            start, first = self.lost_start
            cause = (
                "files are gone" if self.is_clean else "by retention just before the stop, or files are gone"
            )
            yield f"the log starts at offset {first}, and started at {start}: {cause}"
        if self.indexes_rebuilt:
            names = ", ".join(f"{base:020d}" for base in self.indexes_rebuilt)
            yield f"missing or damaged indexes were rebuilt: {names}"
        orphans = [name for name in self.files_removed if name.endswith(file_names.SUFFIXES)]
        if orphans:
            yield f"indexes without a log file were removed: {', '.join(orphans)}"
        if self.begun_anew:
            yield "it ended before its start, and begins anew there: only deleted records were left"
        if self.epochs_rebuilt:
            yield "leader-epoch-checkpoint was damaged, and is written anew from the batches"
