"""What the brokers of one process share, put together: one event loop owns all of it.

    Cluster ── runtime: the loop, its threads, the clock, and the turn that writes appends together
       ├────── store: topics, partitions and settings of the data directory
       ├────── leaders: brokers that are up, and the leader of each partition
       ├────── topics, settings: changes of them
       ├────── transactions: the transaction coordinators of all brokers, and the partitions they write to
       ├────── shares: share groups, whichever broker coordinates them
       ├────── scram_users, authorizer: who may log in by SCRAM, and who may do what
       ├────── handshakes: TLS with those who have connected
       ├────── output: connections with answers to write
       └────── memory: what clients can make the process hold, and what happens at the limit

With one node this is a broker. With several it is what clients see of a cluster (leaders here and there, a
broker that dies, a leader that moves), over one copy of the data: nothing is replicated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from ottla.broker.security.scram_users import ScramUsers
from ottla.broker.serving.client_quotas import QuotaLimits
from ottla.broker.serving.output import Output
from ottla.broker.serving.tls_listener import Handshakes
from ottla.broker.settings.broker_config import BrokerConfig, FlushPolicy
from ottla.broker.storage.leaders import Leaders
from ottla.broker.storage.memory import MemoryBudget
from ottla.broker.storage.producer_memory import ProducerMemory
from ottla.broker.storage.runtime import Runtime, wall_clock_ms
from ottla.broker.storage.setting_changes import SettingChanges
from ottla.broker.storage.topic_changes import TopicChanges
from ottla.broker.storage.topic_store import TopicStore
from ottla.broker.transactions.brokers import TransactionBrokers
from ottla.log.file_system import REAL, FileSystem
from ottla.model.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.security.authorizer import Authorizer
    from ottla.broker.share_groups.share_service import ShareGroupService

FLUSHES_AT_ONCE = 32
"""How many flushes run at the same time when a broker stops. Each takes up to 48 descriptors, mostly two."""


class Cluster:
    """Made inside a running event loop, which owns it. Raises StorageError or ConfigError."""

    def __init__(
        self, config: BrokerConfig, files: FileSystem = REAL, now_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self.output = Output()
        self.memory = MemoryBudget(
            config.memory_bytes_max,
            config.queued_bytes_max,
            config.request_bytes_max,
            asyncio.get_running_loop(),
        )
        self.runtime = Runtime(
            flush_always=config.flush is FlushPolicy.ALWAYS, after_turn=self.output.write, now_ms=now_ms
        )
        self.handshakes = Handshakes(self.runtime.loop)
        self.store = TopicStore(config, lambda: self.runtime.now_ms(), files)
        self.producer_memory = ProducerMemory(
            self.memory.producers, lambda: (item.producers for item in self.store.all_partitions())
        )
        self.leaders = Leaders(self.store, self.runtime)
        self.topics = TopicChanges(self.store, self.leaders, self.runtime)
        self.settings = SettingChanges(self.store, self.topics)
        self.transactions = TransactionBrokers(self.store)
        self.scram_users = ScramUsers(self.store.catalog)
        self.quota_limits = QuotaLimits(self.store.catalog.entities)
        self.authorizer: Authorizer | None = None
        if config.authorizer.is_on:
            from ottla.broker.security.authorizer import Authorizer

            self.authorizer = Authorizer(config.authorizer, self.store.catalog)

    @cached_property
    def shares(self) -> ShareGroupService:
        """The share groups of the process, loaded by the first one."""
        from ottla.broker.share_groups.share_service import ShareGroupService

        return ShareGroupService(self.store, self.runtime, self.topics)

    @property
    def has_shares(self) -> bool:
        """Whether there may be share groups."""
        return "shares" in vars(self)

    async def close(self) -> None:
        """Write and flush everything. Nodes must have stopped. Raises StorageError."""
        self.handshakes.close()
        await self.runtime.slices.idle()
        await self.runtime.turn.drain()
        await self._flush_all()
        await self.runtime.close()
        self.store.close()

    async def _flush_all(self) -> None:
        """Flush all logs, many at a time: one after the other, thousands of them take minutes.

        What fails here fails again when the store is closed, and is reported there.
        """
        logs = [log for log in self.store.directory.logs.values() if log.is_dirty]
        with ThreadPoolExecutor(FLUSHES_AT_ONCE, "ottla-flusher") as threads:
            for first in range(0, len(logs), FLUSHES_AT_ONCE):
                tickets = []
                for log in logs[first : first + FLUSHES_AT_ONCE]:
                    with suppress(StorageError):
                        tickets.append((log, log.begin_flush()))
                work = [self.runtime.loop.run_in_executor(threads, ticket.sync) for _, ticket in tickets]
                await asyncio.gather(*work, return_exceptions=True)
                for log, ticket in tickets:
                    log.finish_flush(ticket)
