"""The rebalancing thread: it waits for events, asks the member for work, and performs it.

The session's threads only put events into its queue: a watch fired, the session changed. Only this thread
touches the member.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from ottla.client.clock import Clock
from ottla.client.interruption import ended
from ottla.consumer.classic.assignors import Assignment
from ottla.consumer.classic.effects import (
    AbandonFetching,
    CommitOffsets,
    Effect,
    FetchOffsets,
    FindUnfetched,
    LocalEffect,
    NotifyReleasing,
    NotifyStarting,
    QueryPartitions,
    StartFetching,
    Steps,
    StopFetching,
    WatchBook,
    WatchKey,
    ZooKeeperEffect,
    perform_on,
)
from ottla.consumer.classic.gate import DeliveryGate
from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.consumer.classic.member import ClassicMember
from ottla.consumer.classic.readings import Readings
from ottla.consumer.reading.health import Health
from ottla.model.errors import ListenerFailed, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.stop_note import stop_note
from ottla.zookeeper import paths
from ottla.zookeeper.recipes import delete_if_present
from ottla.zookeeper.session import CreateMode, SessionState, ZooKeeperSession
from ottla.zookeeper.zookeeper_errors import SessionLost, ZooKeeperError

log = logging.getLogger(__name__)

LEAVING_S = 30.0
"""How long a member may take to commit, release and leave. After that its connections are closed anyway, and
its session with them."""


class ConsumerRebalanceListener(Protocol):
    """Called on the rebalancing thread, so slow code delays the group. If it raises, the attempt fails.

    >>> from ottla import ConsumerConnector
    >>> class Listener:
    ...     def before_releasing_partitions(self, partition_ownership):
    ...         self.released = partition_ownership
    ...     def before_starting_fetchers(self, consumer_id, partition_assignment):
    ...         self.assigned = partition_assignment
    >>> listener = Listener()
    >>> with ConsumerConnector(group_id="kitchen", zookeeper_connect="127.0.0.1:2181") as connector:
    ...     connector.set_consumer_rebalance_listener(listener)
    ...     streams = connector.create_message_streams({"orders": 1})
    >>> {topic: list(threads) for topic, threads in listener.assigned.items()}
    {'orders': [0]}
    """

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        """These partitions (topic → numbers) are not read any more and are about to be released."""

    def before_starting_fetchers(
        self, consumer_id: str, partition_assignment: dict[str, dict[int, ConsumerThreadId]]
    ) -> None:
        """New partitions are owned and about to be read. The assignment (topic → number → stream) is that of
        the whole group."""


@dataclass
class RebalanceCounts:
    """Counts so far; only the thread writes them."""

    rebalances: int = 0
    last_rebalance_ms: float = 0.0
    degradations: int = 0
    lost_sessions: int = 0


@dataclass(frozen=True)
class Surroundings:
    """Everything that the thread uses."""

    session: ZooKeeperSession
    readings: Readings
    gate: DeliveryGate
    clock: Clock
    query_partitions: Callable[[tuple[str, ...] | None], dict[str, tuple[int, ...]]]
    find_brokers: Callable[[], None]
    listener: ConsumerRebalanceListener | None
    commits_itself: bool


class MemberThread:
    """`start` and `stop` it once. `changed` is called with every new health."""

    def __init__(
        self, member: ClassicMember, around: Surroundings, changed: Callable[[Health], None]
    ) -> None:
        self.member = member
        self.counts = RebalanceCounts()
        self.health = member.health
        self.reason = ""
        self._around = around
        self._consumer = member.ownership.consumer
        self._report = changed
        self._watches = WatchBook(self._put_event)
        self._events: deque[tuple[SessionState, int] | WatchKey] = deque()
        self._has_events = threading.Condition(threading.Lock())
        self._is_stopping = False
        self._broken: dict[str, str] = {}
        self._reported_stopped: dict[TopicAndPartition, str] = {}
        self._unsettled_since_ms = around.clock.now_ms()
        readings = around.readings
        self._local: dict[type[LocalEffect], Callable[[Any], object]] = {
            StopFetching: lambda effect: readings.stop(effect.partitions),
            AbandonFetching: lambda effect: readings.abandon(effect.partitions),
            CommitOffsets: lambda effect: readings.commit_stopped(
                effect.partitions, is_wanted=around.commits_itself
            ),
            FetchOffsets: self._fetch_offsets,
            StartFetching: lambda effect: readings.start(effect.starts),
            FindUnfetched: self._find_unfetched,
            QueryPartitions: lambda effect: around.query_partitions(effect.topics),
            NotifyReleasing: self._call_listener,
            NotifyStarting: self._call_listener,
        }
        self._thread = threading.Thread(
            target=self._run, name=f"{self._consumer}_watcher_executor", daemon=True
        )

    def start(self) -> None:
        """Start the thread; the session is connected."""
        session = self._around.session
        session.add_listener(self._session_changed)
        self._put_event((session.state, session.session_id))
        self._thread.start()

    def stop(self) -> None:
        """Commit, release and leave, then end; waits LEAVING_S for it. Not from this thread itself."""
        with self._has_events:
            self._is_stopping = True
            self._has_events.notify_all()
        ended([self._thread], f"member {self._consumer}", LEAVING_S)
        self._around.session.remove_listener(self._session_changed)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    # --- the session's threads

    def _session_changed(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            self._around.gate.shut()
        self._put_event((state, self._around.session.session_id))

    def _put_event(self, event: tuple[SessionState, int] | WatchKey) -> None:
        with self._has_events:
            self._events.append(event)
            self._has_events.notify_all()

    # --- the thread

    def _run(self) -> None:
        try:
            while not (self._is_stopping or self.health is Health.FAILED):
                self._take_events()
                steps = self.member.work()
                if steps is not None:
                    self._do(steps)
                self._report_health()
                self._report_stopped()
                if steps is None:
                    self._wait()
            self._do(self.member.leave())
            self._report_health()
        except Exception as error:
            # A bug of ours: better no member than one that owns partitions and does not read them.
            log.exception("[%s] the rebalancing thread ends", self._consumer)
            self._around.gate.shut()
            self.reason = f"the rebalancing thread ended by {error!r}"
            self.health = Health.FAILED
            self._report(self.health)
            self._around.session.close()

    def _take_events(self) -> None:
        while self._events:
            event = self._events.popleft()
            if isinstance(event, WatchKey):
                self._watches.disarm(event)
                self.member.group_changed()
                continue
            state, session_id = event
            log.info("[%s] ZooKeeper session %x is %s", self._consumer, session_id, state.value)
            steps = self.member.session_changed(state, session_id)
            if state is not SessionState.CONNECTED:
                self._watches.clear()
            if state is SessionState.LOST:
                self.counts.lost_sessions += 1
                self._reported_stopped = {}
            if steps is not None:
                self._do(steps)
            if state is SessionState.CONNECTED:
                self._reopen()

    def _reopen(self) -> None:
        self._around.gate.reopen()
        if self._around.session.state is not SessionState.CONNECTED:
            self._around.gate.shut()  # it was cut again meanwhile; that event is in the queue

    def _wait(self) -> None:
        with self._has_events:
            left_ms = self.member.next_due_ms - self._around.clock.now_ms()
            if not self._events and not self._is_stopping and left_ms > 0:
                self._has_events.wait(None if left_ms == inf else left_ms / 1000)

    def _do(self, steps: Steps[None]) -> None:
        """Perform the effects that the steps yield, until they end."""
        answer: Any = None
        failure: OttlaError | None = None
        while True:
            try:
                effect = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration:
                return
            answer = failure = None
            try:
                answer = self._perform(effect)
            except OttlaError as error:
                failure = error

    def _perform(self, effect: Effect) -> object:
        if isinstance(effect, ZooKeeperEffect):
            return self._perform_on_zookeeper(effect)
        return self._local[type(effect)](effect)

    def _perform_on_zookeeper(self, effect: ZooKeeperEffect) -> object:
        """Perform an effect only in the session that the member knows; each answer extends the lease."""
        session, gate = self._around.session, self._around.gate
        session_id = self.member.ownership.session_id
        if session.session_id != session_id:
            raise SessionLost("the ZooKeeper session was replaced")
        sent_ms = self._around.clock.now_ms()
        answer = perform_on(session, effect, self._watches)
        if session.session_id != session_id:
            raise SessionLost("the ZooKeeper session was replaced during the request")
        gate.extend(sent_ms + session.session_timeout_ms)
        return answer

    def _fetch_offsets(self, effect: FetchOffsets) -> dict[TopicAndPartition, int]:
        try:
            return self._around.readings.committed(effect.partitions)
        except OttlaError as error:
            if not isinstance(error, ZooKeeperError):
                self._around.find_brokers()
            raise

    def _find_unfetched(self, _: FindUnfetched) -> frozenset[TopicAndPartition]:
        unfetched = self._around.readings.unfetched()
        if unfetched:
            self._around.find_brokers()
        return unfetched

    def _call_listener(self, effect: NotifyReleasing | NotifyStarting) -> None:
        listener = self._around.listener
        if listener is None:
            return
        try:
            if isinstance(effect, NotifyReleasing):
                listener.before_releasing_partitions(partitions_by_topic(effect.partitions))
            else:
                listener.before_starting_fetchers(self._consumer, by_topic(effect.assignment))
        except Exception as error:
            raise ListenerFailed(f"the rebalance listener raised {error!r}") from error

    # --- health and log

    def _report_health(self) -> None:
        """Log one line for every change of health and for every broken node."""
        self._log_broken()
        before, self.health = self.health, self.member.health
        if self.health is before:
            return
        now_ms = self._around.clock.now_ms()
        if before is Health.STABLE:
            self._unsettled_since_ms = now_ms
        if self.health is Health.STABLE:
            self.counts.rebalances += 1
            self.counts.last_rebalance_ms = now_ms - self._unsettled_since_ms
            owned = sorted(self.member.ownership.owned)
            log.info("[%s] owns %d partitions: %s", self._consumer, len(owned), ", ".join(map(str, owned)))
        elif self.health in {Health.DEGRADED, Health.FAILED}:
            self.counts.degradations += 1
            self.reason = self.member.reason
            log.error("[%s] %s: %s", self._consumer, self.health.name, self.member.reason)
        else:
            log.info("[%s] %s", self._consumer, self.health.value)
        self._report(self.health)

    def _report_stopped(self) -> None:
        """Keep a node for each partition that cannot be read, for `ottla lag`. A failure is only logged."""
        stopped = {each: stop_note(report.error) for each, report in self._around.readings.stopped.items()}
        if stopped == self._reported_stopped or self.member.health is Health.SUSPENDED:
            return
        session, group = self._around.session, self.member.ownership.group_id
        try:
            for topic_partition in self._reported_stopped.keys() | stopped.keys():
                path = paths.stopped_partition(group, *topic_partition)
                delete_if_present(session, path)
                if topic_partition in stopped:
                    data = stopped[topic_partition].encode()
                    session.create_with_parents(path, data, CreateMode.EPHEMERAL)
        except ZooKeeperError as error:
            log.debug("[%s] the nodes of stopped partitions were not written: %s", self._consumer, error)
        else:
            self._reported_stopped = stopped

    def _log_broken(self) -> None:
        balance = self.member.balance
        broken = dict(balance.view.broken) if balance is not None else {}
        for path, reason in broken.items():
            if self._broken.get(path) != reason:
                log.warning("[%s] left out: %s", self._consumer, reason)
        self._broken = broken


def partitions_by_topic(topic_partitions: Iterable[TopicAndPartition]) -> dict[str, set[int]]:
    """Return topic → partitions."""
    by_name: dict[str, set[int]] = {}
    for topic, partition in topic_partitions:
        by_name.setdefault(topic, set()).add(partition)
    return by_name


def by_topic(assignment: Assignment) -> dict[str, dict[int, ConsumerThreadId]]:
    """Return topic → partition → stream."""
    by_name: dict[str, dict[int, ConsumerThreadId]] = {}
    for (topic, partition), thread in assignment.items():
        by_name.setdefault(topic, {})[partition] = thread
    return by_name
