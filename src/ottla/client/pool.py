"""The connections of one thread, by broker: opened when needed, dropped when broken.

    pool = ConnectionPool(config, metadata)
    pool.to(metadata.leader("orders", 0).node.broker_id).call(...)
    pool.to_coordinator("billing").call(...)       # pool.forget_coordinator("billing") on NOT_COORDINATOR

A broker answers in order, so a call waits behind a long poll on the same connection. A thread with fetches in
flight therefore uses another pool for its other requests.
"""

from __future__ import annotations

import logging
import math
import random

from ottla.client.attempts import attempts, telling
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Clock, Deadline
from ottla.client.connection import Connection
from ottla.client.coordinators import CoordinatorKind, find_coordinator
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.reactions import Action, Call, action_about
from ottla.client.retry import Backoff
from ottla.client.setbacks import Setbacks
from ottla.model.closing import Closing
from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import BrokerUnreachable, ConnectionLost, OttlaError, RequestTimedOut
from ottla.wire.frames import Allocator

log = logging.getLogger(__name__)


class ConnectionPool(Closing):
    """Belongs to one thread; others may only call `interrupt`."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: ClusterMetadata,
        *,
        clock: Clock = MONOTONIC,
        allocate: Allocator = bytearray,
        interruption: Interruption | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._clock = clock
        self._allocate = allocate
        self._interruption = interruption or Interruption()
        self._owns_interruption = interruption is None
        self._chance = chance or random.Random()
        self._retrying = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._connections: dict[int, Connection] = {}
        reconnecting = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        self._setbacks = Setbacks(reconnecting, clock.now_ms, self._chance)
        self._coordinators: dict[tuple[CoordinatorKind, str], BrokerNode] = {}

    # --- brokers

    def to(self, broker_id: int, deadline: Deadline | None = None) -> Connection:
        """The connection to a broker; first waits until its pause after failures is over.

        Without a deadline each step has the time that the settings give it. Raises BrokerUnreachable (also
        if the cluster has no such broker), AuthenticationFailed.
        """
        return self._connected(self._node(broker_id, deadline), deadline)

    def pause_left_ms(self, broker_id: int) -> float:
        """How long `to` would wait before it connects."""
        return self._setbacks.left_ms(broker_id)

    def to_any(self, deadline: Deadline | None = None) -> Connection:
        """A connection to some broker: an open one if there is one, else the first that can be opened."""
        for connection in self._connections.values():
            if not connection.in_flight_count and connection.is_usable():
                return connection
        view = self._metadata.view
        if not view.brokers:
            view = self._metadata.refresh((), reason="no broker is known yet", deadline=deadline)
        nodes = list(view.brokers.values())
        self._chance.shuffle(nodes)
        nodes.sort(key=lambda node: self.pause_left_ms(node.broker_id))
        failures: list[str] = []
        for node in nodes:
            if failures and deadline is not None and deadline.passed:
                break
            try:
                return self._connected(node, deadline)
            except ConnectionLost as error:
                self._interruption.check()
                failures.append(f"{error}")
        # If the whole cluster has moved, only the bootstrap addresses lead to it.
        self._metadata.refresh(reason="no known broker can be reached", deadline=deadline)
        raise BrokerUnreachable(f"none of {len(nodes)} brokers can be reached: {'; '.join(failures)}")

    def to_controller(self) -> Connection:
        """The controller; any broker if they do not name one (before 0.10).

        After NOT_CONTROLLER, refresh the metadata and call this again.
        """
        view = self._metadata.view
        if view.controller is None:
            view = self._metadata.refresh((), reason="no controller is known")
        return self._connected(view.controller) if view.controller is not None else self.to_any()

    def drop(self, broker_id: int) -> None:
        """Close the connection to a broker, if there is one."""
        connection = self._connections.pop(broker_id, None)
        if connection is not None:
            connection.close()

    def _node(self, broker_id: int, deadline: Deadline | None) -> BrokerNode:
        node = self._metadata.view.brokers.get(broker_id)
        if node is None:
            view = self._metadata.refresh(reason=f"broker {broker_id} is not known", deadline=deadline)
            node = view.brokers.get(broker_id)
        if node is None:
            known = ", ".join(str(number) for number in sorted(view.brokers)) or "none"
            raise BrokerUnreachable(f"broker {broker_id} is not in the cluster at present; there are {known}")
        return node

    def _connected(self, node: BrokerNode, deadline: Deadline | None = None) -> Connection:
        connection = self._connections.get(node.broker_id)
        if connection is not None:
            if connection.address == node.address and connection.is_usable():
                return connection
            self.drop(node.broker_id)
        pause_ms = self.pause_left_ms(node.broker_id)
        if pause_ms:
            pause_ms = pause_ms if deadline is None else deadline.capped_ms(pause_ms)
            self._clock.pause(pause_ms, self._interruption.event)
        try:
            connection = self._connections[node.broker_id] = Connection.open(
                node.address,
                self._config,
                broker_id=node.broker_id,
                allocate=self._allocate,
                interruption=self._interruption,
                clock=self._clock,
                memory=self._metadata.memory,
                errors=self._metadata.errors,
                deadline=None if deadline is None else deadline.for_try(math.inf),
            )
        except OttlaError:
            self._setbacks.failed(node.broker_id)
            raise
        self._setbacks.reached(node.broker_id)
        return connection

    # --- coordinators

    def to_coordinator(
        self, key: str, deadline: Deadline | None = None, *, kind: CoordinatorKind = CoordinatorKind.GROUP
    ) -> Connection:
        """The broker that coordinates a group; looks it up, and waits for it until the deadline.

        The default deadline is request.timeout.ms from now. Raises KafkaError with the last error,
        BrokerUnreachable, LocalProtocolError (before 0.8.2).
        """
        deadline = deadline or Deadline(self._clock, self._config.request_timeout_ms)
        failure: OttlaError | None = None
        for _ in attempts(self._retrying, deadline, self._chance, self._interruption):
            try:
                return self._connected(self._coordinator(key, kind, deadline), deadline)
            except OttlaError as error:
                if action_about(error, Call.FIND_COORDINATOR) is Action.FAIL or self._interruption.is_set:
                    raise
                self.forget_coordinator(key, kind=kind)  # if it is down, another broker may take over
                failure = telling(failure, error, deadline)
        assert failure is not None
        raise failure

    def coordinator(
        self, key: str, deadline: Deadline | None = None, *, kind: CoordinatorKind = CoordinatorKind.GROUP
    ) -> BrokerNode:
        """The broker that coordinates a group; it can be reached. As `to_coordinator`."""
        self.to_coordinator(key, deadline, kind=kind)
        return self._coordinators[kind, key]

    def forget_coordinator(self, key: str, *, kind: CoordinatorKind = CoordinatorKind.GROUP) -> None:
        """Look it up again next time: after NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, a lost connection."""
        self._coordinators.pop((kind, key), None)

    def _coordinator(self, key: str, kind: CoordinatorKind, deadline: Deadline) -> BrokerNode:
        known = self._coordinators.get((kind, key))
        if known is None:
            connection = self.to_any(deadline)
            try:
                timeout_ms = deadline.for_try(self._config.request_timeout_ms).timeout_ms
                known = find_coordinator(connection, key, kind, timeout_ms)
            except RequestTimedOut:
                if connection.broker_id is not None:
                    self._setbacks.failed(connection.broker_id)  # it is stuck: try others first
                raise
            self._coordinators[kind, key] = known
            log.info("%s %r is coordinated by broker %d", kind.name.lower(), key, known.broker_id)
        return known

    # --- the end

    def interrupt(self) -> None:
        """From any thread: the owner, if it waits, gets ConnectionLost at once.

        If it waits for metadata, only `ClusterMetadata.interrupt` ends that.
        """
        self._interruption.interrupt()

    def close(self) -> None:
        """Close all connections. May be called twice."""
        for broker_id in list(self._connections):
            self.drop(broker_id)
        if self._owns_interruption:
            self._interruption.close()
