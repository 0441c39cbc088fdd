"""What the producer knows about topics: how many partitions, which of them have a leader.

A topic is *known*; or *wanted*: the metadata thread has to ask the brokers about it; or *refused*: it cannot
be written to. User threads wait here for topics that they need.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple

from ottla.client import network_errors
from ottla.client.clock import SIGNAL_CHECK_S, Clock, Condition, Flag
from ottla.client.network_errors import NetworkErrors
from ottla.model.cluster_view import NO_LEADER, ClusterView
from ottla.model.errors import DeliveryExpired, OttlaError, ProducerClosed

NOW = 0.0


class KnownTopic(NamedTuple):
    """What partitioning needs. `available` are the partitions with a leader, or all if none has one."""

    partition_count: int
    available: tuple[int, ...]


class TopicDirectory:
    """Thread-safe. `patience_ms` is how long records wait until their topic is known."""

    def __init__(
        self,
        clock: Clock,
        patience_ms: float,
        errors: NetworkErrors,
        metadata_wanted: Flag,
        changed: Condition | None = None,
    ) -> None:
        """`changed` is notified of every change, in addition to the threads that wait."""
        self._clock = clock
        self._patience_ms = patience_ms
        self._errors = errors
        self._metadata_wanted = metadata_wanted
        # Locked directly, not through the condition: a Ctrl-C in the condition's code would keep it locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._watcher = changed
        self._known: dict[str, KnownTopic] = {}
        self._wanted: dict[str, float] = {}  # since when
        self._stale: dict[str, float] = {}  # known topics that may have more partitions by now: since when
        self._refreshed_ms: dict[str, float] = {}  # when the brokers were last asked
        self._refused: dict[str, OttlaError] = {}
        self._is_closed = False

    def _notify(self) -> None:
        self._changed.notify_all()
        if self._watcher is not None:
            self._watcher.notify_all()

    # ---- for threads that have records

    def known(self, topic: str) -> KnownTopic | None:
        """Return what is known about the topic. If nothing is, return None and have the brokers asked."""
        known = self._known.get(topic)
        if known is None:
            with self._lock:
                if topic not in self._wanted and topic not in self._refused:
                    self._wanted[topic] = self._clock.now_ms()
            self._metadata_wanted.set()
        return known

    def wait_known(self, topic: str) -> KnownTopic:
        """Return what is known about the topic; waits for it. Raises OttlaError if it cannot be known."""
        while (known := self.look(topic)) is None:
            with self._lock:
                if topic in self._wanted:
                    self._wait_until(self._wanted[topic] + self._patience_ms)
        return known

    def look(self, topic: str) -> KnownTopic | None:
        """Return what is known about the topic; None: look again. Raises OttlaError if it cannot be known."""
        known = self.known(topic)
        if known is None:
            refusal = self.take_refusal(topic)
            if refusal is not None:
                raise refusal
            if self.give_up(topic):
                raise self.unknown_topic(topic)
            self.check_open(topic)
        return known

    def wait_for_partition(self, topic: str, partition: int) -> KnownTopic:
        """As `wait_known`; asks the brokers again if this partition may have been added meanwhile."""
        known = self.wait_known(topic)
        if partition < known.partition_count:
            return known
        self.wait_fresh(topic, self._clock.now_ms())
        return self.wait_known(topic)

    def wait_fresh(self, topic: str, since_ms: float) -> None:
        """Wait until `is_fresh`. Raises ProducerClosed."""
        while not self.is_fresh(topic, since_ms):
            self.check_open(topic)
            with self._lock:
                if topic in self._stale:
                    self._wait_until(self._stale[topic] + self._patience_ms)

    def is_fresh(self, topic: str, since_ms: float) -> bool:
        """Whether the brokers were asked about a known topic after `since_ms`; if not, they are asked soon.

        Also True if they have not answered for too long: then the older answer is used.
        """
        with self._lock:
            is_late = self._clock.now_ms() >= since_ms + self._patience_ms
            if is_late or self._refreshed_ms.get(topic, 0.0) >= since_ms:
                self._stale.pop(topic, None)
                return True
            self._stale.setdefault(topic, since_ms)
        self._metadata_wanted.set()
        return False

    def check_open(self, topic: str) -> None:
        """Raise ProducerClosed if the producer is closed."""
        if self._is_closed:
            raise ProducerClosed(f"the producer was closed before {topic!r} was known")

    def _wait_until(self, until_ms: float) -> None:
        """Wait for a change, at most until `until_ms`; the caller checks again in any case."""
        left_s = max(0.0, until_ms - self._clock.now_ms()) / 1000.0
        self._changed.wait(min(SIGNAL_CHECK_S, left_s))

    def waits_until(self, topic: str) -> float | None:
        """Return when the wait for the topic ends at the latest; None if it is known, NOW if there is no
        wait.
        """
        with self._lock:
            if topic in self._stale:
                return self._stale[topic] + self._patience_ms
            if topic in self._known:
                return None
            return self._wanted[topic] + self._patience_ms if topic in self._wanted else NOW

    def give_up(self, topic: str) -> bool:
        """Whether the topic was wanted for too long. If so, it is not wanted any more."""
        with self._lock:
            since_ms = self._wanted.get(topic)
            if since_ms is None or self._clock.now_ms() < since_ms + self._patience_ms:
                return False
            del self._wanted[topic]
        self._errors.forget(network_errors.topic(topic))
        return True

    def unknown_topic(self, topic: str) -> OttlaError:
        """Return the error for records of a topic that was given up."""
        error = DeliveryExpired(
            f"topic {topic!r}: nothing is known of it after {self._patience_ms:.0f} ms; its"
            f" records were not sent. Does it exist, are the brokers up? The last answer: {self._errors.last}"
        )
        error.__cause__ = self._errors.last
        return error

    def take_refusal(self, topic: str) -> OttlaError | None:
        """Return why the topic cannot be written to, if so, and forget it: the next record asks again."""
        return self._refused.pop(topic, None)

    # ---- for the metadata thread

    @property
    def wanted(self) -> list[str]:
        """Topics that the brokers are to be asked about because nothing is known."""
        return list(self._wanted)

    @property
    def to_refresh(self) -> set[str]:
        """All topics that the brokers are to be asked about."""
        with self._lock:
            return {*self._wanted, *self._stale}

    def learn(self, view: ClusterView) -> None:
        """Use the topics of this view."""
        with self._lock:
            for topic in (*self._wanted, *self._known):
                described = view.topics.get(topic)
                if described is None or described.error or not described.partitions:
                    continue
                count = len(described.partitions)
                led = tuple(
                    partition.index for partition in described.partitions if partition.leader != NO_LEADER
                )
                self._known[topic] = KnownTopic(count, led or tuple(range(count)))
                self._wanted.pop(topic, None)
            self._notify()

    def refreshed(self, topics: Iterable[str], requested_ms: float, view: ClusterView) -> None:
        """Note `view`, the answer to a request for these topics at this time."""
        self.learn(view)
        with self._lock:
            for topic in topics:
                self._refreshed_ms[topic] = requested_ms
                self._stale.pop(topic, None)
            self._notify()

    def refuse(self, topic: str, error: OttlaError) -> None:
        """Note that the topic cannot be written to, and that waiting does not help."""
        with self._lock:
            self._wanted.pop(topic, None)
            self._refused[topic] = error
            self._notify()
        self._errors.forget(network_errors.topic(topic))

    def close(self) -> None:
        """Make waiting threads raise ProducerClosed."""
        with self._lock:
            self._is_closed = True
            self._notify()
