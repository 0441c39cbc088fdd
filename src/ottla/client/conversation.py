"""Conversations with brokers, written once, as coroutines, for both drivers: threads and asyncio.

A loop awaits a conversation. A thread runs it with `completed`: each await blocks the thread, so that the
coroutine never has to be resumed. The protocols below are what a conversation needs; `direct` implements them
for threads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from ottla.client.clock import Deadline
from ottla.client.network_errors import NetworkErrors
from ottla.client.retry import Backoff
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.cluster_view import ClusterView, PartitionLeader
from ottla.wire.schema import Api, Request, Response
from ottla.wire.versions import PeerVersions

T = TypeVar("T")
R = TypeVar("R", bound=Response)


def completed(conversation: Coroutine[Any, Any, T]) -> T:
    """Run a conversation in this thread, and return its result."""
    try:
        conversation.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    conversation.close()
    raise RuntimeError(f"{conversation} waits for an event loop, and this is a thread")


class Peer(Protocol):
    """A connection to a broker."""

    @property
    def address(self) -> Address:
        """The broker's address."""

    @property
    def broker_id(self) -> int | None:
        """The broker's id; None if it is not known."""

    @property
    def in_flight_count(self) -> int:
        """Number of requests whose answers have not come."""

    @property
    def versions(self) -> PeerVersions:
        """The versions that the broker speaks."""

    def is_usable(self) -> bool:
        """Whether it is open and the login is valid."""

    def version_for(self, api: Api, *, at_most: int | None = None) -> int:
        """The version in which an API is called. Raises LocalProtocolError if there is none in common."""

    async def call(
        self,
        request: Request[R],
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Send a request and wait for the response."""

    async def close(self) -> None:
        """Close the connection. May be called twice."""


class Metadata(Protocol):
    """What is known about the cluster, and the requests for more."""

    @property
    def memory(self) -> VersionMemory:
        """The versions of brokers."""

    @property
    def errors(self) -> NetworkErrors:
        """Why brokers do not answer."""

    @property
    def view(self) -> ClusterView:
        """The current view; sends nothing."""

    async def refresh(
        self, topics: Iterable[str] | None = None, *, reason: str = "", deadline: Deadline | None = None
    ) -> ClusterView:
        """Ask a broker now; with `topics=None` for all topics that were requested before."""

    async def refresh_all(self, *, reason: str = "", deadline: Deadline | None = None) -> ClusterView:
        """Ask a broker for every topic."""

    async def leader(self, topic: str, partition: int, deadline: Deadline | None = None) -> PartitionLeader:
        """The leader of a partition; waits while one is elected."""

    def invalidate(self, topic: str, partition: int) -> None:
        """Note that the known leader is wrong."""

    async def close(self) -> None:
        """Close the connection."""


class Waits(Protocol):
    """How a driver waits."""

    @property
    def is_over(self) -> bool:
        """Whether the client is being closed: nothing is tried again."""

    async def pause(self, duration_ms: float) -> None:
        """Wait for `duration_ms`. Raises ConnectionLost if the client is being closed."""

    def lock(self) -> AbstractAsyncContextManager[Any]:
        """Return a new lock; its owner must not take it twice."""

    async def computed(self, work: Callable[[], T], nbytes: int) -> T:
        """Return the result of `work`, which handles `nbytes` bytes. A loop may run it in a thread
        meanwhile.
        """

    async def blocking(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which blocks. A loop runs it in a thread."""

    async def whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end: a cancellation of the caller takes effect afterwards."""


class Tries:
    """A loop that tries again, with pauses between the tries, until a deadline has passed.

    tries = Tries(backoff, deadline, chance, waits)
    while await tries.next():
        try once; return if it succeeded
    """

    def __init__(self, backoff: Backoff, deadline: Deadline, chance: random.Random, waits: Waits) -> None:
        self._backoff = backoff
        self._deadline = deadline
        self._chance = chance
        self._waits = waits
        self._count = 0

    async def next(self) -> bool:
        """Pause, except before the first try. Returns False if the deadline has passed and a try was made."""
        if self._count:
            if self._deadline.passed:
                return False
            await self._waits.pause(
                self._deadline.capped_ms(self._backoff.pause_ms(self._count, self._chance))
            )
        self._count += 1
        return True
