"""The connections of one thread, by broker: opened when needed, dropped when broken.

    pool = ConnectionPool(config, metadata)
    pool.to(metadata.leader("orders", 0).node.broker_id).call(...)
    pool.to_coordinator("billing").call(...)       # pool.forget_coordinator("billing") on NOT_COORDINATOR

`PeerPool` decides; conversations use it directly, as `peers`.
"""

from __future__ import annotations

import math
import random

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Clock, Deadline
from ottla.client.connection import Connection
from ottla.client.conversation import completed
from ottla.client.coordinators import CoordinatorKind
from ottla.client.direct import DirectMetadata, DirectPeer, ThreadWaits
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.peer_pool import PeerPool
from ottla.model.closing import Closing
from ottla.model.cluster_view import BrokerNode
from ottla.wire.frames import Allocator


class DirectPeers(PeerPool[DirectPeer]):
    """The PeerPool of a thread."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: ClusterMetadata,
        clock: Clock,
        allocate: Allocator,
        interruption: Interruption,
        chance: random.Random | None = None,
        *,
        owns_interruption: bool = False,
    ) -> None:
        super().__init__(config, DirectMetadata(metadata), ThreadWaits(clock, interruption), clock, chance)
        self._allocate = allocate
        self._interruption = interruption
        self._owns_interruption = owns_interruption

    async def _open(self, node: BrokerNode, deadline: Deadline | None) -> DirectPeer:
        connection = Connection.open(
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
        return DirectPeer(connection)

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        await super().close()
        if self._owns_interruption:
            self._interruption.close()


class ThreadDriver:
    """Blocking waits, metadata and connections, for conversations of a thread."""

    def __init__(self, clock: Clock = MONOTONIC) -> None:
        self.clock = clock
        self.waits = ThreadWaits(clock)

    def metadata(self, config: ClientConfig) -> DirectMetadata:
        """Return new metadata, which has sent no request yet."""
        return DirectMetadata(ClusterMetadata(config, self.clock))

    def peers(self, config: ClientConfig, metadata: DirectMetadata) -> DirectPeers:
        """Return a new pool that uses this metadata; no connection is open yet."""
        interruption = Interruption()
        return DirectPeers(
            config, metadata.metadata, self.clock, bytearray, interruption, owns_interruption=True
        )


class ConnectionPool(Closing):
    """Belongs to one thread; others may only call `interrupt`. Methods are those of PeerPool, and block."""

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
        self._interruption = interruption or Interruption()
        self.peers = DirectPeers(
            config,
            metadata,
            clock,
            allocate,
            self._interruption,
            chance,
            owns_interruption=interruption is None,
        )

    def to(self, broker_id: int, deadline: Deadline | None = None) -> Connection:
        """Return the connection to a broker. After failures, first waits until the pause is over.

        Without a deadline each step has the time that the settings give it. Raises BrokerUnreachable (also
        if the cluster has no such broker), AuthenticationFailed.
        """
        return completed(self.peers.to(broker_id, deadline)).connection

    def pause_left_ms(self, broker_id: int) -> float:
        """Return how long `to` would wait before it connects."""
        return self.peers.pause_left_ms(broker_id)

    def to_any(self, deadline: Deadline | None = None) -> Connection:
        """Return an open connection to any broker if there is one, else the first that can be opened."""
        return completed(self.peers.to_any(deadline)).connection

    def to_controller(self) -> Connection:
        """Return a connection to the controller; to any broker if they name none (before 0.10).

        After NOT_CONTROLLER, refresh the metadata and call this again.
        """
        return completed(self.peers.to_controller()).connection

    def drop(self, broker_id: int) -> None:
        """Close the connection to a broker, if there is one."""
        completed(self.peers.drop(broker_id))

    def to_coordinator(
        self, key: str, deadline: Deadline | None = None, *, kind: CoordinatorKind = CoordinatorKind.GROUP
    ) -> Connection:
        """Return a connection to the coordinator of a group; looks it up, and waits for it until the
        deadline.

        The default deadline is request.timeout.ms from now. Raises KafkaError with the last error,
        BrokerUnreachable, LocalProtocolError (before 0.8.2).
        """
        return completed(self.peers.to_coordinator(key, deadline, kind=kind)).connection

    def coordinator(
        self, key: str, deadline: Deadline | None = None, *, kind: CoordinatorKind = CoordinatorKind.GROUP
    ) -> BrokerNode:
        """Return the broker that coordinates a group, once it can be reached. As `to_coordinator`."""
        return completed(self.peers.coordinator(key, deadline, kind=kind))

    def forget_coordinator(self, key: str, *, kind: CoordinatorKind = CoordinatorKind.GROUP) -> None:
        """Look the coordinator up again next time: after NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, a lost
        connection.
        """
        self.peers.forget_coordinator(key, kind=kind)

    def interrupt(self) -> None:
        """Make the owner, if it waits, raise ConnectionLost at once. From any thread.

        If it waits for metadata, only `ClusterMetadata.interrupt` ends that.
        """
        self._interruption.interrupt()

    def close(self) -> None:
        """Close all connections. May be called twice."""
        completed(self.peers.close())
