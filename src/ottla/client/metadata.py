"""What all threads of a client know about the cluster: one current ClusterView, replaced and never edited.

One thread asks a broker at a time, and the others wait. A thread that wants metadata while a request is in
flight does not use its response, which may be older than the reason for asking; it shares the next request
with all others that wait:

    thread 1   refresh ├────── request 1 ──────┤ view
    thread 2          refresh ·················· ├────── request 2 ──────┤ view
    thread 3             refresh ··············· · · · · · · · · · · · · · view, of request 2
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from ottla.client import network_errors
from ottla.client.attempts import attempts, error_to_raise
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, SIGNAL_CHECK_S, Clock, Deadline, wait_for
from ottla.client.interruption import Interruption
from ottla.client.known_cluster import KnownCluster, sound_leader, sound_topic
from ottla.client.metadata_source import MetadataSource
from ottla.client.network_errors import CLUSTER, NetworkErrors
from ottla.client.reactions import Action, Call, action_about
from ottla.client.retry import Backoff
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.closing import Closing
from ottla.model.cluster_view import (
    BrokerNode,
    ClusterView,
    LeaderHint,
    PartitionLeader,
    PartitionView,
    TopicView,
)
from ottla.model.errors import ConnectionLost, KafkaError, OttlaError, RequestTimedOut

log = logging.getLogger(__name__)

T = TypeVar("T")

CLOSE_WAIT_S = 1.0
"""How long `close` waits for a thread that is processing an answer."""


class _NextRequest(NamedTuple):
    """The topics that the next request names."""

    topics: set[str]
    is_whole: bool
    reasons: set[str]


class ClusterMetadata(Closing):
    """Thread-safe. Opens its connection when it is first needed, keeps it, and closes it in `close`."""

    def __init__(
        self, config: ClientConfig, clock: Clock = MONOTONIC, *, chance: random.Random | None = None
    ) -> None:
        self.memory = VersionMemory()
        self.errors = NetworkErrors(clock.now_ms)
        self._config = config
        self._clock = clock
        self._chance = chance or random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._interruption = Interruption()
        self._source = MetadataSource(
            config, clock, self._chance, self.memory, self.errors, self._interruption
        )
        self._turn = threading.Condition()  # guards all below; not held while a request is in flight
        self._known = KnownCluster(config.metadata_max_age_ms)
        self._wants = _NextRequest(set(), is_whole=False, reasons=set())
        self._is_asking = False
        self._requests_begun = 0
        self._requests_done = 0
        self._failure: OttlaError | None = None  # of the last request
        self._was_cut = False  # whether the deadline of the last request has passed
        self._is_closed = False

    @property
    def view(self) -> ClusterView:
        """The current view; sends nothing."""
        return self._known.view

    # --- asking

    def refresh(
        self, topics: Iterable[str] | None = None, *, reason: str = "", deadline: Deadline | None = None
    ) -> ClusterView:
        """Ask a broker now; with `topics=None` for all topics that were requested before.

        Tries every known broker and every bootstrap address once, until the deadline, which by default is
        request.timeout.ms from now. Raises BrokerUnreachable if none answers, RequestTimedOut if other
        threads took all the time, AuthenticationFailed, ConnectionLost (interrupted).
        """
        with self._turn:
            names = self._known.requested if topics is None else set(topics)
        return self._ask(_NextRequest(names, is_whole=False, reasons={reason}), deadline)

    def refresh_all(self, *, reason: str = "", deadline: Deadline | None = None) -> ClusterView:
        """Ask for every topic, so that the view is complete. Raises as `refresh`."""
        return self._ask(_NextRequest(set(), is_whole=True, reasons={reason}), deadline)

    def refresh_if_old(self) -> None:
        """Refresh topics older than metadata.max.age.ms. A failure is logged, and the view does
        not change.
        """
        with self._turn:
            old = self._known.old_topics(self._clock.now_ms())
        if old:
            self._refresh_leniently(old)

    def check_brokers(self, timeout: float | None) -> None:
        """Ask for the brokers now, for `timeout` seconds or request.timeout.ms. Raises as `refresh`."""
        deadline = None if timeout is None else Deadline(self._clock, timeout * 1000.0)
        self.refresh((), reason="first contact", deadline=deadline)

    def forget(self, topics: Iterable[str]) -> None:
        """Stop tracking these topics: `refresh` without names leaves them out."""
        with self._turn:
            self._known.forget(topics)

    def _ask(self, wants: _NextRequest, deadline: Deadline | None) -> ClusterView:
        deadline = deadline or Deadline(self._clock, self._config.request_timeout_ms)
        while True:
            number, wanted = self._await_turn(wants, deadline)
            if wanted is not None:
                return self._request(number, wanted, deadline)
            # Another thread has asked for these topics too. It may have had less time.
            if not self._was_cut or deadline.passed or self._interruption.is_set:
                return self._outcome()

    def _await_turn(self, wants: _NextRequest, deadline: Deadline) -> tuple[int, _NextRequest | None]:
        """Return the number of the next request, and what it asks for; None if another thread has made it."""
        with self._turn:
            self._wants = _NextRequest(
                self._wants.topics | wants.topics,
                self._wants.is_whole or wants.is_whole,
                self._wants.reasons | wants.reasons,
            )
            number = self._requests_begun + 1  # the next request to begin asks for our topics
            while self._is_asking and self._requests_done < number:
                self._turn.wait(deadline.capped_ms(SIGNAL_CHECK_S * 1000) / 1000)
                if deadline.passed and deadline.timeout_ms:
                    why = self.errors.cause()
                    raise RequestTimedOut(f"no metadata in {deadline.timeout_ms:.0f} ms{why}")
            if self._requests_done >= number:
                return number, None
            wanted, self._wants = self._wants, _NextRequest(set(), is_whole=False, reasons=set())
            self._is_asking = True
            self._requests_begun = number
            return number, wanted

    def _request(self, number: int, wanted: _NextRequest, deadline: Deadline) -> ClusterView:
        failure: OttlaError | None = ConnectionLost("the thread that asked for metadata was stopped")
        received: ClusterView | None = None
        began_ms = self._clock.now_ms()
        try:
            received = self._source.ask(
                None if wanted.is_whole else sorted(wanted.topics),
                self._known.view,
                ", ".join(sorted(filter(None, wanted.reasons))) or "refresh",
                deadline,
            )
            failure = None
        except OttlaError as error:
            failure = error
        finally:
            with self._turn:
                self._was_cut = deadline.passed
                self._finish(number, wanted, received, failure)
        if failure is not None:
            if not self._interruption.is_set:
                self.errors.failed(CLUSTER, failure, began_ms)
            raise failure
        self.errors.answered(CLUSTER)
        return self._known.view

    def _finish(
        self, number: int, wanted: _NextRequest, received: ClusterView | None, failure: OttlaError | None
    ) -> None:
        self._is_asking = False
        self._requests_done = number
        self._failure = failure
        if received is not None:
            self._known.adopt(received, wanted.topics, number)
        self._turn.notify_all()
        if self._is_closed:
            self._release()

    def _outcome(self) -> ClusterView:
        if self._failure is not None:
            raise self._failure
        return self._known.view

    # --- what is known, waited for

    def topic(self, name: str, deadline: Deadline | None = None) -> TopicView:
        """A topic without an error; refreshes and waits for it until the deadline.

        The default deadline is request.timeout.ms from now. Raises KafkaError with the last error, or as
        `refresh`.
        """
        return self._awaited(name, None, deadline, lambda view: sound_topic(view, name))

    def partitions(self, topic: str, deadline: Deadline | None = None) -> tuple[PartitionView, ...]:
        """The partitions of a topic; as `topic`."""
        return self.topic(topic, deadline).partitions

    def leader(self, topic: str, partition: int, deadline: Deadline | None = None) -> PartitionLeader:
        """The leader of a partition; waits while one is elected or the topic is created. As `topic`."""
        return self._awaited(topic, partition, deadline, lambda view: sound_leader(view, topic, partition))

    def _awaited(
        self,
        topic: str,
        partition: int | None,
        deadline: Deadline | None,
        lookup: Callable[[ClusterView], T],
    ) -> T:
        """Return what `lookup` returns; it raises KafkaError while the view lacks it."""
        problem = self._outdated(topic, partition)
        if not problem:
            try:
                return lookup(self._known.view)
            except KafkaError as error:
                problem = f"{error.error.name}"
        deadline = deadline or Deadline(self._clock, self._config.request_timeout_ms)
        failure: OttlaError | None = None
        subject = network_errors.topic(topic)
        try:
            for _ in attempts(self._backoff, deadline, self._chance, self._interruption):
                try:
                    return lookup(self.refresh([topic], reason=f"{topic}: {problem}", deadline=deadline))
                except OttlaError as error:
                    if action_about(error, Call.METADATA) is Action.FAIL or self._interruption.is_set:
                        raise
                    if isinstance(error, KafkaError):
                        self.errors.failed(subject, error)  # a caller waits: the log says for what
                    failure = error_to_raise(failure, error, deadline)
        finally:
            self.errors.forget(subject)
        assert failure is not None
        raise failure

    def _outdated(self, topic: str, partition: int | None) -> str:
        """Return why the view must be refreshed for this topic; "" if it need not be.

        Refreshes old topics itself.
        """
        with self._turn:
            problem = self._known.outdated(topic, partition)
            is_old = not problem and self._known.is_old(topic, self._clock.now_ms())
        if is_old:
            self._refresh_leniently([topic])
        return problem

    def _refresh_leniently(self, topics: list[str]) -> None:
        try:
            self.refresh(topics, reason="old")
        except OttlaError as error:
            self._interruption.check()
            log.warning("metadata stay as they are, older than metadata.max.age.ms: %s", error)

    # --- what other requests reveal

    def invalidate(self, topic: str, partition: int) -> None:
        """Note that the known leader is wrong: the next call of `leader` refreshes first."""
        with self._turn:
            self._known.invalidate(topic, partition, self._requests_begun + 1)

    def bootstrap_at(self, addresses: Iterable[Address]) -> None:
        """Replace the bootstrap addresses, which are asked if no known broker answers."""
        self._source.bootstrap_at(addresses)

    def learn(self, hints: Iterable[LeaderHint], nodes: Iterable[BrokerNode] = ()) -> ClusterView:
        """Use the leaders in a Fetch or Produce response (KIP-951), if they are newer."""
        with self._turn:
            return self._known.learn(hints, nodes)

    # --- the end

    def interrupt(self) -> None:
        """Make threads that wait here raise ConnectionLost at once. From any thread."""
        self._interruption.interrupt()

    def close(self) -> None:
        """Close the connection; threads that wait in here get ConnectionLost. May be called twice.

        A thread that is decoding a large answer closes it later: `close` waits CLOSE_WAIT_S for it.
        """
        self._interruption.interrupt()
        with self._turn:
            self._is_closed = True
            if wait_for(self._turn, lambda: not self._is_asking, CLOSE_WAIT_S):
                self._release()

    def _release(self) -> None:
        self._source.close()
        self._interruption.close()
