"""Loading a partition's files, and repairing them after a crash, in numbered passes.

1. `finish_swaps`: compactions that were decided are carried out.
2. `sweep`: files that belong to no segment any more go.
3. `load`: sound segments are trusted; from the recovery point on, every batch is verified, the indexes are
   rebuilt, and a torn end is cut.
4. `catch_up`: a log that ends before its start begins anew there.

Every pass may itself be killed at any instant and run again. Nothing is cut while a sound batch stands behind
the damage: that is no torn write but damage in the middle, and is refused with DamagedLog unless the caller
chose `OnDamage.CUT`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from ottla.log import file_names
from ottla.log.config import LogConfig
from ottla.log.file_names import LOG, SWAP
from ottla.log.file_system import FileSystem
from ottla.log.segment import Segment
from ottla.model.errors import DamagedLog


class OnDamage(Enum):
    """What to do about damage that has sound batches behind it."""

    REFUSE = "refuse"
    CUT = "cut"  # a person decided to lose everything from the damage on


@dataclass(slots=True)
class Report:
    """What was repaired, for the operator's log."""

    swaps_finished: list[int] = field(default_factory=list)
    files_removed: list[str] = field(default_factory=list)
    segments_verified: list[int] = field(default_factory=list)
    bytes_cut: int = 0
    cut_because: str = ""


@dataclass(frozen=True, slots=True)
class Opening:
    """What loading needs to know. `recovery_point`: everything below it was flushed before the crash."""

    directory: Path
    config: LogConfig
    file_system: FileSystem
    now_ms: int
    start_offset: int = 0
    recovery_point: int = 0
    clean: bool = False
    on_damage: OnDamage = OnDamage.REFUSE


def load_segments(opening: Opening) -> tuple[list[Segment], Report]:
    """Run all passes; at least one segment comes back, the last one being the active."""
    report = Report()
    finish_swaps(opening, report)
    sweep(opening, report)
    return catch_up(opening, load(opening, report)), report


def bases_of(directory: Path, suffix: str = LOG) -> list[int]:
    """Base offsets of the segments whose file has this suffix, in order."""
    names = (file_names.parse_segment_file(path.name) for path in directory.iterdir())
    return sorted(name[0] for name in names if name is not None and name[1] + name[2] == suffix)


def finish_swaps(opening: Opening, report: Report) -> None:
    """Pass 1. A `.log.swap` is a compacted segment that was written and flushed: it replaces every segment
    that begins within its offsets.

    The originals go in ascending order, so that a key's tombstone never goes before the values it hides; the
    one of the same name goes last, by the rename itself. Until then the swap file stays, and the pass can be
    repeated. The indexes of the originals go too; pass 3 rebuilds what is missing.
    """
    directory, files = opening.directory, opening.file_system
    for base in bases_of(directory, LOG + SWAP):
        swap = file_names.segment_file(directory, base, LOG + SWAP)
        end = _end_of_swap(opening, base, swap)
        for replaced in bases_of(directory):
            if base <= replaced < end:
                for suffix in (file_names.INDEX, file_names.TIME_INDEX):
                    files.remove(file_names.segment_file(directory, replaced, suffix))
                if replaced != base:
                    files.remove(file_names.segment_file(directory, replaced, LOG))
        files.rename(swap, file_names.segment_file(directory, base, LOG))
        files.sync_directory(directory)
        report.swaps_finished.append(base)


def _end_of_swap(opening: Opening, base: int, swap: Path) -> int:
    from ottla.log.verification import verified_end  # here, since it loads Numba

    end = verified_end(swap, base, opening.file_system)
    if end is None:
        what = f"{swap}: a compacted segment is damaged; its originals may be gone. Restore the partition"
        raise DamagedLog(what, path=str(swap), position=0, offset=base)
    return end


def sweep(opening: Opening, report: Report) -> None:
    """Pass 2. Removes what a crash left half done: `.deleted` (was going), `.cleaned` (compaction not yet
    decided), temporary files, and indexes whose log file is gone."""
    directory = opening.directory
    logs = set(bases_of(directory))
    for path in sorted(directory.iterdir()):
        name = file_names.parse_segment_file(path.name)
        orphan = name is not None and (bool(name[2]) or name[0] not in logs)
        if orphan or path.name.endswith(".tmp"):
            opening.file_system.remove(path)
            report.files_removed.append(path.name)


def load(opening: Opening, report: Report) -> list[Segment]:
    """Pass 3. After a clean stop everything is trusted. Otherwise segments that end at or below the recovery
    point are, and the rest is verified; the last segment always, since its index was not flushed."""
    bases = bases_of(opening.directory)
    if not bases:
        return [_segment(opening, opening.start_offset)]
    segments: list[Segment] = []
    for place, base in enumerate(bases):
        segment = _segment(opening, base)
        segments.append(segment)
        behind = bases[place + 1] if place + 1 < len(bases) else None
        trusted = opening.clean or (behind is not None and behind <= opening.recovery_point)
        if trusted and segment.load(next_offset=behind):
            continue
        if not _verify(segment, bases[place + 1 :], opening, report):
            break
        if behind is not None:
            segment.seal()
    return segments


def catch_up(opening: Opening, segments: list[Segment]) -> list[Segment]:
    """Pass 4. Where the end was lost in a crash, the log may end below the start that was checkpointed.

    What is left was deleted already: it goes, oldest first, and offsets go on at the start, none twice.
    """
    if segments[-1].next_offset >= opening.start_offset:
        return segments
    for segment in segments:
        segment.close()
        for suffix in file_names.SUFFIXES:
            opening.file_system.remove(segment.path_of(suffix))
    return [_segment(opening, opening.start_offset)]


def _segment(opening: Opening, base: int) -> Segment:
    return Segment(opening.directory, base, opening.config, opening.file_system, opening.now_ms)


def _verify(segment: Segment, later: list[int], opening: Opening, report: Report) -> bool:
    """Verify one segment; False if the log was cut in it, so that it is the last one now."""
    from ottla.log.verification import walk  # here, since it loads Numba

    report.segments_verified.append(segment.base_offset)
    segment.forget(opening.config)
    reason = walk(segment)
    if reason is None:
        return True
    offset, position = segment.next_offset, segment.noted_bytes
    followers = [_segment(opening, base) for base in later]
    try:
        place = _first_sound([(segment, position), *((item, 0) for item in followers)], offset)
        if place is not None and opening.on_damage is OnDamage.REFUSE:
            path, found = place
            raise DamagedLog(
                f"{segment.file.path}, byte {position}: {reason}; sound batches follow in {path.name} at byte"
                f" {found}, so this is not a torn write. Nothing was changed. Restore the partition, or open"
                f" it with OnDamage.CUT to lose everything from offset {offset} on",
                path=str(segment.file.path),
                position=position,
                offset=offset,
            )
    finally:
        for follower in followers:
            follower.close()
    report.bytes_cut += segment.size - position + sum(follower.file.size for follower in followers)
    report.cut_because = reason
    for follower in reversed(followers):
        for suffix in file_names.SUFFIXES:
            opening.file_system.remove(follower.path_of(suffix))
    segment.file.truncate(position)
    return False


def _first_sound(places: list[tuple[Segment, int]], offset: int) -> tuple[Path, int] | None:
    """The first batch behind a damage that is sound: (file, position)."""
    from ottla.log.verification import sound_batch_after  # here, since it loads Numba

    for segment, position in places:
        found = sound_batch_after(segment.file, position, offset)
        if found is not None:
            return segment.file.path, found
    return None
