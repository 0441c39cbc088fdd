"""What is done now and then: retention, compaction, checkpoints, expiry of offsets and producers.

Each job has its own interval and never overlaps itself. Jobs run on the loop; what blocks (fsync, compaction,
removing files) goes to the executor in a form that leaves the logs alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from ottla.broker.cluster import Cluster
from ottla.broker.partition import Partition
from ottla.broker.producers import save_if_rolled
from ottla.log.cleanable import dirty_ratio, is_due
from ottla.log.compaction import CompactionTicket, begin, finish
from ottla.log.retention import apply_retention
from ottla.model.errors import OttlaError, StorageError

log = logging.getLogger(__name__)

PRODUCER_EXPIRY_CHECK_MS = 600_000
INTERVAL_MS_MIN = 100  # Kafka allows 0, which would leave no time for clients


class Housekeeping:
    """The jobs of one cluster. Owned by the loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._compaction: CompactionTicket | None = None

    def start(self) -> None:
        """Begin; nothing is done before its first interval is over."""
        config = self._cluster.config
        jobs: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (config.retention_check_ms, self.apply_retention),
            (config.checkpoint_ms, self.checkpoint),
            (config.offsets_expiry_check_ms, self.expire_offsets),
            (PRODUCER_EXPIRY_CHECK_MS, self.expire_producers),
        ]
        if config.cleaner_enable:
            jobs.append((config.cleaner_backoff_ms, self.compact))
        self._tasks = [self._cluster.loop.create_task(self._repeat(ms, job)) for ms, job in jobs]

    async def stop(self) -> None:
        """Let what is being done come to an end, and do nothing more."""
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
            except OttlaError:
                log.exception("housekeeping failed; it is tried again in %d ms", interval_ms)

    def _partitions(self) -> list[Partition]:
        return [partition for partition in self._cluster.all_partitions() if partition.log]

    async def apply_retention(self) -> None:
        """Drop segments that are too old or too many; their files go a little later."""
        for partition in self._partitions():
            partition_log = partition.log
            assert partition_log is not None
            try:
                dropped = apply_retention(partition_log, self._cluster.now_ms())
            except StorageError:
                log.exception("retention of %s failed", partition)
                continue
            if dropped:
                self._purge_later(partition)
            await asyncio.sleep(0)

    def _purge_later(self, partition: Partition) -> None:
        """Remove the files of dropped segments when file.delete.delay.ms is over."""
        assert partition.log is not None
        delay_ms = partition.log.config.file_delete_delay_ms

        def purge() -> None:
            try:
                if partition.log is not None:
                    partition.log.purge()
            except StorageError:
                log.exception("files of %s are left behind; the next start removes them", partition)

        self._cluster.loop.call_later(delay_ms / 1000, purge)

    async def compact(self) -> None:
        """Compact all logs that are due, the dirtiest first. One at a time: it takes memory, and a thread."""
        tried: set[Partition] = set()
        while not self._stopping.is_set():
            due = [one for one in self._partitions() if one not in tried and self._is_due(one)]
            if not due:
                return
            dirtiest = max(due, key=self._dirtiness)
            tried.add(dirtiest)
            await self._compact(dirtiest)

    def _is_due(self, partition: Partition) -> bool:
        log_of = partition.log
        return (
            log_of is not None
            and log_of.config.is_compacted
            and is_due(log_of, self._first_dirty(partition), self._cluster.now_ms())
        )

    def _dirtiness(self, partition: Partition) -> float:
        assert partition.log is not None
        return dirty_ratio(partition.log, self._first_dirty(partition), self._cluster.now_ms())

    def _first_dirty(self, partition: Partition) -> int:
        return self._cluster.directory.first_dirty_offsets.get((partition.topic, partition.index), 0)

    async def _compact(self, partition: Partition) -> None:
        cluster, partition_log = self._cluster, partition.log
        assert partition_log is not None
        expiry_ms = cluster.config.producer_id_expiry_ms
        first_dirty = self._first_dirty(partition)
        ticket = begin(partition_log, first_dirty, cluster.now_ms(), producer_expiry_ms=expiry_ms)
        self._compaction = ticket
        try:
            await cluster.loop.run_in_executor(cluster.executor, ticket.run)
        except StorageError:
            log.exception("compaction of %s failed; its log is as it was", partition)
        finally:
            self._compaction = None
            result = finish(partition_log, ticket)
        key = partition.topic, partition.index
        if cluster.directory.logs.get(key) is partition_log:  # and not another's of the same name
            cluster.directory.first_dirty_offsets[key] = result.first_dirty_offset
        if partition.log is partition_log:
            self._purge_later(partition)

    async def checkpoint(self) -> None:
        """Flush what was sealed, so that recovery after a crash has one segment to look at, and note it."""
        cluster = self._cluster
        for partition in self._partitions():
            partition_log = partition.log
            if partition_log is None:
                continue
            save_if_rolled(partition.producers, partition_log)
            if partition_log.recovery_point < partition_log.active.base_offset:
                ticket = partition_log.begin_flush()
                try:
                    await cluster.loop.run_in_executor(cluster.executor, ticket.sync)
                finally:
                    partition_log.finish_flush(ticket)
        cluster.directory.checkpoint()

    async def expire_offsets(self) -> None:
        """Forget offsets and groups that nobody has used for long."""
        for node in self._cluster.nodes.values():
            node.groups.expire()

    async def expire_producers(self) -> None:
        """Forget producers that have not written for long."""
        for partition in self._partitions():
            partition.producers.expire(self._cluster.now_ms(), self._cluster.config.producer_id_expiry_ms)
