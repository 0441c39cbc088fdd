"""What all threads of a client know of the cluster: one current ClusterView, replaced and never edited.

Threads that ask for a refresh while one is under way share the next one: an answer that was under way when a
thread found its leader gone may be older than that.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from ottla.client.clock import MONOTONIC, Clock, Deadline
from ottla.client.config import ClientConfig
from ottla.model.cluster_view import (
    BrokerNode,
    ClusterView,
    LeaderHint,
    PartitionLeader,
    PartitionView,
    TopicView,
)


class ClusterMetadata:
    """Thread-safe. Opens its connection at the first need, keeps it, and closes it in `close`."""

    def __init__(
        self, config: ClientConfig, clock: Clock = MONOTONIC, *, chance: random.Random | None = None
    ) -> None:
        raise NotImplementedError

    @property
    def view(self) -> ClusterView:
        """What is known now; asks nobody."""
        raise NotImplementedError

    def refresh(self, topics: Iterable[str] | None = None, *, reason: str = "") -> ClusterView:
        """Ask a broker, now; None is for all topics that were asked for before.

        Tries every broker that is known and the bootstrap addresses, once each. Raises BrokerUnreachable if
        none answers, AuthenticationFailed, KafkaError.
        """
        raise NotImplementedError

    def refresh_all(self, *, reason: str = "") -> ClusterView:
        """Ask for every topic that there is; the view is whole then."""
        raise NotImplementedError

    def refresh_if_old(self) -> None:
        """Refresh what is older than metadata.max.age.ms; a failure is logged, and what is known stays."""
        raise NotImplementedError

    def topic(self, name: str, deadline: Deadline | None = None) -> TopicView:
        """A topic without an error, refreshed and waited for until the deadline.

        Without a deadline it is request.timeout.ms from now. Raises KafkaError with the last error, or what
        `refresh` raises.
        """
        raise NotImplementedError

    def partitions(self, topic: str, deadline: Deadline | None = None) -> tuple[PartitionView, ...]:
        """The partitions of a topic; as `topic`."""
        raise NotImplementedError

    def leader(self, topic: str, partition: int, deadline: Deadline | None = None) -> PartitionLeader:
        """Who leads a partition, through elections and topics that are only being made; as `topic`."""
        raise NotImplementedError

    def invalidate(self, topic: str, partition: int) -> None:
        """This leader is not right (any more): the next `leader` asks first."""
        raise NotImplementedError

    def learn(self, hints: Iterable[LeaderHint], nodes: Iterable[BrokerNode] = ()) -> ClusterView:
        """Take over the leaders that a Fetch or Produce answer tells (KIP-951), where they are newer."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """From any thread: who waits in here gets ConnectionLost. For a close that waits for nobody."""
        raise NotImplementedError

    def close(self) -> None:
        """End the connection. May be called twice."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
