"""A segment: one log file with its two indexes, and what must be known of it without reading it.

    00000000000000000100.log   [batch 100-103][batch 104-104][batch 105-160]…        next_offset 161
                      .index        entries every index.interval.bytes of log
                      .timeindex    an entry beside each of those, and the largest timestamp when sealed

Only the last segment of a log is appended to. Sealing stores the indexes; nothing else tells an active
segment from a sealed one.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from ottla.log import file_names
from ottla.log.batch_header import NO_TIMESTAMP
from ottla.log.config import LogConfig
from ottla.log.file_system import Buffer, FileSystem
from ottla.log.offset_index import ENTRY_BYTES, RELATIVE_OFFSET_MAX, OffsetIndex
from ottla.log.recent_batches import BatchPlace, RecentBatches, Span
from ottla.log.segment_file import Read, SegmentFile, find_batch
from ottla.log.time_index import ENTRY as TIME_ENTRY
from ottla.log.time_index import TimeIndex


class Segment:
    """Owned by one PartitionLog. `next_offset` is one past the last batch, or the base if it is empty."""

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        file_system: FileSystem,
        created_ms: int,
        state: str = "",
    ) -> None:
        """Opens the log file, with a state suffix while it is not yet a segment of its log."""
        self.directory = directory
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.created_ms = created_ms  # for rolling by time where records have no timestamps
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.noted_bytes = 0  # where the last batch ends that was taken into account
        self._file_system = file_system
        self._interval = config.index_interval_bytes
        self._bytes_since_index = 0
        self._first_timestamp: int | None = None
        # Differs from segment to segment, so that partitions that began together do not roll together.
        self._jitter = zlib.crc32(f"{directory.name} {base_offset}".encode())
        self.file = SegmentFile(self.path_of(file_names.LOG + state), file_system)
        self.recent = RecentBatches(base_offset)
        self._new_indexes(config)

    def _new_indexes(self, config: LogConfig) -> None:
        place = (self.base_offset, max(config.segment_index_bytes // ENTRY_BYTES, 1), self._file_system)
        self.offset_index = OffsetIndex(self.path_of(file_names.INDEX), *place)
        place = (self.base_offset, max(config.segment_index_bytes // TIME_ENTRY.size, 2), self._file_system)
        self.time_index = TimeIndex(self.path_of(file_names.TIME_INDEX), *place)

    def path_of(self, suffix: str) -> Path:
        """One of the segment's files."""
        return file_names.segment_file(self.directory, self.base_offset, suffix)

    @property
    def size(self) -> int:
        """Bytes of the log file."""
        return self.file.size

    @property
    def modified_ms(self) -> int:
        """When the log file was last written."""
        return os.fstat(self.file.fd).st_mtime_ns // 1_000_000

    @property
    def largest_timestamp(self) -> int:
        """Of its records; without one, the time of the last write."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    @property
    def first_timestamp(self) -> int:
        """Of its first batch, from which its age is counted; -1 if it has none."""
        if self._first_timestamp is None:
            first = next(self.file.headers(0), None)
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp = first.max_timestamp
        return self._first_timestamp

    # ---- append

    def append(self, buffers: Sequence[Buffer], batches: Sequence[BatchPlace]) -> None:
        """Write the buffers, which hold the batches one behind the other. All or nothing."""
        self.note(self.file.append(buffers), batches)

    def note(self, position: int, batches: Sequence[BatchPlace]) -> None:
        """Take batches that stand at `position` and behind it into account: indexes, offsets, timestamps."""
        self.recent.extend(position, batches)
        newest, last_offset = self.max_timestamp, self.next_offset - 1
        since, interval = self._bytes_since_index, self._interval
        for size, last_offset, timestamp in batches:
            if timestamp > newest:
                newest = self.max_timestamp = timestamp
                self.max_timestamp_offset = last_offset
            if since > interval:
                self.offset_index.append(last_offset, position)
                self.time_index.append(newest, self.max_timestamp_offset)
                since = 0
            since += size
            position += size
        self._bytes_since_index = since
        self.noted_bytes = position
        self.next_offset = last_offset + 1

    def forget_recent(self) -> None:
        """Places of the last batches were coarse: what is looked for among them must be walked to."""
        self.recent.clear(self.next_offset)

    def is_due(
        self, size_added: int, last_offset: int, timestamp: int, config: LogConfig, now_ms: int
    ) -> bool:
        """Whether `size_added` more bytes belong into a new segment. Asked on append, and only then.

        The age is the difference of timestamps, unless the first batch has none: then the clock tells.
        """
        size = self.file.size
        if not size:
            return False
        first = self.first_timestamp
        age_ms = timestamp - first if first >= 0 else now_ms - self.created_ms
        return (
            size + size_added > config.segment_bytes
            or age_ms > config.roll_ms - self._jitter_ms(config)
            or self.index_room <= 0
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        )

    def _jitter_ms(self, config: LogConfig) -> int:
        jitter_ms = min(config.segment_jitter_ms, config.roll_ms)
        return self._jitter % jitter_ms if jitter_ms else 0

    @property
    def index_room(self) -> int:
        """How many batches may come before an index may be full, which rolls the segment."""
        return min(self.offset_index.room, self.time_index.room)

    def seal(self) -> None:
        """Store both indexes, the time index with the largest timestamp as its last entry."""
        self.recent.clear(self.next_offset)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.offset_index.store()
        self.time_index.store()

    # ---- read

    def locate(self, offset: int, read: Read | None = None) -> Span | None:
        """The first batch that ends at or behind `offset`; None if all end before it.

        `read` is how to look at the file where that is needed: `self.file.read` unless told.
        """
        file = self.file
        found = self.recent.find(offset, file.size)
        if found is not None:
            return found
        return find_batch(read or file.read, self.offset_index.lookup(offset), file.size, offset)

    # ---- load and cut

    def load(self, *, next_offset: int | None) -> bool:
        """Trust the files: read the indexes, and walk from the last index entry where the end is not known.

        `next_offset` is the base of the segment behind this one. False if an index must be rebuilt.
        """
        if not self.offset_index.load(self.size) or not self.time_index.load():
            return False
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last
        if next_offset is not None:
            self.next_offset = next_offset
            return True
        self._walk_to_end()
        return True

    def _walk_to_end(self) -> None:
        """Find `next_offset` and the largest timestamp behind the last index entry; adds no entries."""
        self.next_offset = self.base_offset
        self._bytes_since_index = 0
        at = self.offset_index.entries()[-1][1] if self.offset_index.count else 0
        for header in self.file.headers(at):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            self.next_offset = header.last_offset + 1
            self._bytes_since_index += header.size
        self.recent.clear(self.next_offset)

    def forget(self, config: LogConfig) -> None:
        """Start over with empty indexes, before a rebuild."""
        self._new_indexes(config)
        self.next_offset = self.base_offset
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._bytes_since_index = self.noted_bytes = 0
        self._first_timestamp = None
        self.recent.clear(self.base_offset)

    def truncate(self, offset: int) -> None:
        """Cut the batch that holds `offset` and everything behind it."""
        first = self.locate(offset)
        if first is not None:
            self.file.truncate(first.position)
            self.offset_index.truncate(offset)
            self.time_index.truncate(offset)
            # An index entry may point at a batch that began before `offset` and was cut whole.
            while self.offset_index.count and self.offset_index.entries()[-1][1] >= first.position:
                self.offset_index.truncate(self.offset_index.entries()[-1][0])
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last
        if not self.size:
            self._first_timestamp = None
        self._walk_to_end()

    def rename(self, state: str, new_state: str) -> None:
        """Change the state suffix of all files that exist; the log file first, since it is what counts."""
        for suffix in file_names.SUFFIXES:
            old = self.path_of(suffix + state)
            if old.exists():
                self._file_system.rename(old, self.path_of(suffix + new_state))
        self.file.path = self.path_of(file_names.LOG + new_state)

    def close(self) -> None:
        """Give the descriptor back. Indexes are not stored: that is `seal`."""
        self.file.close()
