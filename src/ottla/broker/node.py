"""One broker of the process: an id, its listeners, its connections, and what it coordinates."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial

from ottla.broker.cluster import Cluster
from ottla.broker.groups.group_service import GroupService
from ottla.broker.handlers.registry import handler, served_versions
from ottla.broker.security.listener_security import ListenerSecurity
from ottla.broker.serving.client_quotas import ClientQuotas
from ottla.broker.serving.connection import BrokerConnection
from ottla.broker.serving.connection_context import ConnectionContext
from ottla.broker.serving.faults import FaultRules
from ottla.broker.serving.fetch_sessions import FetchSessions
from ottla.broker.serving.served_broker import ServedBroker
from ottla.broker.serving.tls_listener import TlsListener, bound_sockets
from ottla.broker.serving.traffic import Traffic
from ottla.broker.storage.appending import Appender
from ottla.broker.transactions.transaction_service import TransactionService
from ottla.model.address import Address
from ottla.model.listening import cannot_listen
from ottla.wire.server_connection import ServedApis

BACKLOG = 1024
CLOSE_S = 0.5
"""How long peers may take their last answers when the broker stops; connections of slower peers are cut."""
IDLE_CHECK_S_MIN = 0.05
SESSION_ID_MAX = 2**31 - 1


class Node:
    """Made, then started; after a stop it may be started again on the same ports, one for each listener."""

    def __init__(self, cluster: Cluster, broker_id: int, ports: Sequence[int], faults: FaultRules) -> None:
        store, runtime = cluster.store, cluster.runtime
        self.broker_id = broker_id
        self.ports = list(ports)
        appender = Appender(broker_id, store, cluster.leaders, runtime, cluster.producer_memory)
        self.groups = GroupService(broker_id, store, runtime, cluster.memory.groups, appender)
        self.transactions = TransactionService(broker_id, store, runtime, cluster.transactions)
        cluster.transactions.services[broker_id] = self.transactions
        cluster.transactions.appenders[broker_id] = appender
        quotas = ClientQuotas(cluster.quota_limits)
        self.traffic = Traffic(store, cluster.memory, quotas)
        self.broker = ServedBroker(
            broker_id=broker_id,
            runtime=runtime,
            store=store,
            leaders=cluster.leaders,
            topics=cluster.topics,
            settings=cluster.settings,
            appender=appender,
            groups=self.groups,
            transactions=cluster.transactions,
            coordinated=self.transactions,
            scram_users=cluster.scram_users,
            load_shares=lambda: cluster.shares,
            sessions=FetchSessions(
                cluster.memory.sessions,
                lambda: random.randint(1, SESSION_ID_MAX),
                store.config.fetch_sessions_max,
            ),
            quotas=quotas,
            authorizer=cluster.authorizer,
            memory=cluster.memory,
            served=ServedApis(served_versions(zookeeper=bool(store.config.zookeeper_connect))),
        )
        self._users = cluster.scram_users
        self._faults = faults
        self._output = cluster.output
        self._store = store
        self._runtime = runtime
        self._leaders = cluster.leaders
        self._handshakes = cluster.handshakes
        self._servers: list[asyncio.Server | TlsListener] = []
        self._idle_check: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether clients can connect."""
        return bool(self._servers)

    @property
    def address(self) -> Address:
        """The address for clients of the first listener."""
        return self.address_at(0)

    def address_at(self, number: int) -> Address:
        """Return the address for clients of a listener."""
        config = self._store.config
        listener, port = config.listeners[number], self.ports[number]
        if listener.advertised_port:
            port = listener.advertised_port + self.broker_id - config.broker_id
        return Address(listener.advertised_host or listener.host, port)

    async def start(self) -> None:
        """Start alone, beside nodes that run. Raises ConfigError if the port cannot be taken."""
        await self.listen()
        self._leaders.join({self.broker_id: self.address})
        await self.serve()

    async def listen(self) -> None:
        """Take the ports; clients are served from `serve` on. Raises ConfigError."""
        for number, listener in enumerate(self._store.config.listeners):
            security = ListenerSecurity(listener, self._users.find, self._runtime.loop.time)
            context = ConnectionContext(
                self.broker, handler, self.traffic, self._faults, self._output, security
            )
            await self._listen(number, context)
            if number:
                self._leaders.advertise(listener.name, self.broker_id, self.address_at(number))

    async def _listen(self, number: int, context: ConnectionContext) -> None:
        listener, tls = context.security.listener, context.security.tls
        make_connection = partial(BrokerConnection, context)
        server: asyncio.Server | TlsListener
        try:
            if tls is not None:
                sockets = await bound_sockets(listener.host, self.ports[number])
                server = TlsListener(sockets, tls, make_connection, self._handshakes, BACKLOG)
            else:
                server = await self._runtime.loop.create_server(
                    make_connection, listener.host, self.ports[number], backlog=BACKLOG, start_serving=False
                )
        except OSError as error:
            broker = f"broker {self.broker_id}"
            raise cannot_listen(broker, listener.host, self.ports[number], error) from error
        self._servers.append(server)
        self.ports[number] = server.sockets[0].getsockname()[1]

    async def serve(self) -> None:
        """Serve clients.

        `Leaders` must know the node before, so that metadata never names leaders that are not up.
        """
        for server in self._servers:
            await server.start_serving()
        self._close_idle()

    async def stop(self) -> None:
        """Hand over what this node leads, close the connections, stop listening."""
        if not self._servers:
            return
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        self._leaders.leave(self.broker_id)
        await self._runtime.turn.drain()
        if self._idle_check is not None:
            self._idle_check.cancel()
        await self._close_connections()

    async def _close_connections(self) -> None:
        """Close all connections, and wait until they are closed: the loop may end right after."""
        for connection in list(self.traffic.connections):
            connection.close()
        try:
            await asyncio.wait_for(self.traffic.wait_until_gone(), CLOSE_S)
        except TimeoutError:
            self.cut()
            await self.traffic.wait_until_gone()

    def cut(self) -> None:
        """Cut all connections at once, as a killed process would."""
        for connection in list(self.traffic.connections):
            connection.abort()

    def _close_idle(self) -> None:
        limit_s = self._store.config.connections_idle_ms / 1000
        if limit_s <= 0:
            return
        oldest = self._runtime.loop.time() - limit_s
        idle = [connection for connection in self.traffic.connections if connection.last_active < oldest]
        for connection in idle:
            connection.expire()
        self._idle_check = self._runtime.loop.call_later(max(limit_s / 4, IDLE_CHECK_S_MIN), self._close_idle)
