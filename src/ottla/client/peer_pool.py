"""The connections of a client, by broker: opened when needed, dropped when broken. Both drivers use it.

A broker answers in order, so a call waits behind a long poll on the same connection: fetches and joins have
connections of their own.
"""

from __future__ import annotations

import abc
import logging
import random
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

from ottla.client.attempts import error_to_raise
from ottla.client.client_config import ClientConfig
from ottla.client.clock import Clock, Deadline
from ottla.client.conversation import Metadata, Peer, Tries, Waits
from ottla.client.coordinators import CoordinatorKind, coordinator_of, coordinator_request
from ottla.client.reactions import Action, Call, action_about
from ottla.client.reconnect_pauses import ReconnectPauses
from ottla.client.retry import Backoff
from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import BrokerUnreachable, ConnectionLost, OttlaError, RequestTimedOut
from ottla.wire.api.find_coordinator import FindCoordinatorRequest

log = logging.getLogger(__name__)

P = TypeVar("P", bound=Peer)


class Driver(Protocol):
    """How one driver (threads or asyncio) waits, and how it reaches brokers."""

    @property
    def clock(self) -> Clock:
        """The clock."""

    @property
    def waits(self) -> Waits:
        """How this driver waits."""

    def metadata(self, config: ClientConfig) -> Metadata:
        """Return new metadata, which has sent no request yet."""

    def peers(self, config: ClientConfig, metadata: Any) -> PeerPool[Any]:
        """Return a new pool that uses this metadata; no connection is open yet."""


class PeerPool(abc.ABC, Generic[P]):
    """At most one connection to each broker."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: Metadata,
        waits: Waits,
        clock: Clock,
        chance: random.Random | None = None,
    ) -> None:
        self.waits = waits
        self._config = config
        self._metadata = metadata
        self._clock = clock
        self._chance = chance or random.Random()
        self._retrying = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        reconnecting = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        self._pauses = ReconnectPauses(reconnecting, clock.now_ms, self._chance)
        self._connections: dict[int, P] = {}
        self._opening: dict[int, AbstractAsyncContextManager[Any]] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], BrokerNode] = {}

    @abc.abstractmethod
    async def _open(self, node: BrokerNode, deadline: Deadline | None) -> P:
        """Open a new connection. Raises BrokerUnreachable, AuthenticationFailed."""

    # --- brokers

    async def to(self, broker_id: int, deadline: Deadline | None = None) -> P:
        """Return the connection to a broker. After failures, first waits until the pause is over.

        Without a deadline each step has the time that the settings give it. Raises BrokerUnreachable (also
        if the cluster has no such broker), AuthenticationFailed.
        """
        view = self._metadata.view
        if broker_id not in view.brokers:
            view = await self._metadata.refresh(reason=f"broker {broker_id} is not known", deadline=deadline)
        node = view.brokers.get(broker_id)
        if node is None:
            known = ", ".join(str(number) for number in sorted(view.brokers)) or "none"
            raise BrokerUnreachable(f"broker {broker_id} is not in the cluster at present; there are {known}")
        return await self._connected(node, deadline)

    def pause_left_ms(self, broker_id: int) -> float:
        """Return how long `to` would wait before it connects."""
        return self._pauses.left_ms(broker_id)

    async def to_any(self, deadline: Deadline | None = None) -> P:
        """Return an open connection to any broker if there is one, else the first that can be opened."""
        for connection in self._connections.values():
            if not connection.in_flight_count and connection.is_usable():
                return connection
        view = self._metadata.view
        if not view.brokers:
            view = await self._metadata.refresh((), reason="no broker is known yet", deadline=deadline)
        nodes = list(view.brokers.values())
        self._chance.shuffle(nodes)
        nodes.sort(key=lambda node: self.pause_left_ms(node.broker_id))
        failures: list[str] = []
        for node in nodes:
            if failures and deadline is not None and deadline.passed:
                break
            try:
                return await self._connected(node, deadline)
            except ConnectionLost as error:
                if self.waits.is_over:
                    raise
                failures.append(f"{error}")
        # If the whole cluster has moved, only the bootstrap addresses lead to it.
        await self._metadata.refresh(reason="no known broker can be reached", deadline=deadline)
        raise BrokerUnreachable(f"none of {len(nodes)} brokers can be reached: {'; '.join(failures)}")

    async def to_controller(self) -> P:
        """Return a connection to the controller; to any broker if they name none (before 0.10).

        After NOT_CONTROLLER, refresh the metadata and call this again.
        """
        view = self._metadata.view
        if view.controller is None:
            view = await self._metadata.refresh((), reason="no controller is known")
        if view.controller is None:
            return await self.to_any()
        return await self._connected(view.controller, None)

    async def drop(self, broker_id: int) -> None:
        """Close the connection to a broker, if there is one."""
        connection = self._connections.pop(broker_id, None)
        if connection is not None:
            await connection.close()

    async def _replace(self, broker_id: int) -> None:
        """Drop a connection that cannot be used for new calls. The next call opens another one."""
        await self.drop(broker_id)

    async def _connected(self, node: BrokerNode, deadline: Deadline | None) -> P:
        if node.broker_id not in self._opening:
            self._opening[node.broker_id] = self.waits.lock()
        async with self._opening[node.broker_id]:
            connection = self._connections.get(node.broker_id)
            if connection is not None:
                if connection.address == node.address and connection.is_usable():
                    return connection
                await self._replace(node.broker_id)
            pause_ms = self.pause_left_ms(node.broker_id)
            if pause_ms:
                await self.waits.pause(pause_ms if deadline is None else deadline.capped_ms(pause_ms))
            try:
                connection = self._connections[node.broker_id] = await self._open(node, deadline)
            except OttlaError:
                self._pauses.failed(node.broker_id)
                raise
            self._pauses.reached(node.broker_id)
            return connection

    # --- coordinators

    async def to_coordinator(
        self, key: str, deadline: Deadline | None = None, *, kind: CoordinatorKind = CoordinatorKind.GROUP
    ) -> P:
        """Return a connection to the coordinator of a group; looks it up, and waits for it until the
        deadline.

        The default deadline is request.timeout.ms from now. Raises KafkaError with the last error,
        BrokerUnreachable, LocalProtocolError (before 0.8.2).
        """
        deadline = deadline or Deadline(self._clock, self._config.request_timeout_ms)
        failure: OttlaError | None = None
        tries = Tries(self._retrying, deadline, self._chance, self.waits)
        while await tries.next():
            try:
                return await self._connected(await self._coordinator(key, kind, deadline), deadline)
            except OttlaError as error:
                is_interrupted = self.waits.is_over and isinstance(error, ConnectionLost)
                if is_interrupted or action_about(error, Call.FIND_COORDINATOR) is Action.FAIL:
                    raise
                self.forget_coordinator(key, kind=kind)  # if it is down, another broker may take over
                failure = error_to_raise(failure, error, deadline)
        assert failure is not None
        raise failure

    async def coordinator(
        self, key: str, deadline: Deadline | None = None, *, kind: CoordinatorKind = CoordinatorKind.GROUP
    ) -> BrokerNode:
        """Return the broker that coordinates a group, once it can be reached. As `to_coordinator`."""
        await self.to_coordinator(key, deadline, kind=kind)
        return self._coordinators[kind, key]

    def forget_coordinator(self, key: str, *, kind: CoordinatorKind = CoordinatorKind.GROUP) -> None:
        """Look the coordinator up again next time: after NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, a lost
        connection.
        """
        self._coordinators.pop((kind, key), None)

    async def _coordinator(self, key: str, kind: CoordinatorKind, deadline: Deadline) -> BrokerNode:
        known = self._coordinators.get((kind, key))
        if known is None:
            connection = await self.to_any(deadline)
            try:
                timeout_ms = deadline.for_try(self._config.request_timeout_ms).timeout_ms
                version = connection.version_for(FindCoordinatorRequest.API)
                request = coordinator_request(key, kind, version)
                answer = await connection.call(request, version=version, timeout_ms=timeout_ms)
            except RequestTimedOut:
                if connection.broker_id is not None:
                    self._pauses.failed(connection.broker_id)  # the broker is stuck: try others first
                raise
            known = self._coordinators[kind, key] = coordinator_of(answer, key, kind, version)
            log.info("%s %r is coordinated by broker %d", kind.name.lower(), key, known.broker_id)
        return known

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        for broker_id in list(self._connections):
            await self.drop(broker_id)
