"""One broker of the process: an id, a listening socket, its connections, and the groups it coordinates."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from ottla.broker.cluster import Cluster
from ottla.broker.connection import Connection
from ottla.broker.faults import Faults
from ottla.broker.group_service import GroupService
from ottla.broker.serving import handlers
from ottla.model.errors import ConfigError, OttlaError
from ottla.wire.server_connection import ServedApis

log = logging.getLogger(__name__)

BACKLOG = 1024
CLOSE_S = 0.5
"""How long peers may take their last answers when the broker stops; who does not read is cut."""


class Node:
    """Made, then started; stopped, it may be started again on the same port."""

    def __init__(self, cluster: Cluster, broker_id: int, port: int, faults: Faults) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.port = port
        self.handlers = handlers()
        zookeeper = bool(cluster.config.zookeeper_connect)
        self.served = ServedApis(
            {key: handler.served(zookeeper=zookeeper) for key, handler in self.handlers.items()}
        )
        self.groups = GroupService(self)
        self.faults = faults
        self.counts: Counter[int] = Counter()  # of calls, by API key
        self.bytes_in = 0
        self.bytes_out = 0
        self.faults_seen = 0
        self.refused_count = 0
        self.connections: set[Connection] = set()
        self._hosts: Counter[str] = Counter()  # of connections, by the peer's address
        self.queued_bytes = 0  # of requests that were received and not answered yet
        self.is_flooded = False  # queued_bytes were above their limit, and are not far below it yet
        self._all_gone = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._idle_check: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""
        return self._server is not None

    @property
    def host(self) -> str:
        """The address that clients are told."""
        return self.cluster.config.advertised_host or self.cluster.config.host

    @property
    def advertised_port(self) -> int:
        """The port that clients are told."""
        return self.cluster.config.advertised_port or self.port

    async def start(self) -> None:
        """Come up alone, beside nodes that run."""
        await self.listen()
        self.cluster.join([self])
        await self.serve()

    async def listen(self) -> None:
        """Take the port; clients come with `serve`."""
        host = self.cluster.config.host
        try:
            self._server = await self.cluster.loop.create_server(
                lambda: Connection(self), host, self.port, backlog=BACKLOG, start_serving=False
            )
        except OSError as error:
            raise ConfigError(
                f"broker {self.broker_id} cannot listen on {host}:{self.port}: {error}"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def serve(self) -> None:
        """Serve clients; the cluster knows the node now, so nobody is told of leaders that are not there."""
        assert self._server is not None
        await self._server.start_serving()
        self._watch_idle()

    async def stop(self) -> None:
        """Hand over what this node leads, close the connections, stop listening."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        self.cluster.leave(self)
        await self.cluster.turn.drain()
        if self._idle_check is not None:
            self._idle_check.cancel()
        await self._part()

    async def _part(self) -> None:
        """Close all connections, and wait until they are: the loop may end right after."""
        for connection in list(self.connections):
            connection.close()
        try:
            await asyncio.wait_for(self._wait_until_alone(), CLOSE_S)
        except TimeoutError:
            self.cut()
            await self._wait_until_alone()

    async def _wait_until_alone(self) -> None:
        while self.connections:
            self._all_gone.clear()
            await self._all_gone.wait()

    def cut(self) -> None:
        """Cut all connections at once, as a killed process would."""
        for connection in list(self.connections):
            connection.abort()

    # --- connections

    def admit(self, connection: Connection) -> None:
        """A connection was made; it is refused above the limits, by closing it as Kafka does."""
        config = self.cluster.config
        of_host = self._hosts[connection.peer_host]
        if len(self.connections) >= config.connections_max or of_host >= config.connections_per_ip_max:
            self.refused_count += 1
            log.warning("refused a connection from %s: the limit is reached", connection.peer_host)
            connection.abort()
            return
        self.connections.add(connection)
        self._hosts[connection.peer_host] += 1

    def forget(self, connection: Connection) -> None:
        """A connection is gone, or one that was never admitted."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        self._hosts[connection.peer_host] -= 1
        if not self._hosts[connection.peer_host]:
            del self._hosts[connection.peer_host]
        if not self.connections:
            self._all_gone.set()

    def hold(self, change: int) -> None:
        """So many more bytes of requests wait for their answers, or fewer: nobody is read from above a limit.

        It goes on at half of it, since stopping and going on costs a step for every connection.
        """
        self.queued_bytes += change
        limit = self.cluster.config.queued_bytes_max
        is_flooded = self.queued_bytes > (limit // 2 if self.is_flooded else limit)
        if is_flooded != self.is_flooded:
            self.is_flooded = is_flooded
            for connection in self.connections:
                connection.update_reading()

    def note_fault(self, peer_host: str, error: OttlaError) -> None:
        """A peer broke the protocol, or asked for what is not served."""
        self.faults_seen += 1
        log.warning("closing the connection from %s: %s", peer_host, error)

    def _watch_idle(self) -> None:
        limit = self.cluster.config.connections_idle_ms / 1000
        if limit <= 0:
            return
        oldest = self.cluster.loop.time() - limit
        for connection in [one for one in self.connections if one.last_active < oldest]:
            connection.expire()
        self._idle_check = self.cluster.loop.call_later(max(limit / 4, 0.05), self._watch_idle)
