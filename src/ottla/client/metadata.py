"""What all threads of a client know of the cluster: one current ClusterView, replaced and never edited.

One thread asks a broker at a time; the others wait for it. Who asks while a question is under way shares the
next one with everybody who does so, since the answer under way may be older than what made it ask:

    thread 1   ask ├────── question 1 ──────┤ view
    thread 2          ask ·················· ├────── question 2 ──────┤ view
    thread 3             ask ··············· · · · · · · · · · · · · · view, of question 2
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from ottla.client.clock import MONOTONIC, Clock, Deadline
from ottla.client.config import ClientConfig
from ottla.client.interruption import Interruption
from ottla.client.metadata_source import MetadataSource
from ottla.client.retry import Action, Backoff, action_about, action_for, attempts
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.cluster_view import (
    EMPTY,
    BrokerNode,
    ClusterView,
    LeaderHint,
    PartitionLeader,
    PartitionView,
    TopicView,
)
from ottla.model.error_codes import Code
from ottla.model.errors import ConnectionLost, KafkaError, OttlaError

log = logging.getLogger(__name__)

T = TypeVar("T")


class _Wants(NamedTuple):
    """What the next question is to ask."""

    topics: set[str]
    is_whole: bool
    reasons: set[str]


class ClusterMetadata:
    """Thread-safe. Opens its connection at the first need, keeps it, and closes it in `close`."""

    def __init__(
        self, config: ClientConfig, clock: Clock = MONOTONIC, *, chance: random.Random | None = None
    ) -> None:
        self.memory = VersionMemory()
        self._config = config
        self._clock = clock
        self._chance = chance or random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._interruption = Interruption()
        self._source = MetadataSource(config, clock, self._chance, self.memory, self._interruption)
        self._turn = threading.Condition()  # guards all below; never held while a broker is asked
        self._view = EMPTY
        self._asked_at_ms: dict[str, float] = {}  # of topics that were asked for by name
        self._stale: dict[tuple[str, int], int] = {}  # partition → the question that must have been asked
        self._wants = _Wants(set(), is_whole=False, reasons=set())
        self._is_asking = False
        self._questions_begun = 0
        self._questions_done = 0
        self._failure: OttlaError | None = None  # of the last question

    @property
    def view(self) -> ClusterView:
        """What is known now; asks nobody."""
        return self._view

    # --- asking

    def refresh(self, topics: Iterable[str] | None = None, *, reason: str = "") -> ClusterView:
        """Ask a broker, now; None is for all topics that were asked for before.

        Tries every broker that is known and the bootstrap addresses, once each. Raises BrokerUnreachable if
        none answers, AuthenticationFailed, ConnectionLost (interrupted).
        """
        with self._turn:
            names = set(self._asked_at_ms if topics is None else topics)
        return self._ask(_Wants(names, is_whole=False, reasons={reason}))

    def refresh_all(self, *, reason: str = "") -> ClusterView:
        """Ask for every topic that there is; the view is whole then."""
        return self._ask(_Wants(set(), is_whole=True, reasons={reason}))

    def refresh_if_old(self) -> None:
        """Refresh what is older than metadata.max.age.ms; a failure is logged, and what is known stays."""
        with self._turn:
            old = [name for name, at_ms in self._asked_at_ms.items() if self._is_old(at_ms)]
        if old:
            self._refresh_leniently(old)

    def forget(self, topics: Iterable[str]) -> None:
        """Nobody reads or writes these any more: they are not asked for again unless by name."""
        with self._turn:
            for name in topics:
                self._asked_at_ms.pop(name, None)

    def _ask(self, wants: _Wants) -> ClusterView:
        with self._turn:
            self._wants = _Wants(
                self._wants.topics | wants.topics,
                self._wants.is_whole or wants.is_whole,
                self._wants.reasons | wants.reasons,
            )
            question = self._questions_begun + 1  # the next one to begin has our wishes
            while self._is_asking and self._questions_done < question:
                self._turn.wait()
            if self._questions_done >= question:
                return self._outcome()
            wanted, self._wants = self._wants, _Wants(set(), is_whole=False, reasons=set())
            self._is_asking = True
            self._questions_begun = question
        failure: OttlaError | None = ConnectionLost("the thread that asked for metadata was stopped")
        told: ClusterView | None = None
        try:
            told = self._source.ask(
                None if wanted.is_whole else sorted(wanted.topics),
                self._view,
                ", ".join(sorted(filter(None, wanted.reasons))) or "refresh",
            )
            failure = None
        except OttlaError as error:
            failure = error
        finally:
            with self._turn:
                self._finish(question, wanted, told, failure)
        if failure is not None:
            raise failure
        return self._view

    def _finish(
        self, question: int, wanted: _Wants, told: ClusterView | None, failure: OttlaError | None
    ) -> None:
        self._is_asking = False
        self._questions_done = question
        self._failure = failure
        if told is not None:
            self._adopt(told, wanted.topics, question)
        self._turn.notify_all()

    def _adopt(self, told: ClusterView, names: Iterable[str], question: int) -> None:
        before, self._view = self._view, self._view.updated(told)
        if before.cluster_id and before.cluster_id != self._view.cluster_id:
            log.warning("cluster %s is no more: another one answers at its addresses", before.cluster_id)
        if before.brokers != self._view.brokers or before.cluster_id != self._view.cluster_id:
            nodes = ", ".join(f"{node.broker_id}={node.address}" for node in self._view.brokers.values())
            log.info("cluster %s: brokers %s", self._view.cluster_id or "(unnamed)", nodes)
        self._asked_at_ms.update(dict.fromkeys(names, told.fetched_at_ms))
        self._stale = {
            place: needed
            for place, needed in self._stale.items()
            if needed > question or place[0] not in told.topics
        }

    def _outcome(self) -> ClusterView:
        if self._failure is not None:
            raise self._failure
        return self._view

    # --- what is known, waited for

    def topic(self, name: str, deadline: Deadline | None = None) -> TopicView:
        """A topic without an error, refreshed and waited for until the deadline.

        Without a deadline it is request.timeout.ms from now. Raises KafkaError with the last error, or what
        `refresh` raises.
        """
        return self._awaited(name, None, deadline, lambda view: _sound_topic(view, name))

    def partitions(self, topic: str, deadline: Deadline | None = None) -> tuple[PartitionView, ...]:
        """The partitions of a topic; as `topic`."""
        return self.topic(topic, deadline).partitions

    def leader(self, topic: str, partition: int, deadline: Deadline | None = None) -> PartitionLeader:
        """Who leads a partition, through elections and topics that are only being made; as `topic`."""
        return self._awaited(topic, partition, deadline, lambda view: _sound_leader(view, topic, partition))

    def _awaited(
        self,
        topic: str,
        partition: int | None,
        deadline: Deadline | None,
        found_in: Callable[[ClusterView], T],
    ) -> T:
        """`found_in` raises KafkaError while the view does not have it."""
        problem = self._outdated(topic, partition)
        if not problem:
            try:
                return found_in(self._view)
            except KafkaError as error:
                problem = f"{error.error.name}"
        deadline = deadline or Deadline(self._clock, self._config.request_timeout_ms)
        failure: OttlaError | None = None
        for _ in attempts(self._backoff, deadline, self._chance, self._interruption):
            try:
                return found_in(self.refresh([topic], reason=f"{topic}: {problem}"))
            except OttlaError as error:
                if action_about(error) is Action.FAIL or self._interruption.is_set:
                    raise
                failure = error
        assert failure is not None
        raise failure

    def _outdated(self, topic: str, partition: int | None) -> str:
        """Why the view does not do for this topic; "" if it does."""
        with self._turn:
            asked_at_ms = self._asked_at_ms.get(topic)
            if partition is not None and (topic, partition) in self._stale:
                return f"the leader of partition {partition} is gone"
            if asked_at_ms is None and topic not in self._view.topics:
                return "new here"
            is_old = self._is_old(self._view.fetched_at_ms if asked_at_ms is None else asked_at_ms)
        if is_old:
            self._refresh_leniently([topic])
        return ""

    def _refresh_leniently(self, topics: list[str]) -> None:
        try:
            self.refresh(topics, reason="old")
        except OttlaError as error:
            self._interruption.check()
            log.warning("metadata stay as they are, older than metadata.max.age.ms: %s", error)

    def _is_old(self, at_ms: float) -> bool:
        return self._clock.now_ms() - at_ms >= self._config.metadata_max_age_ms

    # --- what others find out

    def invalidate(self, topic: str, partition: int) -> None:
        """This leader is not right (any more): the next `leader` asks first."""
        with self._turn:
            self._stale[topic, partition] = self._questions_begun + 1

    def bootstrap_at(self, addresses: Iterable[Address]) -> None:
        """Brokers are here now: asked where none of those that are known answers."""
        self._source.bootstrap = tuple(addresses)

    def learn(self, hints: Iterable[LeaderHint], nodes: Iterable[BrokerNode] = ()) -> ClusterView:
        """Take over the leaders that a Fetch or Produce answer tells (KIP-951), where they are newer."""
        told = tuple(hints)
        with self._turn:
            before, self._view = self._view, self._view.hinted(told, nodes)
            for hint in told:
                if before.leader_of(*hint[:2]) != self._view.leader_of(*hint[:2]):
                    self._stale.pop((hint.topic, hint.partition), None)
            return self._view

    # --- the end

    def interrupt(self) -> None:
        """From any thread: who waits in here gets ConnectionLost. For a close that waits for nobody."""
        self._interruption.interrupt()

    def close(self) -> None:
        """End the connection; who waits in here gets ConnectionLost. May be called twice."""
        self._interruption.interrupt()
        with self._turn:
            while self._is_asking:
                self._turn.wait()
            self._source.close()
            self._interruption.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _sound_topic(view: ClusterView, name: str) -> TopicView:
    topic = view.topics.get(name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
    if topic.error:
        raise KafkaError(topic.error, f"topic {name!r}")
    if not topic.partitions:
        raise KafkaError(Code.LEADER_NOT_AVAILABLE, f"topic {name!r} has no partitions yet")
    return topic


def _sound_leader(view: ClusterView, name: str, index: int) -> PartitionLeader:
    topic = _sound_topic(view, name)
    partition = topic.partition(index)
    if partition is None:
        raise KafkaError(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {name!r} has {len(topic.partitions)} partitions, and none with number {index}",
        )
    leader = view.leader_of(name, index)
    if leader is None:
        code = partition.error or Code.LEADER_NOT_AVAILABLE
        raise KafkaError(
            code if action_for(code) is not Action.NONE else Code.LEADER_NOT_AVAILABLE,
            f"topic {name!r}, partition {index}, replicas {list(partition.replicas)}",
        )
    return leader
