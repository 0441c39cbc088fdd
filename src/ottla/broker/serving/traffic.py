"""All connections of one broker: how many are admitted, and how many bytes may wait unanswered."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Protocol

from ottla.broker.serving.client_quotas import ClientQuotas
from ottla.broker.serving.throttle import Throttle
from ottla.broker.storage.memory import STALLED_S, Holder, MemoryBudget
from ottla.broker.storage.topic_store import TopicStore
from ottla.model.errors import OttlaError

log = logging.getLogger(__name__)


class AdmittedConnection(Holder, Protocol):
    """A connection as `Traffic` and `Node` see it. `last_active` is the loop's time of its last byte."""

    last_active: float
    throttle: Throttle

    def close(self) -> None:
        """Close after what is ready has been written."""

    def expire(self) -> None:
        """Close after a long silence."""

    def update_reading(self) -> None:
        """Read from the peer, or stop, as things are now."""


class Traffic:
    """Counts and limits of one broker. Owned by the loop. The counters are read by `metrics`."""

    def __init__(self, store: TopicStore, memory: MemoryBudget, quotas: ClientQuotas) -> None:
        self._store = store
        self._memory = memory
        self.quotas = quotas
        self.calls: Counter[int] = Counter()  # by API key
        self.bytes_in = 0
        self.bytes_out = 0
        self.protocol_faults = 0
        self.refused_connections = 0
        self.connections: dict[AdmittedConnection, None] = {}  # the oldest first
        memory.connections.append(self.connections)
        self.is_flooded = False  # queued bytes were above their limit, and are not below half of it yet
        self.queued_bytes = 0  # of requests that were received and not answered yet
        self._hosts: Counter[str] = Counter()  # connections by the peer's address
        self._all_gone = asyncio.Event()

    def admit(self, connection: AdmittedConnection) -> None:
        """Accept a new connection, or cut it if a limit is reached, as Kafka does."""
        config = self._store.config
        of_host = self._hosts[connection.peer_host]
        if len(self.connections) >= config.connections_max or of_host >= config.connections_per_ip_max:
            self.refused_connections += 1
            log.warning("refused a connection from %s: the limit is reached", connection.peer_host)
            connection.abort()
            return
        self.connections[connection] = None
        self._hosts[connection.peer_host] += 1
        wait_ms = self.quotas.connected(connection.peer_host, asyncio.get_running_loop().time() * 1000)
        if wait_ms:
            # Kept for a while and closed then, as in Kafka: it would come again at once.
            connection.throttle.mute(wait_ms, connection.close)

    def forget(self, connection: AdmittedConnection) -> None:
        """Forget a connection that is gone, even one that was never accepted."""
        if connection not in self.connections:
            return
        del self.connections[connection]
        self._hosts[connection.peer_host] -= 1
        if not self._hosts[connection.peer_host]:
            del self._hosts[connection.peer_host]
        if not self.connections:
            self._all_gone.set()

    async def wait_until_gone(self) -> None:
        """Wait until there is no connection."""
        while self.connections:
            self._all_gone.clear()
            await self._all_gone.wait()

    def hold(self, change: int) -> None:
        """Add `change` to the bytes of unanswered requests. Above the limit large senders are not read.

        Reading starts again at half of the limit, since each stop and start costs a step for every
        connection. Requests that only came in part are never answered: if nothing else gets free in a while,
        the largest of them are cut.
        """
        self.queued_bytes += change
        requests = self._memory.requests
        requests.used += change
        is_flooded = requests.used > (requests.limit // 2 if self.is_flooded else requests.limit)
        if is_flooded != self.is_flooded:
            self.is_flooded = is_flooded
            for connection in self.connections:
                connection.update_reading()
            if is_flooded:
                asyncio.get_running_loop().call_later(STALLED_S, self._relieve)

    def _relieve(self) -> None:
        if self.is_flooded:
            self.hold(0)  # another broker of the process may have freed enough meanwhile
        if self.is_flooded:
            self._memory.free_requests()
            asyncio.get_running_loop().call_later(STALLED_S, self._relieve)

    def count_fault(self, peer_host: str, error: OttlaError) -> None:
        """Count and log an error of a peer: it broke the protocol, or used an API that is not served."""
        self.protocol_faults += 1
        log.warning("closing the connection from %s: %s", peer_host, error)
