"""Virtual time, a network with a latency, and what has travelled over it."""

from __future__ import annotations

import heapq
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from ottla.wire.schema import ProtocolMessage, encode

START_MS = 1_000_000.0
TOPIC = "t"


@dataclass
class Traffic:
    """Requests to a coordinator, or operations on ZooKeeper, and bytes in both directions.

    `bytes`: of messages, without what frames them.
    """

    operations: int = 0
    bytes: int = 0


class Timeline:
    """One event at a time. `latency_ms` is a round trip: half of it there, half of it back."""

    def __init__(self, seed: int, latency_ms: float) -> None:
        self.random = random.Random(seed)
        self.latency_ms = latency_ms
        self.now_ms = START_MS
        self.traffic = Traffic()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, at_ms: float, action: Callable[[], None]) -> None:
        """Let something happen then, or now if that is over."""
        self._count += 1
        heapq.heappush(self._events, (max(at_ms, self.now_ms), self._count, action))

    def travel(self, action: Callable[[], None]) -> None:
        """Let something happen when a message has arrived at the other side."""
        self.at(self.now_ms + self.latency_ms / 2, action)

    def run(self, until_ms: float, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Go on until then, or until it is over. Return whether it is."""
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()
            if is_over():
                return True
        self.now_ms = until_ms
        return is_over()


class Group(ABC):
    """A group of one kind that reads one topic, and whoever coordinates it."""

    def __init__(self, timeline: Timeline, partitions: int) -> None:
        self.timeline = timeline
        self.partitions = partitions

    @abstractmethod
    def join(self) -> None:
        """Let one more member begin."""

    @abstractmethod
    def leave(self) -> None:
        """Let a member leave in good order."""

    @abstractmethod
    def is_settled(self) -> bool:
        """Whether every member knows its partitions, and each partition has its reader."""


def message_bytes(message: ProtocolMessage, version: int) -> int:
    """The size of a message."""
    return sum(map(len, encode(message, version)))
