"""The segments of one log in order. The last one is active: it is appended to, the others are sealed.

Keeps what must be cheap to ask: where an offset belongs, and how many bytes there are. Files of dropped
segments get the suffix `.deleted` and stay, open, in `doomed` until `purge`.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from ottla.log import file_names
from ottla.log.config import LogConfig
from ottla.log.file_system import FileSystem
from ottla.log.segment import Segment


class SegmentList:
    """Owned by one PartitionLog, and never empty. Every method raises OSError.

    `names_changed`: a name in the directory is not flushed yet.
    """

    def __init__(self, directory: Path, file_system: FileSystem, segments: list[Segment]) -> None:
        self._directory = directory
        self._file_system = file_system
        self.items = segments
        self.active = segments[-1]
        self.doomed: list[Segment] = []
        self.names_changed = True
        self._replacements: list[Segment] = []
        self._bases = [segment.base_offset for segment in segments]
        self._sealed_bytes = sum(segment.size for segment in segments[:-1])

    def __len__(self) -> int:
        return len(self.items)

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return self._sealed_bytes + self.active.file.size

    def place(self, offset: int) -> int:
        """Which segment an offset belongs to; the first for whatever is below it."""
        if offset >= self._bases[-1]:
            return len(self._bases) - 1
        return max(bisect_right(self._bases, offset) - 1, 0)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that an offset belongs to, and all behind it."""
        return self.items[self.place(offset) :]

    # ---- at the end

    def roll(self, base_offset: int, config: LogConfig, now_ms: int) -> None:
        """Seal the active segment and begin another."""
        self.active.seal()
        segment = Segment(self._directory, base_offset, config, self._file_system, now_ms)
        self._sealed_bytes += self.active.size
        self.items.append(segment)
        self._bases.append(base_offset)
        self.active = segment
        self.names_changed = True

    def drop_last(self) -> None:
        """Remove the active segment with its files: the one before it is active again."""
        segment = self.items.pop()
        self._bases.pop()
        self.active = self.items[-1]
        self._sealed_bytes -= self.active.size
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
        self._sealed_bytes -= segment.size
        self.doomed.append(segment)
        self.names_changed = True
        return segment

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Have `new`, whose files are in place, instead of neighbouring sealed segments."""
        place = self.items.index(old[0])
        self.items[place : place + len(old)] = [new]
        self._bases[place : place + len(old)] = [new.base_offset]
        self._sealed_bytes += new.size - sum(segment.size for segment in old)
        self.doomed += old
        self._replacements.append(new)
        self.names_changed = True

    def unflushed(self, recovery_point: int) -> list[Segment]:
        """Segments to be flushed: from the recovery point on, and those that replaced others since."""
        replacements, self._replacements = self._replacements, []
        behind = self.from_offset(recovery_point)
        return [item for item in replacements if item in self.items and item not in behind] + behind

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
