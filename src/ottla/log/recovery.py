"""Loading a partition's files, and repairing them after a crash, in numbered passes.

1. `finish_swaps`: compactions that were decided are carried out.
2. `sweep`: files that belong to no segment any more go.
3. `load`: sound segments are trusted; from the recovery point on, every batch is verified, the indexes are
   rebuilt, and the log is cut at the first batch that is damaged, as Kafka does.
4. `catch_up`: a log that ends before its start begins anew there.

Every pass may itself be killed at any instant and run again. Whatever is lost or cut is in the report. What
was flushed is never cut: damage below the recovery point, or a log that ends below it, is refused with
DamagedLog, and nothing is changed. `ottla log repair` (module `repair`) is then the way out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.log import file_names, lost_offsets, producer_snapshots
from ottla.log.abort_recovery import AbortRecovery
from ottla.log.file_names import LOG, SWAP
from ottla.log.file_system import FileSystem
from ottla.log.log_config import LogConfig
from ottla.log.lost_offsets import read_gaps
from ottla.log.recovery_report import Cut, RecoveryReport
from ottla.log.segment import Segment
from ottla.log.segment_names import SegmentNames
from ottla.log.segment_parts import Listing
from ottla.model.errors import DamagedLog

if TYPE_CHECKING:
    from ottla.log.verification import Walk

Gap = tuple[int, int]
"""Offsets that are missing between two segments: the first, and that after the last."""


@dataclass(frozen=True, slots=True)
class LogOpening:
    """What loading needs to know: the directory, and what the checkpoints say of it (None: they do not).

    `recovery_point`: everything below it was flushed before the crash. `first_dirty`: below it compaction may
    have left gaps between segments. `is_new`: it is known that the directory has no files.
    """

    directory: Path
    config: LogConfig
    file_system: FileSystem
    now_ms: int
    start_offset: int | None = None
    recovery_point: int = 0
    clean: bool = False
    high_watermark: int | None = None
    first_dirty: int = 0
    is_new: bool = False

    @property
    def start(self) -> int:
        """Where the log starts, 0 if that is not known."""
        return self.start_offset or 0

    def may_have_gap(self, offset: int) -> bool:
        """Whether compaction may have removed the records before `offset`."""
        return self.config.is_compacted or offset <= self.first_dirty

    def gap(self, end: int, behind: int) -> set[Gap]:
        """The gap between two segments, if there is one that compaction does not explain."""
        return {(end, behind)} if end < behind and not self.may_have_gap(behind) else set()

    def has_lost(self, end: int, behind: int, known_gaps: set[Gap]) -> bool:
        """Whether a crash took the records from `end` to the next segment: they were not flushed."""
        is_unflushed = not self.clean and end >= self.recovery_point
        is_explained = self.may_have_gap(behind) or (end, behind) in known_gaps
        return end < behind and is_unflushed and not is_explained


def load_segments(opening: LogOpening, names: SegmentNames) -> tuple[list[Segment], RecoveryReport]:
    """Run all passes. Returns at least one segment; the last one is active. `names`: what is there."""
    snapshots = [name for name in names.others if name.endswith(producer_snapshots.SUFFIX)]
    report = RecoveryReport(opening.clean, snapshots=snapshots)
    names = finish_swaps(opening, names, report)
    sweep(opening, names, report)
    segments = load(opening, names, report)
    try:
        check_ends(opening, segments[-1].next_offset, segments[-1])
        segments = catch_up(opening, segments, report)
        segments[-1].store_indexes()
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    report.note_ends(segments[0].base_offset, segments[-1].next_offset, opening)
    return segments, report


def finish_swaps(opening: LogOpening, names: SegmentNames, report: RecoveryReport) -> SegmentNames:
    """Pass 1. A `.log.swap` is a compacted segment that was written and flushed: it replaces every segment
    that begins within its offsets.

    The originals go in ascending order, so that a key's tombstone never goes before the values it hides; the
    one of the same name goes last, by the rename itself. Until then the swap file stays, and the pass can be
    repeated. The indexes of the originals go too; pass 3 rebuilds what is missing. Returns the new names.
    """
    directory, files = opening.directory, opening.file_system
    for base in names.bases(LOG + SWAP):
        swap = file_names.segment_file(directory, base, LOG + SWAP)
        end = _end_of_swap(opening, base, swap)
        for replaced in names.bases():
            if base <= replaced < end:
                for suffix in file_names.INDEX_SUFFIXES:
                    files.remove(file_names.segment_file(directory, replaced, suffix))
                if replaced != base:
                    files.remove(file_names.segment_file(directory, replaced, LOG))
        files.rename(swap, file_names.segment_file(directory, base, LOG))
        files.sync_directory(directory)
        report.swaps_finished.append(base)
        names = SegmentNames(directory)
    return names


def _end_of_swap(opening: LogOpening, base: int, swap: Path) -> int:
    from ottla.log.verification import verified_end  # here, since it loads Numba

    end = verified_end(swap, base, opening.file_system)
    if end is None:
        what = "a compacted segment is damaged, and its originals may be gone"
        raise damaged(opening.directory, what, swap, 0, base)
    return end


def sweep(opening: LogOpening, names: SegmentNames, report: RecoveryReport) -> None:
    """Pass 2. Removes what a crash left half done: `.deleted` (was going), `.cleaned` (compaction not yet
    decided), temporary files, and indexes whose log file is gone."""
    for name in names.leftovers():
        opening.file_system.remove(opening.directory / name)
        report.files_removed.append(name)


def load(opening: LogOpening, names: SegmentNames, report: RecoveryReport) -> list[Segment]:
    """Pass 3. After a clean stop everything is trusted whose ends agree with its indexes. Otherwise segments
    that end below the recovery point are trusted, and the others verified: the indexes of one that ends at it
    are flushed with what follows. The last segment is always verified then, for the same reason.

    Of a trusted segment that is sealed nothing is read yet, if its files are there: see `Segment.listed`."""
    bases = names.bases()
    if not bases:
        check_ends(opening, opening.start)
        return [_segment(opening, opening.start)]
    segments: list[Segment] = []
    try:
        _load_into(segments, opening, names, bases, report)
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    return segments


def _load_into(
    segments: list[Segment],
    opening: LogOpening,
    names: SegmentNames,
    bases: list[int],
    report: RecoveryReport,
) -> None:
    complete, with_aborts = names.complete(), names.aborts()
    known_gaps = set(read_gaps(opening.directory) if lost_offsets.FILE_NAME in names.others else ())
    listing = Listing(opening, frozenset(end for _, end in known_gaps), {})
    aborts = AbortRecovery(opening.directory)
    for index, base in enumerate(bases):
        behind = bases[index + 1] if index + 1 < len(bases) else None
        trusted = opening.clean or (behind is not None and behind < opening.recovery_point)
        if trusted and behind is not None and base in complete:
            segments.append(Segment.listed(listing, base, behind))
            continue
        segment = _segment(opening, base)
        segments.append(segment)
        end = segment.load(next_offset=behind, has_aborts=base in with_aborts) if trusted else None
        if end is None:
            if trusted:
                report.indexes_rebuilt.append(base)
            found = _verify(segment, bases[index + 1 :], opening, report, known_gaps)
            aborts.take_in(segment, segments[:-1], has_markers=found.has_markers)
            if found.fault is not None:
                break
            end = segment.next_offset
            if behind is not None:
                segment.seal()
                segment.next_offset = behind
        if behind is not None:
            report.gaps += opening.gap(end, behind) - known_gaps


def check_ends(opening: LogOpening, end: int, last: Segment | None = None) -> None:
    """Refuse a log that has lost what was flushed, or whose start cannot be; nothing is changed then.

    To continue where such a log ends would give its offsets a second time.
    """
    if max(end, opening.start) < opening.recovery_point:
        what = f"the log ends at offset {end}, but was flushed up to {opening.recovery_point}"
    elif opening.start > max(end, opening.high_watermark or opening.start):
        what = f"the log ends at offset {end}, and its checkpoint says that it starts at {opening.start}"
    else:
        return
    raise damaged(opening.directory, what, opening.directory if last is None else last.file.path, 0, end)


def damaged(directory: Path, what: str, path: Path, position: int, offset: int) -> DamagedLog:
    """The error for a partition that a person must look at, with the command for it."""
    text = f"{path}: {what}. Nothing was changed. See: ottla log repair {directory.parent} --dry-run"
    return DamagedLog(text, path=str(path), position=position, offset=offset)


def catch_up(opening: LogOpening, segments: list[Segment], report: RecoveryReport) -> list[Segment]:
    """Pass 4. Where the end was lost in a crash, the log may end below the start that was checkpointed.

    What is left was deleted already: it goes, oldest first, and offsets continue at the start, none twice.
    """
    if segments[-1].next_offset >= opening.start:
        return segments
    for segment in segments:
        segment.close()
        for suffix in file_names.SUFFIXES:
            opening.file_system.remove(segment.path_of(suffix))
    report.begun_anew = True
    return [_segment(opening, opening.start)]


def _segment(opening: LogOpening, base: int) -> Segment:
    return Segment(
        opening.directory, base, opening.config, opening.file_system, opening.now_ms, is_new=opening.is_new
    )


def _verify(
    segment: Segment, later: list[int], opening: LogOpening, report: RecoveryReport, known_gaps: set[Gap]
) -> Walk:
    """Verify one segment; with a fault the log was cut in it, so that it is the last one now.

    It is a fault too if records behind it are missing that were not flushed: the system may have written a
    later segment before them, which must not be read without them.
    """
    from ottla.log.verification import walk  # here, since it loads Numba

    report.segments_verified.append(segment.base_offset)
    segment.forget()
    found = walk(segment, end_offset=later[0] if later else None)
    offset, position, path = segment.next_offset, segment.noted_bytes, segment.file.path
    reason = found.fault
    if reason is None and later and opening.has_lost(offset, later[0], known_gaps):
        reason = f"offsets {offset} to {later[0] - 1} are not there"
    if reason is None:
        return found
    if offset < opening.recovery_point or (opening.clean and later):
        what = f"byte {position}, offset {offset}: {reason}, and it was flushed: the disk has damaged it"
        raise damaged(opening.directory, what, path, position, offset)
    _cut(segment, later, opening, report, reason)
    return found._replace(fault=reason)


def _cut(segment: Segment, later: list[int], opening: LogOpening, report: RecoveryReport, why: str) -> None:
    """End the log with the sound part of a segment: the rest of it and all later ones go."""
    position = segment.noted_bytes
    later_paths = [file_names.segment_file(opening.directory, base, LOG) for base in later]
    bytes_cut = segment.size - position + sum(item.stat().st_size for item in later_paths)
    report.cut = Cut(segment.file.path.name, position, segment.next_offset, bytes_cut, len(later), why)
    for base in reversed(later):
        for suffix in file_names.SUFFIXES:
            opening.file_system.remove(file_names.segment_file(opening.directory, base, suffix))
    segment.file.truncate(position)
