"""The segments of one log in order. The last one is active: it is appended to, the others are sealed.

Keeps what must be cheap to ask: where an offset belongs, and how many bytes there are. Files of dropped
segments get the suffix `.deleted` and stay readable, in `doomed`, until `purge`.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

from ottla.log import file_names
from ottla.log.file_system import FileSystem
from ottla.log.flush_ticket import FlushTicket
from ottla.log.log_config import LogConfig
from ottla.log.recovery import LogOpening
from ottla.log.segment import Segment
from ottla.log.undecided import StoredAbort

FLUSHED_SEGMENTS_MAX = 16  # with one ticket, which takes up to four descriptors a segment


class SegmentList:
    """Owned by one PartitionLog, and never empty. Every method raises OSError.

    `names_changed`: a name in the directory is not flushed yet.
    """

    def __init__(self, opening: LogOpening, segments: list[Segment], *, is_flushed: bool) -> None:
        """`is_flushed`: the opening has changed no names, so after a clean stop all are flushed."""
        self._directory = opening.directory
        self._file_system = opening.file_system
        self.items = segments
        self.active = segments[-1]
        self.active.file.keep()
        self.doomed: list[Segment] = []
        self.names_changed = self.active.file.is_made and not (opening.clean and is_flushed)
        self._replacements: list[Segment] = []
        self._bases = [segment.base_offset for segment in segments]
        self._sealed_bytes: int | None = None  # not known before it is asked for

    def __len__(self) -> int:
        return len(self.items)

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        if self._sealed_bytes is None:
            self._sealed_bytes = sum(segment.size for segment in self.items[:-1])
        return self._sealed_bytes + self.active.file.size

    def _note_sealed(self, *, added: int = 0, removed: int = 0) -> None:
        if self._sealed_bytes is not None:
            self._sealed_bytes += added - removed

    def index_of(self, offset: int) -> int:
        """Which segment an offset belongs to; the first for whatever is below it."""
        if offset >= self._bases[-1]:
            return len(self._bases) - 1
        return max(bisect_right(self._bases, offset) - 1, 0)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that an offset belongs to, and all after it."""
        return self.items[self.index_of(offset) :]

    def aborted(self, offset: int, size: int, end_offset: int) -> list[StoredAbort]:
        """See `PartitionLog.aborted`. A few more are no harm: readers look at producers and offsets."""
        segments = self.from_offset(offset)
        end = segments[0].offset_after(offset, size)
        if end >= segments[0].next_offset:  # the read may be of the next segment that has any bytes
            later = next((item for item in segments[1:] if item.size), None)
            end = later.offset_after(later.base_offset, size) if later is not None else end
        end = min(end, end_offset)
        found = []
        for segment in (item for item in segments if item.has_aborts):
            for item in segment.aborted.from_offset(offset):
                if item.first_offset < end:
                    found.append(item)
                if item.last_stable_offset >= end:
                    return found
        return found

    # ---- at the end

    def roll(self, base_offset: int, config: LogConfig, now_ms: int) -> None:
        """Seal the active segment and begin another.

        An error may come after the new one has a file; then it is the active one, for `drop_last`. A file
        that nobody knows of would end the log before it at the next start.
        """
        sealed = self.active
        sealed.seal()
        segment = Segment(self._directory, base_offset, config, self._file_system, now_ms)
        segment.file.keep()
        self._note_sealed(added=sealed.size)
        self.items.append(segment)
        self._bases.append(base_offset)
        self.active = segment
        self.names_changed = True
        segment.store_indexes()
        sealed.file.release()

    def drop_last(self) -> None:
        """Remove the active segment with its files: the one before it is active again."""
        self.items[-2].file.keep()
        segment = self.items.pop()
        self._bases.pop()
        self.active = self.items[-1]
        self._note_sealed(removed=self.active.size)
        self.names_changed = True
        segment.close()
        for suffix in file_names.SUFFIXES:
            self._file_system.remove(segment.path_of(suffix))

    # ---- at the start and in the middle

    def drop_first(self) -> Segment:
        """Doom the oldest segment, which is not the only one."""
        segment = self.items[0]
        segment.rename("", file_names.DELETED)
        del self.items[0], self._bases[0]
        self._note_sealed(removed=segment.size)
        self.doomed.append(segment)
        self.names_changed = True
        return segment

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Have `new`, whose files are in place, instead of neighbouring sealed segments."""
        first = self.items.index(old[0])
        self.items[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]
        self._note_sealed(added=new.size, removed=sum(segment.size for segment in old))
        self.doomed += old
        self._replacements.append(new)
        self.names_changed = True

    def add_unflushed(self, ticket: FlushTicket, recovery_point: int) -> None:
        """Add descriptors of all files to be flushed: of segments that replaced others, and of all from that
        of the last flushed record on, which may have been sealed since. At most FLUSHED_SEGMENTS_MAX of them.
        """
        behind = self.from_offset(recovery_point - 1)
        segments = [item for item in self._replacements if item in self.items and item not in behind] + behind
        if len(segments) > FLUSHED_SEGMENTS_MAX:
            ticket.offset = segments[FLUSHED_SEGMENTS_MAX].base_offset
            del segments[FLUSHED_SEGMENTS_MAX:]
        for segment in segments:
            self._add_descriptors(segment, ticket.descriptors)
        self._replacements = [
            item for item in self._replacements if item in self.items and item not in segments
        ]

    def _add_descriptors(self, segment: Segment, descriptors: list[int]) -> None:
        if not segment.file.is_made:
            return
        opened = segment.file.opened()
        descriptors.append(os.dup(opened.fd))
        if segment.has_aborts:
            descriptors.append(self._file_system.open(segment.aborted.path))
        if segment is self.active:
            segment.store_indexes()  # flushed by `close` only: after a crash they are rebuilt
        else:
            descriptors.append(self._file_system.open(segment.offset_index.path))
            descriptors.append(self._file_system.open(segment.time_index.path))

    def purge(self) -> int:
        """Remove the files that are `.deleted`; how many segments."""
        count = len(self.doomed)
        while self.doomed:
            segment = self.doomed[-1]
            segment.close()
            for suffix in file_names.SUFFIXES:
                self._file_system.remove(segment.path_of(suffix + file_names.DELETED))
            self.doomed.pop()
        return count

    def close(self) -> None:
        """Give all descriptors back and touch nothing."""
        for segment in (*self.items, *self.doomed):
            segment.close()
        self.doomed.clear()


def damage_in(segments: Iterable[Segment]) -> list[str]:
    """What readers have found damaged, for each segment."""
    return [damage for segment in segments if (damage := segment.damage) is not None]


def swap_in(
    swaps: Sequence[tuple[list[Segment], Segment]],
    segments: SegmentList,
    directory: Path,
    file_system: FileSystem,
) -> None:
    """The end of a compaction: replace neighbouring segments by one each, in the order of offsets.

    1. All `.log.cleaned` files get the suffix `.swap`, and the directory is flushed. That decides: a crash
       before it leaves the old segments; after it, recovery finishes the job from the names of the files.
    2. Oldest first, the old files become `.deleted` and the new one gets its name, so that a tombstone never
       goes before the values that it hides. The directory is flushed with the log's next flush.

    Raises OSError at any step.
    """
    if not swaps:
        return
    for old, new in swaps:
        # The age of records without a time is that of their file.
        file_system.set_modified(new.file.path, old[-1].modified_ms)
        new.rename(file_names.CLEANED, file_names.SWAP)
    file_system.sync_directory(directory)
    for old, new in swaps:
        for segment in old:
            segment.rename("", file_names.DELETED)
        new.rename(file_names.SWAP, "")
        new.next_offset = old[-1].next_offset
        new.seal()
        segments.replace(old, new)
