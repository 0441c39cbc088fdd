"""A segment: one log file with its indexes, and what must be known of it without reading it.

    00000000000000000100.log   [batch 100-103][batch 104-104][batch 105-160]…        next_offset 161
                      .index        entries every index.interval.bytes of log
                      .timeindex    an entry beside each of those, and the largest timestamp when sealed
                      .txnindex     the aborted transactions that end here, if there are any

Only the last segment of a log is appended to. Its index files exist too, as Kafka's do, so that Kafka's tools
can read them; they are up to INDEX_ENTRIES_UNSTORED_MAX entries behind. Sealing stores the rest. The files of
an empty log's only segment, at offset 0, are made with its first record: until then a partition is only a
directory.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from ottla.log import file_names
from ottla.log.file_system import Buffer, FileSystem
from ottla.log.log_config import LogConfig
from ottla.log.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from ottla.log.recent_batches import BatchSummary, Span
from ottla.log.segment_file import Read, SegmentFile, search
from ottla.log.segment_parts import IN_FILES, Listing, SegmentParts
from ottla.log.undecided import StoredAbort
from ottla.model.errors import KafkaError
from ottla.model.record_layout import NO_TIMESTAMP

# Writing the index files takes about as long as appending a batch, so it is done once for many entries.
INDEX_ENTRIES_UNSTORED_MAX = 64


class Segment(SegmentParts):
    """Owned by one PartitionLog. `next_offset` is one past the last batch, or the base if it is empty."""

    __slots__ = ()

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        file_system: FileSystem,
        created_ms: int,
        state: str = "",
        *,
        is_new: bool = False,
    ) -> None:
        """Opens the log file, with a state suffix while it is not yet a segment of its log.

        `is_new`: it is known that there are no files.
        """
        path = file_names.segment_path(directory, base_offset, file_names.LOG + state)
        is_later = base_offset == 0 and not state and (is_new or not os.path.exists(path))
        file = SegmentFile(path, file_system, later=is_later)
        self.base_offset = self.next_offset = base_offset
        self._begin(directory, file, config, file_system, created_ms)
        self._begin_reading()

    @classmethod
    def listed(cls, listing: Listing, base_offset: int, next_offset: int) -> Segment:
        """A sealed segment with all files but that of aborts, to be trusted; none of them is opened yet.

        `next_offset` is the base of the next one. If it is not known why offsets before that one should be
        missing, this is noted as damage when the files are read.
        """
        segment = cls.__new__(cls)
        segment._listing = listing
        segment.base_offset = base_offset
        segment.next_offset = next_offset
        segment.is_read = False
        return segment

    def _read_files(self) -> None:
        """Take in what the files say. A twin of this segment reads them: another thread may do the same."""
        twin = Segment.__new__(Segment)
        twin.base_offset, twin.next_offset = self.base_offset, self.next_offset
        twin._begin(self.directory, self.file, self._config, self._file_system, self.created_ms)
        twin._begin_reading()
        end = twin.load(next_offset=self.next_offset)
        if end is None:
            end = twin._take_in_batches(self.next_offset)
        if end < self.next_offset and not self._may_have_gap and not self.file.damage:
            lost = f"offsets {end} to {self.next_offset - 1} are missing"
            self.file.damage = f"{self.file.path}: {lost} between it and the next segment"
        if not self.is_read:  # by another thread, whose index may be a better one by now
            for name in IN_FILES:
                setattr(self, name, getattr(twin, name))
            self.is_read = True

    def _take_in_batches(self, end_offset: int) -> int:
        """Make the indexes anew in memory, from all batches; returns one past the last offset.

        What is behind damage may be as young as the file.
        """
        self.forget()
        end_offset = min(end_offset, self.base_offset + RELATIVE_OFFSET_MAX + 1)
        for header in self.file.headers(0):
            if not self.next_offset <= header.last_offset < end_offset:
                break  # no checksum covers offsets
            self.note(header.position, [(header.size, header.last_offset, header.max_timestamp)])
        if self.noted_bytes < self.size:
            self.file.damaged(self.noted_bytes, self.next_offset)
            self.max_timestamp = max(self.max_timestamp, self.modified_ms)
        self.forget_recent()
        return self.next_offset

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of its records; if they have none, the time of the last write."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    @property
    def first_timestamp(self) -> int:
        """The timestamp of its first batch, from which its age is counted; -1 if there is none."""
        if self._first_timestamp is None:
            first = next(self.file.headers(0), None)
            if first is None:
                return NO_TIMESTAMP
            self._first_timestamp = first.max_timestamp
        return self._first_timestamp

    # ---- append

    def append(self, buffers: Sequence[Buffer], batches: Sequence[BatchSummary]) -> None:
        """Write the buffers, which hold the batches one after the other. All or nothing."""
        self.note(self.file.append(buffers), batches)

    def note(self, position: int, batches: Sequence[BatchSummary]) -> None:
        """Add the batches from `position` on to the indexes, the offsets and the timestamps."""
        self.recent.extend(position, batches)
        newest, last_offset = self.max_timestamp, self.next_offset - 1
        since, interval = self._bytes_since_index, self._config.index_interval_bytes
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
        """The last batches were noted coarsely: a look-up among them must walk the file."""
        self.recent.clear(self.next_offset)

    def is_due(
        self, size_added: int, last_offset: int, timestamp: int, config: LogConfig, now_ms: int
    ) -> bool:
        """Whether `size_added` more bytes belong into a new segment. Called on append only.

        The age is the difference of timestamps, unless the first batch has none: then it is the time since it
        was created.
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
        if not jitter_ms:
            return 0
        # Differs from segment to segment, so that partitions that began together do not roll together.
        return zlib.crc32(f"{self.directory.name} {self.base_offset}".encode()) % jitter_ms

    @property
    def index_room(self) -> int:
        """How many batches may come before an index may be full, which rolls the segment."""
        return min(self.offset_index.room, self.time_index.room)

    def seal(self) -> None:
        """Store both indexes, the time index with the largest timestamp as its last entry."""
        self.recent.clear(self.next_offset)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.store_indexes()

    def make_files(self) -> None:
        """Make the files of a segment that has none yet."""
        self.file.make()
        self.store_indexes()

    def store_indexes(self) -> None:
        """Bring both index files up to date; they are created if they are missing."""
        if not self.file.is_made:
            return
        self.offset_index.store()
        self.time_index.store()
        self.aborted.store()

    def flush_indexes(self) -> None:
        """Let both index files survive a power cut. Raises OSError."""
        self.offset_index.flush()
        self.time_index.flush()

    def note_aborted(self, aborted: Sequence[StoredAbort]) -> None:
        """Add what markers of the last append have aborted, in the file too."""
        self.aborted.extend(aborted)
        self.aborted.store()

    def store_indexes_if_due(self) -> None:
        """Store the indexes once enough entries have come together; called after every append."""
        if self.offset_index.unstored >= INDEX_ENTRIES_UNSTORED_MAX:
            self.store_indexes()

    # ---- read

    def locate(self, offset: int, read: Read | None = None) -> Span | None:
        """The first batch that ends at or after `offset`; None if all end before it.

        `read` reads the file where that is needed, `self.file.read` by default.
        """
        file = self.file
        end = file.size  # once: in another thread than the owner's it may grow meanwhile
        start = 0
        if self.is_read or offset > self.base_offset:
            span = self.recent.find(offset, end)
            if span is not None:
                return span
            start = self.offset_index.lookup(offset)
        found = search(read or file.read, start, end, offset)
        if isinstance(found, Span):
            return found
        if found != end:
            return self._look_again(offset, found)
        return None

    def position_from(self, offset: int) -> int | None:
        """Where the batches begin that end at or after `offset`; None without one, or if damage hides it."""
        if offset <= self.base_offset:
            return 0
        with contextlib.suppress(KafkaError):
            first = self.locate(offset) if offset < self.next_offset else None
            return None if first is None else first.position
        return None

    def offset_after(self, offset: int, size: int) -> int:
        """An offset at or after the end of a read of `size` bytes from `offset` on. Reads no files."""
        end = self.offset_index.offset_after(offset, size) if self.is_read else None
        return self.next_offset if end is None else end

    def _look_again(self, offset: int, position: int) -> Span | None:
        """Batches ended at a position before the end of the file: either the index is wrong, or the file.

        The index is rebuilt if that helps. Raises KafkaError 2 if the file is damaged: what comes after the
        damage must not be taken for what comes next.
        """
        if not self.is_index_doubtful:
            self.is_index_doubtful = True
            self._rebuild_indexes()
            return self.locate(offset)
        raise self.file.damaged(position, offset)

    def _rebuild_indexes(self) -> None:
        """Replace the offset index by one from all batches, unless these do not reach to the file's end."""
        index = OffsetIndex(
            self.offset_index.path, self.base_offset, self.offset_index.entries_max, self._file_system
        )
        since = position = 0
        for header in self.file.headers(0):
            if not 0 <= header.last_offset - self.base_offset <= RELATIVE_OFFSET_MAX:
                return
            if since > self._config.index_interval_bytes:
                index.append(header.last_offset, header.position)
                since = 0
            since += header.size
            position = header.position + header.size
        if position == self.size:
            self.offset_index = index

    # ---- load and cut

    def load(self, *, next_offset: int | None, has_aborts: bool = True) -> int | None:
        """Trust the files: read the indexes, and walk from the last index entry to the end.

        `next_offset` is the base of the segment after this one. Without `has_aborts` it is known that there
        is no file of aborted transactions. Returns one past the last offset, or None if the files contradict
        each other: then the segment must be verified and its indexes rebuilt.
        """
        if not self.offset_index.load(self.size) or not self.time_index.load():
            return None
        if has_aborts and not self.aborted.load(self.base_offset):
            return None
        indexed_time, time_offset = self.max_timestamp, _ = self.time_index.last
        self.max_timestamp_offset = time_offset
        end_position = self._walk_to_end()
        end = self.next_offset
        if end_position != self.size or time_offset > max(end - 1, self.base_offset):
            return None
        if end - self.base_offset > RELATIVE_OFFSET_MAX + 1:
            return None  # no checksum covers offsets
        if next_offset is not None:
            # The time index of a sealed segment has its largest time: retention is decided by it.
            if end > next_offset or self.max_timestamp > indexed_time:
                return None
            self.next_offset = next_offset
        return end

    def _walk_to_end(self) -> int:
        """Find `next_offset` and the largest timestamp after the last index entry; adds no entries.

        Returns the position where batches end.
        """
        self.next_offset = self.base_offset
        self._bytes_since_index = 0
        at = self.offset_index.last_position
        for header in self.file.headers(at):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            self.next_offset = header.last_offset + 1
            self.last_epoch = header.leader_epoch
            self._bytes_since_index += header.size
            at = header.position + header.size
        self.recent.clear(self.next_offset)
        return at

    def forget(self) -> None:
        """Start over with empty indexes, before a rebuild."""
        self._new_indexes()
        self.aborted.forget()
        self.next_offset = self.base_offset
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._bytes_since_index = self.noted_bytes = 0
        self._first_timestamp = None
        self.recent.clear(self.base_offset)

    def truncate(self, offset: int) -> None:
        """Cut the batch that holds `offset` and everything after it."""
        if not self.is_read:
            self._read_files()  # while index and log agree
        first = self.locate(offset)
        if first is not None:
            self.file.truncate(first.position)
            self.offset_index.truncate(offset)
            self.time_index.truncate(offset)
            self.aborted.truncate(offset)
            # An index entry may point at a batch that began before `offset` and was cut whole.
            while self.offset_index.count and self.offset_index.entries()[-1][1] >= first.position:
                self.offset_index.truncate(self.offset_index.entries()[-1][0])
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last
        if not self.size:
            self._first_timestamp = None
        self._walk_to_end()

    def rename(self, state: str, new_state: str) -> None:
        """Change the state suffix of all files that exist; the log file first, since recovery goes by it."""
        if self.file.path.exists():
            self.file.rename(self.path_of(file_names.LOG + new_state))
        for suffix in file_names.INDEX_SUFFIXES:
            old = self.path_of(suffix + state)
            if old.exists():
                self._file_system.rename(old, self.path_of(suffix + new_state))

    def close(self) -> None:
        """Give the descriptor back. Indexes are not stored: that is `seal`."""
        self.file.close()
