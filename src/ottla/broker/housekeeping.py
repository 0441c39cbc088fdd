"""What is done now and then: retention, compaction, checkpoints, expiry of offsets and producers.

Each job has its own interval and never overlaps itself. Jobs run on the loop; what blocks (fsync, compaction,
removing files) goes to the executor in a form that leaves the logs alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.broker.cluster import Cluster
from ottla.broker.partition import Partition
from ottla.broker.producers import save_if_rolled
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

    def start(self) -> None:
        """Begin; nothing is done before its first interval is over."""
        config = self._cluster.config
        jobs: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (config.retention_check_ms, self.apply_retention),
            (config.checkpoint_ms, self.checkpoint),
            (config.offsets_expiry_check_ms, self.expire_offsets),
            (PRODUCER_EXPIRY_CHECK_MS, self.expire_producers),
        ]
        self._tasks = [self._cluster.loop.create_task(_repeat(ms, job)) for ms, job in jobs]

    def stop(self) -> None:
        """Do nothing more."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

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
                delay = partition_log.config.file_delete_delay_ms / 1000
                self._cluster.loop.call_later(delay, partition_log.purge)
            await asyncio.sleep(0)

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
                await cluster.loop.run_in_executor(cluster.executor, ticket.sync)
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


async def _repeat(interval_ms: int, job: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(max(interval_ms, INTERVAL_MS_MIN) / 1000)
        try:
            await job()
        except OttlaError:
            log.exception("housekeeping failed; it is tried again in %d ms", interval_ms)
