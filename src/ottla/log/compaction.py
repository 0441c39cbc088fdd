"""Compaction: of each key, only the last value stays. Offsets never change; gaps appear.

    ticket = begin(log, first_dirty_offset, now_ms)   the owner; cheap
    ticket.run()                                      anywhere: reads and writes files
    result = finish(log, ticket)                      the owner again: the new files take their places

1. `KeyOffsets` is filled from the dirty part: sealed segments that were not yet compacted.
2. Segments from the start of the log to the end of the map are copied, in groups that fit one segment, into
   `.log.cleaned` files, which are flushed (`cleaning`).
3. The files are renamed to `.swap`, which decides, and put in the places of the groups, oldest first: a
   tombstone never goes before the values that it hides.

Between `begin` and `finish` the log may be appended to, read, cut, deleted or closed. What was made of a log
that has lost its end meanwhile is thrown away, since a record that superseded others may be gone. Segments
that retention has dropped are forgotten; if that split a group, all from there on is thrown away.

Tombstones (null values) stay until a reader that saw the value has had delete.retention.ms to see its end. In
format 2 that time is counted from the first compaction that finds the tombstone, and noted in its batch, as
in Kafka since 3.1; for formats 0 and 1 the times of the files decide, as in Kafka before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.log.cleanable import cleanable_segments, first_dirty, grouped
from ottla.log.file_names import CLEANED
from ottla.log.log_config import DAY_MS, LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.sealed_copy import SealedCopy
from ottla.log.segment import Segment
from ottla.log.segment_file import FileClosed
from ottla.log.undecided import StoredAbort
from ottla.model.errors import StorageError

KEYS_MAX = 1_000_000  # about 150 MB of dictionary: the memory limit of a whole broker


class Compaction(NamedTuple):
    """The result of a run. The next run starts at `first_dirty_offset`: keep it in a checkpoint."""

    first_dirty_offset: int
    bytes_before: int
    bytes_after: int
    records_dropped: int


class _Cancelled(Exception):
    """Ends a run that is not wanted any more."""


@dataclass(slots=True)
class SegmentGroup:
    """Neighbouring segments, what a thread may read of them, and the segment that is to replace them."""

    old: list[Segment]
    new: Segment
    sources: list[SealedCopy] = field(default_factory=list)
    records_dropped: int = 0
    is_worth_it: bool = False  # something changed: the new file is flushed, and may take its place


@dataclass(slots=True)
class CompactionTicket:
    """One run. Made by `begin`; always ends with `finish`."""

    config: LogConfig
    first_dirty_offset: int
    now_ms: int
    keys_max: int
    producer_expiry_ms: int
    cuts: int  # of the log when it began
    aborted: list[StoredAbort] = field(default_factory=list)
    groups: list[SegmentGroup] = field(default_factory=list)
    mapped_to: int = 0
    done: bool = False
    is_cancelled: bool = False

    def run(self) -> None:
        """Read and write; returns early if it was cancelled or the log was closed.

        Raises StorageError, also as DamagedLog. Call `finish` in every case; it leaves the log unchanged
        unless `run` has completed.
        """
        from ottla.log import cleaning  # here, since they load Numba
        from ottla.log.key_offsets import KeyOffsets
        from ottla.log.transaction_cleaning import CleanedTransactions

        sources = [source for group in self.groups for source in group.sources]
        keys = KeyOffsets(self.keys_max, self.first_dirty_offset)
        try:
            transactions = CleanedTransactions(self.aborted)
            cleaning.map_keys(sources, keys, transactions)
            last_of_producer = cleaning.last_batches(sources, self.now_ms - self.producer_expiry_ms)
            times = (self.now_ms, self.config.delete_retention_ms, self._legacy_horizon(sources))
            rule = cleaning.CleaningRule(keys, *times, last_of_producer, transactions)
            for group in self.groups:
                if group.old[0].base_offset < keys.mapped_to:
                    group.records_dropped, is_changed = cleaning.clean(group.sources, group.new, rule)
                    group.is_worth_it = is_changed and group.new.size > 0
                    if group.is_worth_it:
                        group.new.file.sync()
        except (_Cancelled, FileClosed):
            return
        except OSError as error:
            raise StorageError(f"cannot write a compacted segment: {error}") from error
        self.mapped_to = keys.mapped_to
        self.done = True

    def _legacy_horizon(self, sources: Sequence[SealedCopy]) -> int:
        """Formats 0 and 1: files last written at or before this lose their tombstones."""
        clean = [source for source in sources if source.next_offset <= self.first_dirty_offset]
        return clean[-1].modified_ms - self.config.delete_retention_ms if clean else 0

    def cancel(self) -> None:
        """Let `run` end soon; from any thread."""
        self.is_cancelled = True

    def check_wanted(self) -> None:
        """Raise if the run is not wanted any more."""
        if self.is_cancelled:
            raise _Cancelled


def begin(
    log: PartitionLog,
    first_dirty_offset: int,
    now_ms: int,
    *,
    keys_max: int = KEYS_MAX,
    producer_expiry_ms: int = DAY_MS,
    stable_offset: int | None = None,
) -> CompactionTicket:
    """Take the segments that can be compacted. A log has one ticket at a time. Raises StorageError.

    `producer_expiry_ms` is producer.id.expiration.ms: how long a producer's last batch stays. Transactions
    are decided up to `stable_offset`, or in all of the log.
    """
    assert not log.is_compacting, f"{log.path} is being compacted already"
    dirty = first_dirty(log, first_dirty_offset)
    ticket = CompactionTicket(log.config, dirty, now_ms, keys_max, producer_expiry_ms, log.cuts)
    log.is_compacting = True
    ticket.aborted = [
        item for segment in log.segments if segment.has_aborts for item in segment.aborted.entries()
    ]
    try:
        segments = cleanable_segments(log, dirty, now_ms, stable_offset)
        if segments and segments[-1].next_offset > dirty:
            for old in grouped(segments, log.config):
                first = old[0]
                target = (log.path, first.base_offset, log.config, log.file_system, first.created_ms)
                group = SegmentGroup(old, Segment(*target, state=CLEANED))
                ticket.groups.append(group)
                group.new.file.truncate(0)  # what a run before a crash left
                for segment in old:
                    group.sources.append(SealedCopy(segment, ticket.check_wanted))
    except OSError as error:
        finish(log, ticket)
        raise StorageError(f"{log.path}: cannot begin a compaction: {error}") from error
    return ticket


def finish(log: PartitionLog, ticket: CompactionTicket) -> Compaction:
    """Put the new files in place, or throw them away if the run failed or the log was truncated meanwhile.

    Raises StorageError; the log is then as before, or goes offline and opening it again finishes the job.
    Replaced segments' files stay as `.deleted` until `log.purge()`.
    """
    log.is_compacting = False
    is_valid = ticket.done and not log.is_closed and log.cuts == ticket.cuts
    is_valid = is_valid and not _is_split(log, ticket.groups)
    bytes_before = log.size
    wanted, dropped = [], 0
    for group in ticket.groups:
        if is_valid and group.is_worth_it and group.old[0] in log.segments:
            wanted.append((group.old, group.new))
            dropped += group.records_dropped
        else:
            group.new.close()
            if not log.is_closed:  # else the directory may be another log's by now
                log.remove_file(group.new.file.path)
    try:
        log.replace_segments(wanted)
    except StorageError:
        for _, new in wanted:
            if new not in log.segments:
                new.close()
        raise
    reached = ticket.mapped_to if is_valid else ticket.first_dirty_offset
    return Compaction(reached, bytes_before, log.size, dropped)


def _is_split(log: PartitionLog, groups: Sequence[SegmentGroup]) -> bool:
    """Whether retention has dropped some segments of a group and left others."""
    there = set(log.segments)
    return any(0 < len(there.intersection(group.old)) < len(group.old) for group in groups)


def compact(
    log: PartitionLog,
    first_dirty_offset: int,
    now_ms: int,
    *,
    keys_max: int = KEYS_MAX,
    producer_expiry_ms: int = DAY_MS,
    stable_offset: int | None = None,
) -> Compaction:
    """All three steps in a row."""
    ticket = begin(
        log,
        first_dirty_offset,
        now_ms,
        keys_max=keys_max,
        producer_expiry_ms=producer_expiry_ms,
        stable_offset=stable_offset,
    )
    try:
        ticket.run()
    finally:
        result = finish(log, ticket)
    return result
