"""Jobs that run at intervals: retention, compaction, checkpoints, expiry of unused state.

Each job has its own interval and never overlaps itself. Jobs run on the loop. What blocks (fsync, compaction)
goes to the executor as a ticket, with file descriptors of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.producer_state import save_if_rolled
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_store import TopicStore
from ottla.log.retention import apply_retention, expired, has_to_read
from ottla.log.segment_list import damage_in
from ottla.model.errors import StorageError

if TYPE_CHECKING:  # loaded by the first compaction
    from ottla.log.compaction import CompactionTicket

log = logging.getLogger(__name__)

PRODUCER_EXPIRY_CHECK_MS = 600_000
INTERVAL_MS_MIN = 100  # Kafka allows 0, which would leave no time for clients


class CoordinatorUpkeep(NamedTuple):
    """What coordinators of all brokers do at intervals."""

    expire_groups: Callable[[], None]
    abort_timed_out: Callable[[], None]
    expire_transactional_ids: Callable[[], None]


class Housekeeping:
    """The jobs of one data directory. Owned by the loop."""

    def __init__(self, store: TopicStore, runtime: Runtime, upkeep: CoordinatorUpkeep) -> None:
        self._store = store
        self._runtime = runtime
        self._upkeep = upkeep
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._compaction: CompactionTicket | None = None
        self._logged_damage: set[str] = set()

    def start(self) -> None:
        """Start the jobs; each runs for the first time after its interval."""
        config = self._store.config
        jobs: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (config.retention_check_ms, self.apply_retention),
            (config.checkpoint_ms, self.checkpoint),
            (config.offsets_expiry_check_ms, self.expire_offsets),
            (config.transactions.timeout_check_ms, self.abort_timed_out),
            (config.transactions.expiry_check_ms, self.expire_transactional_ids),
            (PRODUCER_EXPIRY_CHECK_MS, self.expire_producers),
        ]
        if config.cleaner_enable:
            jobs.append((config.cleaner_backoff_ms, self.compact))
        self._tasks = [self._runtime.loop.create_task(self._repeat(ms, job)) for ms, job in jobs]

    async def stop(self) -> None:
        """Cancel a compaction, wait for the job that runs, and end all jobs."""
        self._stopping.set()
        if self._compaction is not None:
            self._compaction.cancel()
        await asyncio.gather(*self._tasks)
        self._tasks.clear()

    async def _repeat(self, interval_ms: int, job: Callable[[], Awaitable[None]]) -> None:
        seconds = max(interval_ms, INTERVAL_MS_MIN) / 1000
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), seconds)
                return
            try:
                await job()
            except Exception:  # also for an error of ours: nobody would notice a job that has ended
                log.exception("housekeeping failed; it is tried again in %d ms", interval_ms)

    def _partitions(self) -> list[Partition]:
        return [partition for partition in self._store.all_partitions() if partition.log]

    async def apply_retention(self) -> None:
        """Drop segments that are too old or too many; their files are removed a little later."""
        for partition in self._partitions():
            partition_log = partition.log
            if partition_log is None:
                continue  # its topic was deleted since this pass began
            try:
                if has_to_read(partition_log):
                    await self._in_thread(expired, partition_log, self._runtime.now_ms())
                    if partition.log is not partition_log:
                        continue
                dropped = apply_retention(partition_log, self._runtime.now_ms())
            except StorageError:
                if partition.log is partition_log:  # otherwise its topic was deleted meanwhile
                    log.exception("retention of %s failed", partition)
                continue
            if dropped:
                purge_later(partition, self._runtime)
            await asyncio.sleep(0)

    async def _in_thread(self, work: Callable[..., object], *arguments: object) -> None:
        """Call a function that reads files, and leave the loop free meanwhile."""
        await self._runtime.loop.run_in_executor(self._runtime.readers, work, *arguments)

    async def compact(self) -> None:
        """Compact the logs that are due, the dirtiest first, one at a time: it takes memory and a thread."""
        tried: set[Partition] = set()
        while not self._stopping.is_set():
            due = [
                partition
                for partition in self._partitions()
                if partition not in tried and self._is_due(partition)
            ]
            if not due:
                return
            dirtiest = max(due, key=self._dirtiness)
            tried.add(dirtiest)
            try:
                await self._compact(dirtiest)
            except StorageError:
                log.exception("compaction of %s failed", dirtiest)

    def _is_due(self, partition: Partition) -> bool:
        partition_log = partition.log
        if partition_log is None or not partition_log.config.is_compacted:
            return False
        from ottla.log.cleanable import is_due

        try:
            return is_due(partition_log, *self._cleaning_state(partition))
        except OSError:  # it has to read files of segments
            log.exception("compaction of %s failed", partition)
            return False

    def _dirtiness(self, partition: Partition) -> float:
        from ottla.log.cleanable import dirty_ratio

        assert partition.log is not None
        return dirty_ratio(partition.log, *self._cleaning_state(partition))

    def _cleaning_state(self, partition: Partition) -> tuple[int, int, int]:
        """Return where the dirty part of a log begins, the time, and up to where transactions are decided."""
        return self._first_dirty(partition), self._runtime.now_ms(), partition.last_stable_offset

    def _first_dirty(self, partition: Partition) -> int:
        return self._store.directory.first_dirty_offsets.get((partition.topic, partition.index), 0)

    async def _compact(self, partition: Partition) -> None:
        from ottla.log.compaction import begin, finish

        store, partition_log = self._store, partition.log
        assert partition_log is not None
        expiry_ms = store.config.producer_id_expiry_ms
        first_dirty, now_ms, stable = self._cleaning_state(partition)
        ticket = begin(partition_log, first_dirty, now_ms, producer_expiry_ms=expiry_ms, stable_offset=stable)
        self._compaction = ticket
        try:
            await self._in_thread(ticket.run)
        finally:
            self._compaction = None
            result = finish(partition_log, ticket)
        key = partition.topic, partition.index
        if store.directory.logs.get(key) is partition_log:  # the topic was not deleted and created again
            store.directory.first_dirty_offsets[key] = result.first_dirty_offset
        if partition.log is partition_log:
            purge_later(partition, self._runtime)

    async def checkpoint(self) -> None:
        """Flush sealed segments and store how far, so that recovery after a crash reads one segment."""
        for partition in self._partitions():
            try:
                await self._flush_sealed(partition)
            except StorageError as error:
                self._runtime.turn.faults.note({partition: error})
            self._log_damage(partition)
            await asyncio.sleep(0)
        self._store.directory.checkpoint()

    def _log_damage(self, partition: Partition) -> None:
        """Log what readers have found damaged since the last time."""
        for damage in damage_in(partition.log.segments if partition.log is not None else ()):
            if damage not in self._logged_damage:
                self._logged_damage.add(damage)
                log.error("%s-%d is damaged: %s", partition.topic, partition.index, damage)

    async def _flush_sealed(self, partition: Partition) -> None:
        runtime, partition_log = self._runtime, partition.log
        if partition_log is None or partition_log.failure is not None:
            return
        save_if_rolled(partition.producers, partition_log)
        end = partition_log.active.base_offset
        while partition_log.recovery_point < end and partition.log is partition_log:
            ticket = partition_log.begin_flush()
            try:
                await runtime.loop.run_in_executor(runtime.flushers, ticket.sync)
            finally:
                partition_log.finish_flush(ticket)

    async def expire_offsets(self) -> None:
        """Delete offsets and groups that have expired."""
        self._upkeep.expire_groups()

    async def abort_timed_out(self) -> None:
        """Abort transactions whose timeout is over."""
        self._upkeep.abort_timed_out()

    async def expire_transactional_ids(self) -> None:
        """Delete transactional ids that have expired."""
        self._upkeep.expire_transactional_ids()

    async def expire_producers(self) -> None:
        """Forget producers that have not written for `producer.id.expiration.ms`."""
        for partition in self._partitions():
            partition.producers.expire(self._runtime.now_ms(), self._store.config.producer_id_expiry_ms)


def purge_later(partition: Partition, runtime: Runtime) -> None:
    """Remove the files of dropped segments when file.delete.delay.ms is over."""

    def purge() -> None:
        try:
            if partition.log is not None:
                partition.log.purge()
        except StorageError:
            log.exception("files of %s are left behind; the next start removes them", partition)

    runtime.loop.call_later(partition.settings.log.file_delete_delay_ms / 1000, purge)
