"""Restoring the producers' states after a restart: from a snapshot, and from the batches after it.

A producer that had several batches under way when the broker stopped sends them all again. So a snapshot has
all batches that are kept of a producer, and duplicates are recognised. Apache Kafka's has the last one: it
answers 45, and its client stores the batches again under a new epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.producer_state.producer_states import ProducerStates
from ottla.log import producer_snapshots
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_snapshots import Snapshot

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
        states.rebuild(log.history(snapshot.offset), snapshot.entries)
    states.expire(now_ms, expiration_ms)


def save(states: ProducerStates, log: PartitionLog) -> bool:
    """Store a snapshot if it is of use, before a clean close. Returns whether it was. Raises StorageError."""
    if len(log.segments) == 1 and log.size < SMALL_LOG_BYTES and log.start_offset == 0:
        return False
    if producer_snapshots.newest_offset(log.path) == log.high_watermark:
        return False
    snapshot = Snapshot(log.high_watermark, states.snapshot_entries())
    producer_snapshots.write(log.path, snapshot, log.file_system)
    return True


def save_if_rolled(states: ProducerStates, log: PartitionLog) -> bool:
    """Call `save` if the newest snapshot belongs to a sealed segment. Called at intervals.

    So after a crash only the active segment, about, has to be read.
    """
    if len(log.segments) == 1 or producer_snapshots.newest_offset(log.path) >= log.active.base_offset:
        return False
    return save(states, log)
