"""One turn of the event loop: its appends are written together, then acknowledged together.

    requests of the turn ──▶ stage ──▶ one write per partition ──▶ (fsync) ──▶ acks, long polls ──▶ sockets

This makes many small requests cheap: a system call costs as much as a request. With ottla.flush=always, or a
topic's flush.messages=1, acknowledgements also wait for the disk. One thread syncs; appends that are written
meanwhile are the next group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor

from ottla.broker.storage.partition import Partition
from ottla.broker.storage.write_faults import WriteFaults
from ottla.log.flush_ticket import FlushTicket
from ottla.model.errors import StorageError

log = logging.getLogger(__name__)

Failures = Mapping[Partition, StorageError]
Then = Callable[[Failures], None]


class WriteTurn:
    """Owned by the loop; `stage` and `then` are called while requests are handled."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        *,
        flush_always: bool,
        after: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._flush_always = flush_always
        self._after = after
        self._dirty: dict[Partition, None] = {}
        self._waiting: list[Then] = []
        self._is_scheduled = False
        self.number = 0
        self.faults = WriteFaults(loop)
        self._commits = GroupCommit(loop, executor, self._settle, self.faults)

    def stage(self, partition: Partition) -> None:
        """Write `partition` at the end of this turn: it got an append."""
        self._dirty[partition] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self.end)

    def then(self, callback: Then) -> None:
        """Call `callback` when what is staged now has been written, and flushed where the settings say so.

        It gets the partitions whose write failed; nothing of these writes was kept.
        """
        self._waiting.append(callback)

    def end(self) -> None:
        """Write everything that is staged. The loop calls it; callers that cannot wait call it earlier."""
        self._is_scheduled = False
        self.number += 1
        dirty, self._dirty = self._dirty, {}
        waiting, self._waiting = self._waiting, []
        failures: dict[Partition, StorageError] = {}
        written = []
        for partition in dirty:
            partition_log = partition.log
            size = partition_log.staged_bytes if partition_log else 0
            try:
                if partition_log is None:
                    raise StorageError(f"{partition} went offline before it was written")
                partition_log.write_staged()
            except StorageError as error:
                failures[partition] = error
                partition.producers.rollback()
            else:
                partition.producers.commit()
                written.append((partition, size))
        if failures:
            self.faults.note(failures)
        to_flush = [
            partition
            for partition, _ in written
            if self._flush_always or partition.settings.flush_every_write
        ]
        if to_flush:
            self._commits.add(to_flush, waiting, failures)
        else:
            self._settle(waiting, failures)
        for partition, size in written:
            if partition.listeners:
                partition.wake(size)
        self._after()

    def _settle(self, waiting: Iterable[Then], failures: Failures) -> None:
        for callback in waiting:
            try:
                callback(failures)
            except Exception:  # an error of ours, which must not prevent the answers to others
                log.exception("a callback after a write failed")

    async def drain(self) -> None:
        """Wait until everything is written and flushed and all callbacks have run."""
        while self._is_scheduled or self._commits.is_busy:
            if self._is_scheduled:
                self.end()
            await self._commits.idle()
        self.faults.log_rest()


class GroupCommit:
    """Fsyncs of several partitions, one group after the other."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        settle: Callable[[Iterable[Then], Failures], None],
        faults: WriteFaults,
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._settle = settle
        self._faults = faults
        self._partitions: dict[Partition, None] = {}
        self._waiting: list[tuple[list[Then], Failures]] = []
        self._running: asyncio.Future[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a group is being flushed."""
        return self._running is not None

    def add(self, partitions: Iterable[Partition], waiting: list[Then], failures: Failures) -> None:
        """Flush partitions with the next group, then settle the callbacks."""
        self._partitions |= dict.fromkeys(partitions)
        self._waiting.append((waiting, failures))
        if self._running is None:
            self._running = self._loop.create_task(self._run())

    async def idle(self) -> None:
        """Wait until nothing is being flushed."""
        if self._running is not None:
            await self._running

    async def _run(self) -> None:
        while self._waiting:
            partitions, self._partitions = self._partitions, {}
            waiting, self._waiting = self._waiting, []
            failures = await self._flush(partitions)
            if failures:
                self._faults.note(failures)
            for callbacks, earlier in waiting:
                self._settle(callbacks, {**earlier, **failures} if failures else earlier)
        self._running = None

    async def _flush(self, partitions: Iterable[Partition]) -> dict[Partition, StorageError]:
        failures: dict[Partition, StorageError] = {}
        ends = {item: item.log.high_watermark for item in partitions if item.log is not None}
        while ends:
            tickets: dict[Partition, FlushTicket] = {}
            for partition in ends:
                try:
                    if partition.log is not None:
                        tickets[partition] = partition.log.begin_flush()
                except StorageError as error:
                    failures[partition] = error
            await self._loop.run_in_executor(self._executor, _sync, list(tickets.values()))
            for partition, ticket in tickets.items():
                if partition.log is not None:
                    partition.log.finish_flush(ticket)
                if ticket.failure is not None:
                    failures[partition] = ticket.failure
            # A ticket takes a limited number of segments; a log with more of them needs another ticket.
            ends = {
                item: ends[item]
                for item, ticket in tickets.items()
                if item not in failures and ticket.offset < ends[item]
            }
        return failures


def _sync(tickets: Iterable[FlushTicket]) -> None:
    for ticket in tickets:
        try:
            ticket.sync()
        except StorageError:
            continue  # the ticket has the failure
