"""KafkaOffsets: positions in `__consumer_offsets`, through the coordinator of the group.

Without a membership it commits like a consumer outside the group (generation -1). A coordinator allows that
only while the group has no members.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Clock
from ottla.client.conversation import completed
from ottla.client.direct import DirectMetadata
from ottla.client.interruption import Interruption, acquired
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.model.closing import Closing
from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import NO_MEMBERSHIP, Membership
from ottla.offsets.offset_calls import OffsetCalls

T = TypeVar("T")


@dataclass(slots=True)
class _Resources:
    """The parts that have to be closed; `metadata` only if it is not shared."""

    owner: str
    lock: threading.Lock
    interruption: Interruption
    pool: ConnectionPool
    metadata: ClusterMetadata | None
    is_used: bool = False

    def __enter__(self) -> None:
        """Begin a call."""

    def __exit__(self, *_: object) -> None:
        """End a call, under the lock. If the call took too long for `close`, it closes the
        connections here.
        """
        if self.interruption.is_set:
            self.release()

    def close(self) -> None:
        self.interruption.interrupt()
        if self.metadata is not None:
            self.metadata.interrupt()
        if acquired(self.lock, self.owner):
            self.release()
            self.lock.release()
        if self.metadata is not None:
            self.metadata.close()

    def release(self) -> None:
        """Close the connections, under the lock."""
        self.pool.close()
        self.interruption.close()


class KafkaOffsets(Closing):
    """Stores positions in Kafka. Connects with the first call; calls from several threads run in turn.

    >>> from ottla.client.client_config import ClientConfig
    >>> from ottla.offsets import KafkaOffsets
    >>> with KafkaOffsets(ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:9092"})) as store:
    ...     for topic_partition, position in store.fetch_all("billing").items():
    ...         print(topic_partition, position.offset)
    orders-0 1
    """

    def __init__(
        self,
        config: ClientConfig,
        metadata: ClusterMetadata | None = None,
        *,
        timeout: float | None = None,
        membership: Callable[[], Membership] = lambda: NO_MEMBERSHIP,
        clock: Clock = MONOTONIC,
    ) -> None:
        """`metadata` may be shared; then its owner closes it. `timeout` in seconds limits a call with all
        its retries; by default request.timeout.ms. `membership()` is the identity for each commit."""
        self._membership = membership
        self._address = ",".join(map(str, config.bootstrap))
        known = metadata or ClusterMetadata(config, clock)
        interruption = Interruption()
        self._lock = threading.Lock()  # a connection carries one call at a time
        pool = ConnectionPool(config, known, clock=clock, interruption=interruption)
        timeout_ms = None if timeout is None else timeout * 1000
        self._calls = OffsetCalls(config, DirectMetadata(known), pool.peers, clock, timeout_ms)
        resources = self._resources = _Resources(
            repr(self), self._lock, interruption, pool, known if metadata is None else None
        )
        self._forgotten = stop_if_forgotten(
            self, repr(self), resources.close, is_running=lambda: resources.is_used
        )

    def __repr__(self) -> str:
        return f"<KafkaOffsets at {self._address}>"

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return the stored positions; partitions without one are missing.

        Raises OffsetFetchFailed, or what connections raise if no coordinator answers in time.
        """
        return self._run(self._calls.fetch(group, partitions))

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return all stored positions of a group, sorted; empty if the coordinator does not know the group.

        Brokers before 0.10.2 cannot list them, so the position of every partition of the cluster is
        requested. Raises KafkaError, and what `fetch` raises.
        """
        return self._run(self._calls.fetch_all(group))

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store positions.

        Raises OffsetCommitFailed if some were refused; the others are stored. Raises what connections raise
        if no coordinator answers in time; then it is unknown what is stored, and the commit may be repeated.
        """
        self._run(self._calls.commit(group, offsets, self._membership))

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        self._resources.is_used = True
        with self._lock, self._resources:
            return completed(call)

    def close(self) -> None:
        """Close the connections; calls that wait raise ConnectionLost. May be called twice."""
        self._forgotten.detach()
        self._resources.close()
