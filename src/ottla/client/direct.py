"""The blocking implementation of `conversation`: connections, metadata and waits of a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from ottla.client.clock import Clock, Deadline
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.network_errors import NetworkErrors
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.cluster_view import ClusterView, PartitionLeader
from ottla.wire.schema import Api, Request, Response
from ottla.wire.versions import PeerVersions

T = TypeVar("T")
R = TypeVar("R", bound=Response)


class DirectPeer:
    """A blocking connection."""

    __slots__ = ("connection",)

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @property
    def address(self) -> Address:
        """The broker's address."""
        return self.connection.address

    @property
    def broker_id(self) -> int | None:
        """The broker's id; None if it is not known."""
        return self.connection.broker_id

    @property
    def in_flight_count(self) -> int:
        """Number of requests whose answers have not come."""
        return self.connection.in_flight_count

    @property
    def versions(self) -> PeerVersions:
        """The versions that the broker speaks."""
        return self.connection.versions

    def is_usable(self) -> bool:
        """Whether it is open and the login is valid."""
        return self.connection.is_usable()

    def version_for(self, api: Api, *, at_most: int | None = None) -> int:
        """The version in which an API is called. Raises LocalProtocolError if there is none in common."""
        return self.connection.version_for(api, at_most=at_most)

    async def call(
        self,
        request: Request[R],
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Send a request and wait for the response."""
        return self.connection.call(request, version=version, at_most=at_most, timeout_ms=timeout_ms)

    async def close(self) -> None:
        """Close the connection. May be called twice."""
        self.connection.close()


class DirectMetadata:
    """The metadata of one thread, or shared by several."""

    __slots__ = ("metadata",)

    def __init__(self, metadata: ClusterMetadata) -> None:
        self.metadata = metadata

    @property
    def memory(self) -> VersionMemory:
        """The versions of brokers."""
        return self.metadata.memory

    @property
    def errors(self) -> NetworkErrors:
        """Why brokers do not answer."""
        return self.metadata.errors

    @property
    def view(self) -> ClusterView:
        """The current view; sends nothing."""
        return self.metadata.view

    async def refresh(
        self, topics: Iterable[str] | None = None, *, reason: str = "", deadline: Deadline | None = None
    ) -> ClusterView:
        """Ask a broker now; with `topics=None` for all topics that were requested before."""
        return self.metadata.refresh(topics, reason=reason, deadline=deadline)

    async def refresh_all(self, *, reason: str = "", deadline: Deadline | None = None) -> ClusterView:
        """Ask a broker for every topic."""
        return self.metadata.refresh_all(reason=reason, deadline=deadline)

    async def leader(self, topic: str, partition: int, deadline: Deadline | None = None) -> PartitionLeader:
        """The leader of a partition; waits while one is elected."""
        return self.metadata.leader(topic, partition, deadline)

    def invalidate(self, topic: str, partition: int) -> None:
        """Note that the known leader is wrong."""
        self.metadata.invalidate(topic, partition)

    async def close(self) -> None:
        """Close the connection."""
        self.metadata.close()


class ThreadLock:
    """A lock of threads, in the form that conversations take."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()


class ThreadWaits:
    """Waits that an interruption ends."""

    def __init__(self, clock: Clock, interruption: Interruption | None = None) -> None:
        self._clock = clock
        self._interruption = interruption

    @property
    def is_over(self) -> bool:
        """Whether the client is being closed: nothing is tried again."""
        return self._interruption is not None and self._interruption.is_set

    async def pause(self, duration_ms: float) -> None:
        """Wait for `duration_ms`. Raises ConnectionLost if the client is being closed."""
        interruption = self._interruption
        self._clock.pause(duration_ms, interruption.event if interruption is not None else None)
        if interruption is not None:
            interruption.check()

    def lock(self) -> ThreadLock:
        """Return a new lock; its owner must not take it twice."""
        return ThreadLock()

    async def computed(self, work: Callable[[], T], nbytes: int) -> T:  # noqa: ARG002
        """Return the result of `work`."""
        return work()

    async def blocking(self, work: Callable[[], T]) -> T:
        """Return the result of `work`."""
        return work()

    async def whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end."""
        return await work
