"""Restoring the producers' states after a restart: from a snapshot, and from the batches after it.

A snapshot has only each producer's last batch. A producer that had more batches under way when the broker
stopped sends them all again, so the end of the log is read too, and duplicates are recognised. Apache Kafka
does not: it answers 45, and its client stores the batches again under a new epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.producer_state.producer_states import BATCHES_KEPT, SEQUENCE_MAX, ProducerStates
from ottla.log import producer_snapshots
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_snapshots import ProducerEntry, Snapshot

# How much of the end is read, in entries of the offset index: a large batch each, or 4 KB of small ones.
TAIL_ENTRIES = 64
TAIL_ENTRIES_MIN = 16
# A segment of this size is read in milliseconds, and needs no snapshot.
SMALL_LOG_BYTES = 256 << 10


def load(
    states: ProducerStates,
    log: PartitionLog,
    now_ms: int,
    expiration_ms: int,
    names: Sequence[str] | None = None,
) -> None:
    """Make `states` agree with the log, after it was opened or cut and before anything is appended.

    `names` are those in its directory, if they are known. Raises StorageError.
    """
    ends = log.start_offset, log.high_watermark
    snapshot = producer_snapshots.read_latest(log.path, *ends, log.file_system, names)
    if snapshot is None:
        states.rebuild(log.history())
    else:
        start = min(snapshot.offset, _tail_offset(log, snapshot))
        states.rebuild(log.history(start), snapshot.entries, start)
    states.expire(now_ms, expiration_ms)


def save(states: ProducerStates, log: PartitionLog) -> bool:
    """Store a snapshot if it is of use, before a clean close. Returns whether it was. Raises StorageError."""
    if len(log.segments) == 1 and log.size < SMALL_LOG_BYTES and log.start_offset == 0:
        return False
    if producer_snapshots.newest_offset(log.path) == log.high_watermark:
        return False
    snapshot = Snapshot(log.high_watermark, states.entries())
    producer_snapshots.write(log.path, snapshot, log.file_system)
    return True


def save_if_rolled(states: ProducerStates, log: PartitionLog) -> bool:
    """Call `save` if the newest snapshot belongs to a sealed segment. Called at intervals.

    So after a crash only the active segment, about, has to be read.
    """
    if len(log.segments) == 1 or producer_snapshots.newest_offset(log.path) >= log.active.base_offset:
        return False
    return save(states, log)


def _tail_offset(log: PartitionLog, snapshot: Snapshot) -> int:
    """Where the end begins that is read: the last batches of producers of which the snapshot has one.

    Of the segments before that nothing is read, so a start does not cost more for their number.
    """
    has_grown = snapshot.offset < log.high_watermark
    producers = sum(has_grown or _has_earlier_batches(entry) for entry in snapshot.entries)
    if not producers:
        return snapshot.offset
    wanted, count = min(BATCHES_KEPT * producers, TAIL_ENTRIES_MIN), 0
    for segment in reversed(log.segments):
        if segment.index_entries_max >= TAIL_ENTRIES:
            entries = segment.offset_index.entries()
            if len(entries) >= TAIL_ENTRIES:
                return entries[-TAIL_ENTRIES][0]
        count += segment.index_entries_max + bool(segment.size)
        if count >= wanted:
            return segment.base_offset
    return log.start_offset


def _has_earlier_batches(entry: ProducerEntry) -> bool:
    """Whether a producer has numbered batches before its last one, in the same epoch."""
    return entry.last_sequence >= 0 and (entry.last_sequence - entry.offset_delta) & SEQUENCE_MAX > 0
