"""The check of one partition's directory: every byte of every file is looked at, and nothing is changed.

A finding says what is wrong, what becomes of it, and how `ottla log repair` repairs it. A finding without
actions needs none: the next start repairs it by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ottla.log import checkpoints, file_names, partition_metadata, producer_snapshots
from ottla.log.abort_checks import AbortCheck
from ottla.log.file_system import REAL
from ottla.log.index_checks import IndexCheck
from ottla.log.lost_offsets import FILE_NAME as LOST_OFFSETS
from ottla.log.lost_offsets import Gap, read_gaps
from ottla.log.repair import Action, CheckpointLine, Continuation, Excision, GapNote, Removal
from ottla.log.segment_file import SegmentFile
from ottla.log.segment_names import SegmentNames
from ottla.log.survey import SegmentSurvey, surveyed
from ottla.model.errors import StorageError

NEXT_START = "the next start repairs it"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a file.

    `offsets_lost` and `bytes_cut` are what the damage and its repair cost; the rest of the file is kept.
    """

    path: Path
    kind: str
    damage: str
    remedy: str
    actions: tuple[Action, ...] = ()
    offsets_lost: int = 0
    bytes_cut: int = 0


class Known(NamedTuple):
    """What the checkpoints say of a partition; None if they do not."""

    recovery_point: int = 0
    start_offset: int | None = None
    high_watermark: int | None = None
    may_have_gaps: bool = False  # it was compacted
    was_clean: bool = False


@dataclass(slots=True)
class _Inspection:
    directory: Path
    known: Known
    findings: list[Finding] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    size: int = 0

    def note(self, name: str, kind: str, damage: str, remedy: str, *actions: Action) -> None:
        self.findings.append(Finding(self.directory / name, kind, damage, remedy, actions))


def inspected(directory: Path, known: Known) -> list[Finding]:
    """Check all files of a partition's directory, which must exist. Raises StorageError."""
    inspection = _Inspection(directory, known)
    try:
        _check_segments(inspection)
        _check_small_files(inspection)
    except OSError as error:
        raise StorageError(f"{directory}: cannot check it: {error}") from error
    return inspection.findings


def _check_segments(inspection: _Inspection) -> None:
    directory, known = inspection.directory, inspection.known
    names = SegmentNames(directory)
    for base in names.bases(file_names.LOG + file_names.SWAP):
        _check_log(inspection, base, None, AbortCheck(directory), file_names.SWAP)
    bases = names.bases()
    end = known.start_offset or 0
    aborts = AbortCheck(directory)
    for index, base in enumerate(bases):
        behind = bases[index + 1] if index + 1 < len(bases) else None
        if index and end < base:
            inspection.gaps.append((end, base))
        end = _check_log(inspection, base, behind, aborts)
    _check_start(inspection, bases, end)
    _note_gaps(inspection)
    if max(end, known.start_offset or 0) < known.recovery_point:
        _note_lost_end(inspection, end)


def _check_start(inspection: _Inspection, bases: list[int], end: int) -> None:
    known, start = inspection.known, inspection.known.start_offset
    if start is None or not bases:
        return
    name = f"{bases[0]:020d}{file_names.LOG}"
    if start < bases[0]:
        cause = (
            "files are gone" if known.was_clean else "by retention just before the stop, or files are gone"
        )
        lost = f"the log starts at offset {bases[0]}, and started at {start}: {cause}"
        inspection.note(name, "log", lost, NEXT_START)
    if start > max(end, known.high_watermark or start):
        path = inspection.directory.parent / checkpoints.LOG_START
        partition = file_names.parse_partition_directory(inspection.directory.name)
        assert partition is not None
        damage = f"it says that {inspection.directory.name} starts at offset {start}, and that ends at {end}"
        remedy = f"it is set to {bases[0]}, where the first segment begins"
        action = CheckpointLine(path, partition, bases[0])
        inspection.findings.append(Finding(path, "checkpoint", damage, remedy, (action,)))


def _note_gaps(inspection: _Inspection) -> None:
    """Offsets that are missing within segments or between them, and that no repair has noted."""
    directory = inspection.directory
    if inspection.known.may_have_gaps:
        return
    for start, end in sorted(set(inspection.gaps) - set(read_gaps(directory))):
        damage = f"offsets {start} to {end - 1} are missing"
        remedy = f"they are lost; {LOST_OFFSETS} names them from now on"
        actions = (GapNote(directory, ((start, end),)),)
        inspection.findings.append(Finding(directory, "log", damage, remedy, actions, end - start))


def _note_lost_end(inspection: _Inspection, end: int) -> None:
    directory, flushed = inspection.directory, inspection.known.recovery_point
    damage = f"it ends at offset {end}, and was flushed up to {flushed}: it is not served"
    remedy = f"offsets {end} to {flushed - 1} are lost; an empty batch keeps them from being given twice"
    actions = (Continuation(directory, end, flushed),)
    inspection.findings.append(Finding(directory, "log", damage, remedy, actions, flushed - end))


def _check_log(
    inspection: _Inspection, base: int, behind: int | None, aborts: AbortCheck, state: str = ""
) -> int:
    """Check a segment with its indexes; returns one past its last sound offset."""
    directory = inspection.directory
    path = file_names.segment_file(directory, base, file_names.LOG + state)
    survey = SegmentSurvey(base)
    indexes = IndexCheck(directory, base)
    file = SegmentFile(path, REAL)
    try:
        for batch in surveyed(file, base, behind, survey):
            indexes.see(batch)
            aborts.see(batch, file)
    finally:
        file.close()
    if not state:
        inspection.gaps += survey.gaps
        for suffix, damage in indexes.faults(path.stat().st_size, is_active=behind is None):
            name = f"{base:020d}{suffix}"
            remedy = "it is removed, and the next start rebuilds it"
            inspection.note(name, "index", damage, remedy, Removal(directory / name))
        for damage in aborts.faults(base):
            _note_lost_aborts(inspection, base, damage)
    if survey.bad:
        _note_bad_bytes(inspection, path, survey, is_end=behind is None and not state)
    return survey.next_offset


def _note_lost_aborts(inspection: _Inspection, base: int, damage: str) -> None:
    """The next start makes an index of aborts anew together with the others of its segment."""
    remedy = "the offset index is removed, and the next start rebuilds both"
    offsets = file_names.segment_file(inspection.directory, base, file_names.INDEX)
    inspection.note(f"{base:020d}{file_names.ABORTED_INDEX}", "index", damage, remedy, Removal(offsets))


def _note_bad_bytes(inspection: _Inspection, path: Path, survey: SegmentSurvey, *, is_end: bool) -> None:
    parts = tuple((item.start, item.end) for item in survey.bad)
    first = survey.bad[0]
    more = f", and {len(parts) - 1} more places" if len(parts) > 1 else ""
    damage = f"{survey.bad_bytes:,} bytes from byte {first.start} on: {first.reason}{more}"
    is_tail = is_end and parts[0][1] == path.stat().st_size
    is_flushed = survey.next_offset < inspection.known.recovery_point
    remedy = "these bytes are cut, all sound batches stay"
    if is_tail and not is_flushed:
        remedy += "; so does the next start"
    inspection.findings.append(
        Finding(path, "log", damage, remedy, (Excision(path, parts),), bytes_cut=survey.bad_bytes)
    )


def _check_small_files(inspection: _Inspection) -> None:
    directory = inspection.directory
    bases = set(SegmentNames(directory).bases())
    for path in sorted(directory.iterdir()):
        name = file_names.parse_segment_file(path.name)
        if name is not None and not name[2] and name[0] not in bases:
            inspection.note(path.name, "index", "its log file is gone", NEXT_START, Removal(path))
        elif (
            path.suffix == producer_snapshots.SUFFIX and producer_snapshots.decode(path.read_bytes()) is None
        ):
            remedy = "it is removed, and the next start reads the log instead"
            inspection.note(path.name, "snapshot", "its checksum does not match", remedy, Removal(path))
        elif path.name in _PAIRS:
            for damage in _pair_faults(path):
                inspection.note(path.name, _PAIRS[path.name], damage, NEXT_START, *_removal(path))
        elif path.name == partition_metadata.FILE_NAME and partition_metadata.read(directory) is None:
            inspection.note(path.name, "topic id", "it has no topic id", NEXT_START, Removal(path))


_PAIRS = {checkpoints.LEADER_EPOCHS: "leader epochs", LOST_OFFSETS: "lost offsets"}


def _removal(path: Path) -> tuple[Action, ...]:
    """Only a damaged file of leader epochs is written anew from the log: a missing one counts as empty."""
    return () if path.name == checkpoints.LEADER_EPOCHS else (Removal(path),)


def _pair_faults(path: Path) -> Iterator[str]:
    try:
        checkpoints.read_pairs(path)
    except StorageError:
        yield "it is no checkpoint file of version 0"
