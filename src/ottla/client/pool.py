"""The connections of one thread, by broker: opened when they are needed, dropped when they broke.

pool = ConnectionPool(config, metadata)
pool.to(metadata.leader("orders", 0).node.broker_id).call(...)
pool.to_coordinator("billing").call(...)       # pool.forget_coordinator("billing") on NOT_COORDINATOR
"""

from __future__ import annotations

import random
from types import TracebackType
from typing import Self

from ottla.client.clock import MONOTONIC, Clock, Deadline
from ottla.client.config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.model.cluster_view import BrokerNode
from ottla.wire.frames import Allocator


class ConnectionPool:
    """Belongs to one thread; only `interrupt` may be called by others."""

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
        raise NotImplementedError

    def to(self, broker_id: int) -> Connection:
        """The connection to a broker; waits out what is left of its pause after failures.

        Raises BrokerUnreachable (also if the cluster has no such broker), AuthenticationFailed.
        """
        raise NotImplementedError

    def pause_left_ms(self, broker_id: int) -> float:
        """How long `to` would wait before it connects: for threads that have other things to do."""
        raise NotImplementedError

    def to_any(self) -> Connection:
        """A connection to some broker: an open one if there is, else whoever can be reached."""
        raise NotImplementedError

    def to_controller(self) -> Connection:
        """The broker that does the administration; any, where brokers do not tell (before 0.10)."""
        raise NotImplementedError

    def to_coordinator(self, group: str, deadline: Deadline | None = None) -> Connection:
        """The broker that coordinates a group; looked up at first, and waited for until the deadline.

        Raises KafkaError with the last error, BrokerUnreachable, LocalProtocolError (before 0.8.2).
        """
        raise NotImplementedError

    def coordinator(self, group: str, deadline: Deadline | None = None) -> BrokerNode:
        """Who that is."""
        raise NotImplementedError

    def forget_coordinator(self, group: str) -> None:
        """Look it up again next time: after NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, a lost connection."""
        raise NotImplementedError

    def drop(self, broker_id: int) -> None:
        """Close the connection to a broker, if there is one."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """From any thread: what the owner waits for ends with ConnectionLost, at once."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all connections. May be called twice."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
