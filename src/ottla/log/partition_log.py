"""The log of one partition: ordered segments, of which the last is appended to.

    start_offset          high_watermark           next_offset
         │ [segment 0][segment 812][active 1377]│ staged │
         └── readable: on disk ─────────────────┘        └── offsets given out

A produce is staged: it gets its offsets at once and reaches the file with the others of the same turn of the
event loop, by one system call (`write_staged`). Nobody replicates, so what is written is readable. A failed
write undoes the whole turn: files and memory are as before it, and every staged append has failed.

One owner, no locks. Time is an argument. The buffers of a staged append must stay as they are until
`write_staged`. Errors: KafkaError for what a client did, StorageError for what the disk did.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from ottla.log import file_names
from ottla.log.batch_header import BatchHeader
from ottla.log.config import LogConfig, TimestampType
from ottla.log.file_system import REAL, FileSystem
from ottla.log.flush_ticket import FlushTicket
from ottla.log.leader_epochs import LeaderEpochs
from ottla.log.recovery import OnDamage, Opening, Report, load_segments
from ottla.log.segment import BatchPlace, Segment
from ottla.log.segment_swap import swap_in
from ottla.log.staging import Staged, fits_whole, index_nears_its_end
from ottla.log.stamping import stamp
from ottla.log.validation import CheckedSet
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, LogOffline, StorageError


class FirstBatch(Enum):
    """What a fetch gets when its first batch alone is larger than it asked for."""

    WHOLE = "whole"  # Fetch 3 and later
    CUT = "cut"  # Fetch 0 to 2: the reader sees a partial message and asks for more bytes


class Appended(NamedTuple):
    """What a produce response says. `append_time_ms` is -1 for topics with create time."""

    base_offset: int
    last_offset: int
    append_time_ms: int


class PartitionLog:
    """See the module. Made by `PartitionLog.open`."""

    def __init__(self, opening: Opening, segments: list[Segment], report: Report) -> None:
        self.path = opening.directory
        self.config = opening.config
        self.report = report
        self.file_system = opening.file_system
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.high_watermark = self.next_offset = segments[-1].next_offset
        self.start_offset = min(max(opening.start_offset, segments[0].base_offset), self.high_watermark)
        # Never above the log's end: what is flushed from there on is not flushed yet.
        self.recovery_point = min(opening.recovery_point, self.high_watermark)
        self.epochs = LeaderEpochs(self.path, self.file_system)
        self._staged: list[Staged] = []
        self._doomed: list[Segment] = []
        self._names_changed = True
        self._offline: BaseException | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        config: LogConfig,
        now_ms: int,
        *,
        recovery_point: int = 0,
        start_offset: int = 0,
        clean: bool = False,
        file_system: FileSystem = REAL,
        on_damage: OnDamage = OnDamage.REFUSE,
    ) -> PartitionLog:
        """Load the directory, which must exist, and repair it unless the last stop was clean.

        Raises DamagedLog, and changes nothing, if batches in the middle are broken.
        """
        opening = Opening(path, config, file_system, now_ms, start_offset, recovery_point, clean, on_damage)
        try:
            segments, report = load_segments(opening)
            log = cls(opening, segments, report)
            log.epochs.cut_end(log.high_watermark)
            return log
        except OSError as error:
            raise StorageError(f"{path}: cannot open the log: {error}") from error

    def configure(self, config: LogConfig) -> None:
        """Use another config from now on; index limits of existing segments stay."""
        self.config = config

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self.segments[-1]

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return sum(segment.size for segment in self.segments)

    @property
    def staged_bytes(self) -> int:
        """Bytes that wait for `write_staged`."""
        return sum(staged.size for staged, _, _ in self._staged)

    # ---- append

    def append(self, checked: CheckedSet, now_ms: int, leader_epoch: int = 0) -> Appended:
        """Give offsets to a checked record set and stage it. Raises KafkaError; nothing is staged then."""
        self._check_online()
        if checked.size > self.config.segment_bytes:
            what = f"{checked.size:,} bytes are above segment.bytes {self.config.segment_bytes:,}"
            raise KafkaError(Code.RECORD_LIST_TOO_LARGE, what)
        by_broker = self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        append_time = now_ms if by_broker else None
        base_offset = self.next_offset
        stamped = stamp(checked, base_offset, leader_epoch, append_time, self.config.max_message_bytes)
        if stamped.places:
            self._staged.append(Staged(stamped, now_ms, leader_epoch))
            self.next_offset = stamped.next_offset
        return Appended(base_offset, stamped.next_offset - 1, now_ms if by_broker else -1)

    def write_staged(self) -> int:
        """Write what is staged, rolling where it is due; the new high watermark. All or nothing."""
        if not self._staged:
            return self.high_watermark
        self._check_online()
        staged, self._staged = self._staged, []
        count = len(self.segments)
        try:
            self._write(staged)
        except (OSError, StorageError) as error:
            self._undo(count, error)
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"{self.path}: cannot append: {error}; nothing was kept of it") from error
        self.high_watermark = self.next_offset
        return self.high_watermark

    def _write(self, staged: list[Staged]) -> None:
        if fits_whole(self.active, staged, self.config, self.epochs.latest):
            places = [place for item, _, _ in staged for place in item.places]
            self.active.append([buffer for item, _, _ in staged for buffer in item.buffers], places)
        else:
            self._write_rolling(staged)

    def _write_rolling(self, staged: list[Staged]) -> None:
        buffers: list[memoryview] = []
        places: list[BatchPlace] = []
        size, offset = 0, self.high_watermark
        for item, now_ms, leader_epoch in staged:
            segment = self.active
            if leader_epoch > self.epochs.latest:
                self.epochs.assign(leader_epoch, offset)
            # Only what is in the segment tells its age and its index entries: let it have them before asking.
            if places and (not segment.size or index_nears_its_end(segment, len(places) + len(item.places))):
                segment.append(buffers, places)
                buffers, places, size = [], [], 0
            last_offset = item.places[-1].last_offset
            if segment.is_due(size + item.size, last_offset, item.max_timestamp, self.config, now_ms):
                if places:
                    segment.append(buffers, places)
                    buffers, places, size = [], [], 0
                self._roll(offset, now_ms)
            buffers += item.buffers
            places += item.places
            size += item.size
            offset = item.next_offset
        self.active.append(buffers, places)

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """Seal the active segment and begin another."""
        self.active.seal()
        self._add(Segment(self.path, base_offset, self.config, self.file_system, now_ms))

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self._names_changed = True

    def _undo(self, segment_count: int, cause: BaseException) -> None:
        """Back to what was written before this turn."""
        self.next_offset = self.high_watermark
        try:
            while len(self.segments) > segment_count:
                self._drop_last()
            self.active.truncate(self.high_watermark)
            # Also when memory says that nothing was written: cutting back may have failed before.
            self.active.file.truncate(self.active.size)
        except (OSError, StorageError) as second:
            self._offline = cause
            raise LogOffline(f"{self.path}: {cause}, and undoing it failed: {second}") from cause
        self.epochs.forget_end(self.high_watermark)

    def _drop_last(self) -> None:
        segment = self.segments.pop()
        self._bases.pop()
        segment.close()
        for suffix in file_names.SUFFIXES:
            self.file_system.remove(segment.path_of(suffix))
        self._names_changed = True

    def _check_online(self) -> None:
        if self._offline is not None:
            raise LogOffline(f"{self.path} is offline since: {self._offline}; open it again")

    # ---- flush

    def begin_flush(self) -> FlushTicket:
        """Descriptors of everything that was written since the recovery point; see `FlushTicket`."""
        ticket = FlushTicket(self.high_watermark, self.path, self.file_system)
        first = max(bisect_right(self._bases, self.recovery_point) - 1, 0)
        with self._as_storage_error("flush"):
            for segment in self.segments[first:]:
                ticket.descriptors.append(os.dup(segment.file.fd))
                if segment is not self.active:
                    # The index of the active segment is rebuilt after a crash in any case.
                    for path in (segment.offset_index.path, segment.time_index.path):
                        ticket.descriptors.append(self.file_system.open(path))
        ticket.names_changed, self._names_changed = self._names_changed, False
        return ticket

    def finish_flush(self, ticket: FlushTicket) -> None:
        """Note what became of a ticket. A failed one takes the log offline: the system may have dropped the
        bytes, and would say of a second attempt that all is well.
        """
        if ticket.done:
            self.recovery_point = max(self.recovery_point, min(ticket.offset, self.high_watermark))
        else:
            self._names_changed = self._names_changed or ticket.names_changed
            self._offline = self._offline or ticket.failure

    def flush(self) -> None:
        """Everything written so far survives a power cut when this returns."""
        if self.recovery_point == self.high_watermark and not self._names_changed:
            return
        ticket = self.begin_flush()
        try:
            ticket.sync()
        finally:
            self.finish_flush(ticket)

    # ---- read

    def read(self, offset: int, max_bytes: int, first_batch: FirstBatch = FirstBatch.WHOLE) -> bytes:
        """Stored bytes from the batch that holds `offset`, at most `max_bytes`, from one segment.

        The last batch may be cut, which every consumer knows to ignore; for the first, see `FirstBatch`.
        Empty at the high watermark. Raises KafkaError 1 outside of the log.
        """
        if not self.start_offset <= offset <= self.high_watermark:
            limits = f"{self.start_offset} to {self.high_watermark}"
            what = f"{self.path.name}: offset {offset} is not within {limits}"
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE, what)
        if offset == self.high_watermark:
            return b""
        with self._as_storage_error("read"):
            for segment in self.segments[self._place(offset) :]:
                header = segment.locate(offset)
                if header is not None:
                    least = header.size if first_batch is FirstBatch.WHOLE else 0
                    return segment.file.read(header.position, max(max_bytes, least, 0))
        return b""

    def headers(self, offset: int = 0) -> Iterator[BatchHeader]:
        """Every stored batch that ends at or behind `offset`: what producer state is rebuilt from."""
        for segment in self.segments[self._place(max(offset, self.start_offset)) :]:
            first = segment.locate(max(offset, self.start_offset))
            if first is not None:
                yield from segment.file.headers(first.position)

    def _place(self, offset: int) -> int:
        """Which segment an offset belongs to."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    # ---- remove

    def delete_records(self, before: int) -> int:
        """Kafka's DeleteRecords: move the start of the log to `before`, or for -1 to its end; the start."""
        target = self.high_watermark if before == -1 else before
        if not 0 <= target <= self.high_watermark:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"{self.path.name}: cannot delete before {before}")
        self.start_offset = max(self.start_offset, target)
        self.delete_oldest(bisect_right(self._bases[1:], self.start_offset))
        return self.start_offset

    def delete_oldest(self, count: int, now_ms: int | None = None) -> int:
        """Drop the `count` oldest segments: the files get the suffix `.deleted`, to go with `purge`.

        Dropping all of them begins an empty one first, which needs `now_ms`. The number of bytes dropped.
        """
        with self._as_storage_error("delete segments"):
            if count >= len(self.segments):
                count = len(self.segments)
                self._roll(self.high_watermark, self.active.created_ms if now_ms is None else now_ms)
            dropped = self.segments[:count]
            for segment in dropped:
                # One by one from the oldest, so that no crash leaves a hole.
                segment.rename("", file_names.DELETED)
                del self.segments[0], self._bases[0]
                self._doomed.append(segment)
                self.start_offset = max(self.start_offset, self._bases[0])
            if dropped:
                self._names_changed = True
                self.epochs.cut_start(self.start_offset)
        return sum(segment.size for segment in dropped)

    def purge(self) -> int:
        """Remove the files that are `.deleted`, `file.delete.delay.ms` later; how many segments."""
        count = len(self._doomed)
        with self._as_storage_error("remove deleted segments"):
            while self._doomed:
                segment = self._doomed[-1]
                segment.close()
                for suffix in file_names.SUFFIXES:
                    self.file_system.remove(segment.path_of(suffix + file_names.DELETED))
                self._doomed.pop()
        return count

    def replace_segments(self, old: list[Segment], cleaned: Path) -> None:
        """Put a compacted file, written and flushed as `.log.cleaned`, in the place of neighbouring segments.

        The rename to `.swap` decides: a crash before it leaves the old ones, after it recovery finishes this.
        """
        base, place = old[0].base_offset, self.segments.index(old[0])
        swap = file_names.segment_file(self.path, base, file_names.LOG + file_names.SWAP)
        with self._as_storage_error("decide a compaction"):
            self.file_system.rename(cleaned, swap)
        try:
            segment = swap_in(old, swap, self.config, self.file_system)
        except OSError as error:
            self._offline = error
            raise LogOffline(
                f"{self.path}: cannot finish a compaction: {error}; opening it again will"
            ) from error
        self._doomed += old
        self.segments[place : place + len(old)] = [segment]
        self._bases[place : place + len(old)] = [base]

    def truncate(self, offset: int) -> None:
        """Cut the batch that holds `offset` and everything behind it; staged appends are forgotten."""
        self._staged.clear()
        offset = max(offset, self.start_offset)
        with self._as_storage_error("truncate"):
            while len(self.segments) > 1 and self._bases[-1] >= offset:
                self._drop_last()
            self.active.truncate(offset)
            if self.active.next_offset < self.start_offset:
                # The batch around the start is gone: nothing visible is left, and no offset is given twice.
                self._roll(self.start_offset, self.active.created_ms)
                self.delete_oldest(len(self.segments) - 1)
            self.high_watermark = self.next_offset = self.active.next_offset
            self.recovery_point = min(self.recovery_point, self.high_watermark)
            self.epochs.cut_end(self.high_watermark)

    # ---- end

    def close(self) -> None:
        """Write, flush and store everything: after this, and only then, the next `open` may be `clean`."""
        self._check_online()
        self.write_staged()
        with self._as_storage_error("close"):
            self.active.seal()
        self.flush()
        self.purge()
        self.abandon()

    def abandon(self) -> None:
        """Give descriptors back and touch nothing: as a killed process would, or for an offline log."""
        for segment in (*self.segments, *self._doomed):
            segment.close()
        self._doomed.clear()

    @contextlib.contextmanager
    def _as_storage_error(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self.path}: cannot {doing}: {error}") from error
