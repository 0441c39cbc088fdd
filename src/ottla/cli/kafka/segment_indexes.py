"""The indexes of a segment for kafka-dump-log: printed, and compared with the log beside them."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.cli.kafka.segment_entries import SegmentEntry, entries
from ottla.cli.kafka.tool import ToolRefused, show

_CORRUPT = "org.apache.kafka.storage.internals.log.CorruptIndexException: "
_NONE = -1
Pair = tuple[int, int]


@dataclass
class IndexFaults:
    """Mismatches by file, printed at the end in Kafka's order."""

    mismatches: dict[str, list[Pair]] = field(default_factory=dict)
    timestamps: dict[str, list[Pair]] = field(default_factory=dict)
    disorder: dict[str, list[Pair]] = field(default_factory=dict)
    missing: dict[str, list[Pair]] = field(default_factory=dict)
    gaps: dict[str, list[Pair]] = field(default_factory=dict)
    is_old: bool = False

    def print_all(self) -> None:
        """Print to standard error; mismatches and gaps in reverse order, as Kafka does."""
        gap = "Non-secutive offsets in :{}" if self.is_old else "Non-consecutive offsets in {}"
        log, before = "  Index offset: {}, log offset: {}", "  {} is followed by {}"
        time = "  Index timestamp: {}, log timestamp: {}"
        order = "  Index timestamp: {}, Previously indexed timestamp: {}"
        text = "Indexed offset: {}, found log offset: {}"
        for head, faults, line, step in (
            ("Mismatches in :{}", self.mismatches, log, -1),
            ("Found timestamp mismatch in :{}", self.timestamps, time, 1),
            ("Found out of order timestamp in :{}", self.disorder, order, 1),
            ("The following indexed offsets are not found in :{}", self.missing, text, 1),
            (gap, self.gaps, before, -1),
        ):
            for path, pairs in faults.items():
                show(head.format(path), is_error=True)
                for pair in pairs[::step]:
                    show(line.format(*pair), is_error=True)


def dump_index(
    path: Path, data: bytes, faults: IndexFaults, *, only_verifies: bool, only_checks_sanity: bool
) -> None:
    """Print offsets and positions, up to the zeros at the end of a preallocated file."""
    base, log = int(path.stem), _log_of(path)
    rows = [(base + relative, position) for relative, position in _rows(">ii", data)]
    faults.is_old = faults.is_old or (bool(log) and log[0].magic < 2)
    if not faults.is_old:
        if not rows:
            show(f"{path} is empty.")
            return
        if only_checks_sanity:
            show(f"{path} passed sanity check.")
            return
    positions = {entry.position: entry for entry in log}
    for offset, position in _until_zeros(rows, base, lambda row: row[0]):
        entry = positions.get(position)
        there = _NONE if entry is None else _indexed_offset(entry)
        if there != offset:
            faults.mismatches.setdefault(str(path.absolute()), []).append((offset, there))
        if not only_verifies:
            show(f"offset: {offset} position: {position}")


def dump_time_index(
    path: Path, data: bytes, faults: IndexFaults, *, only_verifies: bool, only_checks_sanity: bool
) -> None:
    """Print times and offsets."""
    base, log = int(path.stem), _log_of(path)
    rows = [(timestamp, base + relative) for timestamp, relative in _rows(">qi", data)]
    if only_checks_sanity:
        _check_time_index(path, base, rows)
        show(f"{path} passed sanity check.")
        return
    name = str(path.absolute())
    last_offsets = [entry.last_offset for entry in log]
    before = _NONE
    for timestamp, offset in _until_zeros(rows, base, lambda row: row[1]):
        at = bisect.bisect_left(last_offsets, offset)
        if at == len(log) or last_offsets[at] != offset:
            there = _NONE if at == len(log) else last_offsets[at]
            faults.missing.setdefault(name, []).append((offset, there))
        else:
            newest = max((record.message.timestamp_ms for record in log[at].records()), default=_NONE)
            if newest != timestamp:
                faults.timestamps.setdefault(name, []).append((timestamp, newest))
            if before >= timestamp:
                faults.disorder.setdefault(name, []).append((timestamp, before))
        if not only_verifies:
            show(f"timestamp: {timestamp} offset: {offset}")
        before = timestamp


def _check_time_index(path: Path, base: int, rows: Sequence[Pair]) -> None:
    """Make the checks of a broker's start. A preallocated file, with zeros after its entries, fails them."""
    if not rows:
        return
    (first, _), (last, last_offset) = rows[0], rows[-1]
    head = (
        f"{_CORRUPT}Corrupt time index found, time index file ({path.absolute()}) has non-zero size but the "
    )
    if last < first:
        raise ToolRefused(f"{head}last timestamp is {last} which is less than the first timestamp {first}")
    if last_offset < base:
        raise ToolRefused(f"{head}last offset is {last_offset} which is less than the first offset {base}")


def _indexed_offset(entry: SegmentEntry) -> int:
    """The offset to compare: the last one of a batch, the first inner one of a message of an old format."""
    return entry.last_offset if entry.magic >= 2 else next(entry.inner()).offset


def _log_of(path: Path) -> list[SegmentEntry]:
    log = path.with_suffix(".log")
    try:
        return list(entries(log.read_bytes()))
    except OSError as error:
        raise ToolRefused(f"{log} cannot be read: {error.strerror or error}") from error


def _rows(form: str, data: bytes) -> Iterator[Pair]:
    size = struct.calcsize(form)
    return struct.iter_unpack(form, data[: len(data) // size * size])


def _until_zeros(rows: Sequence[Pair], base: int, offset_of: Callable[[Pair], int]) -> Iterator[Pair]:
    for index, row in enumerate(rows):
        if index and offset_of(row) == base:
            return
        yield row
