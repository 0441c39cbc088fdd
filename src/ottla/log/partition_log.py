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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from ottla.log import file_names, partition_metadata
from ottla.log.batch_header import BatchHeader, named
from ottla.log.end_markers import EndMarker
from ottla.log.file_range import FileRange
from ottla.log.file_system import REAL, Buffer, FileSystem
from ottla.log.flush_ticket import FlushTicket, flush_up_to
from ottla.log.leader_epochs import LeaderEpochs
from ottla.log.log_config import LogConfig
from ottla.log.reading import ColdRead, FirstBatch, ReadLimits, cached_or_cold, read_from
from ottla.log.recovery import LogOpening, load_segments
from ottla.log.recovery_report import RecoveryReport
from ottla.log.segment import Segment
from ottla.log.segment_file import SegmentFile
from ottla.log.segment_list import SegmentList, swap_in
from ottla.log.segment_names import SegmentNames
from ottla.log.staging import write_sets
from ottla.log.stamping import Appended, StampedSet, stamp
from ottla.log.undecided import StoredAbort
from ottla.log.validation import CheckedSet
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, LogOffline, StorageError

WHOLE = FirstBatch.WHOLE


class PartitionLog:
    """One partition's log, made by `PartitionLog.open`: append, read, flush, truncate, delete."""

    def __init__(self, opening: LogOpening, segments: list[Segment], report: RecoveryReport) -> None:
        self.path, self.config = opening.directory, opening.config
        self.report = report
        self.file_system = opening.file_system
        self._segments = SegmentList(opening, segments, is_flushed=not report.has_changed_files)
        self.high_watermark = self.next_offset = segments[-1].next_offset
        self.start_offset = min(max(opening.start, segments[0].base_offset), self.high_watermark)
        # Never above the log's end: what is flushed from there on is not flushed yet.
        self.recovery_point = min(opening.recovery_point, self.high_watermark)
        last_epoch = segments[-1].last_epoch if opening.clean else -1
        self.epochs = LeaderEpochs(self.path, self.file_system, is_new=opening.is_new, last=last_epoch)
        self.was_new = opening.is_new  # its directory was empty
        self.cuts = 0  # how often it was truncated: work that began before is void
        self.is_closed = self.is_compacting = False
        self.has_aborts = any(segment.has_aborts for segment in segments)
        self.topic_id: bytes | None = None  # goes into the directory with the first record
        self._staged: list[StampedSet] = []
        self._offline: BaseException | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        config: LogConfig,
        now_ms: int,
        *,
        recovery_point: int = 0,
        start_offset: int | None = None,
        high_watermark: int | None = None,
        first_dirty: int = 0,
        clean: bool = False,
        file_system: FileSystem = REAL,
    ) -> PartitionLog:
        """Load the directory, which must exist, and repair it; what was lost or cut is in `report`.

        Raises DamagedLog, and changes nothing, if something is damaged or lost that was flushed before.
        """
        known = (start_offset, recovery_point, clean, high_watermark, first_dirty)
        try:
            names = SegmentNames(path)
            opening = LogOpening(path, config, file_system, now_ms, *known, is_new=not names.names)
            segments, report = load_segments(opening, names)
            log = cls(opening, segments, report)
            log.epochs.cut_end(log.high_watermark)
            log.check_epochs()
            return log
        except OSError as error:
            raise StorageError(f"{path}: cannot open the log: {error}") from error

    def check_epochs(self, epoch_max: int | None = None) -> None:
        """Write the leader epochs anew if they are damaged, or above the leader's. Raises StorageError."""
        with self._as_storage_error("write the leader epochs"):
            self.report.epochs_rebuilt |= self.epochs.check(self.headers, epoch_max)

    def configure(self, config: LogConfig) -> None:
        """Use another config from now on; index limits of existing segments stay."""
        self.config = config

    @property
    def segments(self) -> list[Segment]:
        """The segments in order, the active one last. Not to be changed by the caller."""
        return self._segments.items

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self._segments.active

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return self._segments.size

    @property
    def staged_bytes(self) -> int:
        """Bytes that wait for `write_staged`."""
        return sum(item.size for item in self._staged)

    # ---- append

    def append(
        self,
        checked: CheckedSet,
        now_ms: int,
        leader_epoch: int = 0,
        aborted: StoredAbort | None = None,
    ) -> Appended:
        """Give offsets to a checked record set and stage it. Raises KafkaError; nothing is staged then.

        `aborted` is what a marker, which is the only batch of its set, aborts.
        """
        if self._offline is not None:
            self._check_online()
        config, base_offset = self.config, self.next_offset
        if len(checked.data) > config.segment_bytes:
            what = f"{checked.size:,} bytes are above segment.bytes {config.segment_bytes:,}"
            raise KafkaError(Code.RECORD_LIST_TOO_LARGE, what)
        stamped = stamp(checked, base_offset, leader_epoch, config, now_ms)
        if aborted is not None:
            stamped = stamped._replace(aborted=aborted)
            self.has_aborts = True
        if stamped.summaries:
            self._staged.append(stamped)
            self.next_offset = stamped.next_offset
        return named(Appended, (base_offset, stamped.next_offset - 1, stamped.append_time_ms))

    def write_staged(self) -> int:
        """Write what is staged, rolling where it is due, all or nothing; returns the new high watermark."""
        if not self._staged:
            return self.high_watermark
        self._check_online()
        staged, self._staged = self._staged, []
        count = len(self._segments)
        try:
            if not self.has_files:
                self._make_files()
            write_sets(staged, self._segments, self.epochs, self.config)
        except (OSError, StorageError) as error:
            self._undo(count, error)
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"{self.path}: cannot append: {error}; nothing was kept of it") from error
        self.high_watermark = self.next_offset
        return self.high_watermark

    @property
    def has_files(self) -> bool:
        """Whether there are files: not before the first record."""
        return self.active.file.is_made

    def _make_files(self) -> None:
        if self.topic_id is not None:
            partition_metadata.write(self.path, self.topic_id, self.file_system)
        self.active.make_files()
        self._segments.names_changed = True

    def _undo(self, segment_count: int, cause: BaseException) -> None:
        """Remove what this turn has written."""
        self.next_offset = self.high_watermark
        try:
            while len(self._segments) > segment_count:
                self._segments.drop_last()
            self.active.truncate(self.high_watermark)
            # Also when memory says that nothing was written: cutting back may have failed before.
            self.active.file.truncate(self.active.size)
        except (OSError, StorageError) as second:
            self._offline = cause
            raise LogOffline(f"{self.path}: {cause}, and undoing it failed: {second}") from cause
        self.epochs.forget_end(self.high_watermark)

    @property
    def failure(self) -> BaseException | None:
        """Why the log is offline, None if it is not: a write that could not be undone, a failed flush."""
        return self._offline

    def _check_online(self) -> None:
        if self._offline is not None:
            raise LogOffline(f"{self.path} is offline since: {self._offline}; open it again")

    # ---- flush

    def begin_flush(self) -> FlushTicket:
        """A ticket for what was written since the recovery point, or for its FLUSHED_SEGMENTS_MAX oldest
        segments: then its offset is below the high watermark, and another one must follow."""
        ticket = FlushTicket(self.high_watermark, self.path, self.file_system)
        try:
            self._segments.names_changed |= self.epochs.add_descriptor(ticket.descriptors)
            self._segments.add_unflushed(ticket, self.recovery_point)
        except OSError as error:
            ticket.close()
            raise self._storage_error("flush", error) from error
        ticket.names_changed, self._segments.names_changed = self._segments.names_changed, False
        return ticket

    def finish_flush(self, ticket: FlushTicket) -> None:
        """Note the result of a ticket. A failed flush takes the log offline: the system may have dropped the
        bytes, and would report success for a second attempt."""
        if ticket.done:
            self.recovery_point = max(self.recovery_point, min(ticket.offset, self.high_watermark))
        else:
            self._segments.names_changed = self._segments.names_changed or ticket.names_changed
            if ticket.was_tried:
                self._offline = self._offline or ticket.failure

    @property
    def is_dirty(self) -> bool:
        """Whether there is something to flush."""
        return self.recovery_point != self.high_watermark or self._segments.names_changed

    def flush(self) -> None:
        """Everything written so far survives a power cut when this returns."""
        if self.is_dirty:
            flush_up_to(self.high_watermark, self.begin_flush, self.finish_flush)

    # ---- read

    def read(
        self, offset: int, max_bytes: int, first_batch: FirstBatch = WHOLE, end_offset: int | None = None
    ) -> bytes:
        """Stored bytes from the batch that holds `offset`, at most `max_bytes`, from one segment.

        The last batch may be cut: every consumer ignores a partial one. For the first batch see `FirstBatch`.
        Batches at and after `end_offset` are left out. Empty at the end. Raises KafkaError 1 outside of the
        log.
        """
        if self._is_at_end(offset) or (end_offset is not None and offset >= end_offset):
            return b""
        with self._as_storage_error("read"):
            limits = ReadLimits(offset, max_bytes, first_batch, end_offset)
            return read_from(self._segments.from_offset(offset), limits)

    def read_cached(
        self, offset: int, max_bytes: int, first_batch: FirstBatch = WHOLE, end_offset: int | None = None
    ) -> Buffer | ColdRead:
        """`read` of what is in memory, perhaps less than `max_bytes`, or a ticket for another thread."""
        return cast(Buffer | ColdRead, self.cached(ReadLimits(offset, max_bytes, first_batch, end_offset)))

    def cached(self, limits: ReadLimits, *, as_range: bool = False) -> Buffer | ColdRead | FileRange:
        """The same; with `as_range`, many bytes that are in memory stay in their file."""
        offset, _, _, end_offset = limits
        if self._is_at_end(offset) or (end_offset is not None and offset >= end_offset):
            return b""
        try:
            return cached_or_cold(self._segments.from_offset(offset), limits, as_range=as_range)
        except OSError as error:
            raise self._storage_error("read", error) from error

    def _is_at_end(self, offset: int) -> bool:
        if self.start_offset <= offset <= self.high_watermark:
            return offset == self.high_watermark
        what = f"{self.path.name}: offset {offset} is not within {self.start_offset} to {self.high_watermark}"
        raise KafkaError(Code.OFFSET_OUT_OF_RANGE, what)

    def aborted(self, offset: int, size: int, end_offset: int) -> list[StoredAbort]:
        """Aborted transactions with records in a read of `size` bytes, which ends before `end_offset`."""
        return self._segments.aborted(offset, size, end_offset) if self.has_aborts else []

    def headers(self, offset: int = 0) -> Iterator[BatchHeader]:
        """The headers of all batches that end at or after `offset`; those that damage hides are left out."""
        for file, position in self._files_from(offset):
            yield from file.headers(position)

    def history(self, offset: int = 0) -> Iterator[tuple[BatchHeader, EndMarker | None]]:
        """The same, each control batch with its marker."""
        for file, position in self._files_from(offset):
            yield from file.history(position)

    def _files_from(self, offset: int) -> Iterator[tuple[SegmentFile, int]]:
        offset = max(offset, self.start_offset)
        for segment in self._segments.from_offset(offset):
            position = segment.position_from(offset)
            if position is not None:
                yield segment.file, position

    # ---- remove

    def delete_records(self, before: int) -> int:
        """Kafka's DeleteRecords: move the start of the log to `before` (-1: the end); returns the start."""
        target = self.high_watermark if before == -1 else before
        if not 0 <= target <= self.high_watermark:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE, f"{self.path.name}: cannot delete before {before}")
        self.start_offset = max(self.start_offset, target)
        self.delete_oldest(self._segments.index_of(self.start_offset))
        return self.start_offset

    def delete_oldest(self, count: int, now_ms: int | None = None) -> int:
        """Drop the `count` oldest segments: the files get the suffix `.deleted`, to go with `purge`.

        Dropping all begins an empty segment first, which needs `now_ms`. Returns the number of bytes dropped.
        """
        segments, dropped = self._segments, 0
        with self._as_storage_error("delete segments"):
            if count >= len(segments):
                count = len(segments)
                created_ms = segments.active.created_ms if now_ms is None else now_ms
                segments.roll(self.high_watermark, self.config, created_ms)
            for _ in range(count):
                # One by one from the oldest, so that no crash leaves a hole.
                dropped += segments.drop_first().size
                self.start_offset = max(self.start_offset, segments.items[0].base_offset)
            if count:
                self.epochs.cut_start(self.start_offset)
        return dropped

    def purge(self) -> int:
        """Remove files that are `.deleted`, file.delete.delay.ms later; return how many segments."""
        with self._as_storage_error("remove deleted segments"):
            return self._segments.purge()

    def replace_segments(self, swaps: Sequence[tuple[list[Segment], Segment]]) -> None:
        """Put compacted segments, whose files are `.log.cleaned` and flushed, in the places of older ones."""
        try:
            swap_in(swaps, self._segments, self.path, self.file_system)
        except OSError as error:
            if swaps[0][1].file.path.suffix == file_names.CLEANED:
                raise self._storage_error("decide a compaction", error) from error
            self._offline = error
            raise LogOffline(
                f"{self.path}: cannot finish a compaction: {error}; opening it again will"
            ) from error

    def remove_file(self, path: Path) -> None:
        """Remove a file of the log's directory that is not a segment's."""
        with self._as_storage_error("remove a file"):
            self.file_system.remove(path)

    def truncate(self, offset: int) -> None:
        """Cut the batch that holds `offset` and everything after it; staged appends are forgotten."""
        self.cuts += 1
        self._staged.clear()
        offset, segments = max(offset, self.start_offset), self._segments
        with self._as_storage_error("truncate"):
            while len(segments) > 1 and segments.active.base_offset >= offset:
                segments.drop_last()
            segments.active.truncate(offset)
            segments.active.store_indexes()
            if segments.active.next_offset < self.start_offset:
                # The batch around the start is gone: nothing visible is left, and no offset is given twice.
                segments.roll(self.start_offset, self.config, segments.active.created_ms)
                self.delete_oldest(len(segments) - 1)
            self.high_watermark = self.next_offset = segments.active.next_offset
            self.recovery_point = min(self.recovery_point, self.high_watermark)
            self.epochs.cut_end(self.high_watermark)

    # ---- end

    def close(self) -> None:
        """Write, flush and store everything: after this, and only then, the next `open` may be `clean`."""
        self._check_online()
        self.write_staged()
        with self._as_storage_error("close"):
            self.active.seal()
            self.active.flush_indexes()  # the next start trusts them, and rebuilds nothing
        self.flush()
        self.purge()
        self.abandon()

    def abandon(self) -> None:
        """Close the descriptors and write nothing: like a killed process, or for an offline log."""
        self.is_closed = True
        self._segments.close()

    def _storage_error(self, doing: str, error: OSError) -> StorageError:
        return StorageError(f"{self.path}: cannot {doing}: {error}")

    @contextlib.contextmanager
    def _as_storage_error(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._storage_error(doing, error) from error
