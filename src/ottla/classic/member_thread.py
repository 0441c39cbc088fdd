"""The one thread that rebalances: it waits for events, asks the member for work, and performs it.

The session's threads only leave news here: a watch fired, the session changed. Everything that a member has
is touched by this thread alone.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from ottla.classic.effects import (
    AbandonFetching,
    AskBrokers,
    CommitOffsets,
    Effect,
    FetchOffsets,
    FindUnfetched,
    LocalEffect,
    StartFetching,
    Steps,
    StopFetching,
    TellReleasing,
    TellStarting,
    WatchBook,
    WatchKey,
    ZooKeeperEffect,
    perform_on,
)
from ottla.classic.errors import ListenerFailed
from ottla.classic.gate import DeliveryGate
from ottla.classic.listener import ConsumerRebalanceListener, by_topic, partitions_by_topic
from ottla.classic.member import Member
from ottla.classic.readings import Readings
from ottla.classic.rebalancer import Health
from ottla.client.clock import Clock
from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import OttlaError
from ottla.zookeeper.errors import SessionLost, ZooKeeperError
from ottla.zookeeper.session import SessionState, ZooKeeperSession

log = logging.getLogger(__name__)


@dataclass
class Counts:
    """What happened so far; written by the thread alone."""

    rebalances: int = 0
    last_rebalance_ms: float = 0.0
    degradations: int = 0
    lost_sessions: int = 0


@dataclass(frozen=True)
class Surroundings:
    """What the thread works with."""

    session: ZooKeeperSession
    readings: Readings
    gate: DeliveryGate
    clock: Clock
    ask_brokers: Callable[[tuple[str, ...] | None], dict[str, tuple[int, ...]]]
    find_brokers: Callable[[], None]
    listener: ConsumerRebalanceListener | None
    commits_itself: bool


class MemberThread:
    """`start` and `stop` it once. `changed` is told every new health."""

    def __init__(self, member: Member, around: Surroundings, changed: Callable[[Health], None]) -> None:
        self.member = member
        self.counts = Counts()
        self.health = member.health
        self.reason = ""
        self._around = around
        self._consumer = member.ownership.consumer
        self._tell = changed
        self._watches = WatchBook(self._leave_news)
        self._news: deque[tuple[SessionState, int] | WatchKey] = deque()
        self._has_news = threading.Condition(threading.Lock())
        self._is_stopping = False
        self._broken: dict[str, str] = {}
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
            AskBrokers: lambda effect: around.ask_brokers(effect.topics),
            TellReleasing: self._tell_listener,
            TellStarting: self._tell_listener,
        }
        self._thread = threading.Thread(
            target=self._run, name=f"{self._consumer}_watcher_executor", daemon=True
        )

    def start(self) -> None:
        """The session is connected."""
        session = self._around.session
        session.add_listener(self._session_changed)
        self._leave_news((session.state, session.session_id))
        self._thread.start()

    def stop(self) -> None:
        """Give everything back and end; waits for it. Not from this very thread."""
        with self._has_news:
            self._is_stopping = True
            self._has_news.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._around.session.remove_listener(self._session_changed)

    @property
    def is_current(self) -> bool:
        """Whether it is this thread that asks."""
        return threading.current_thread() is self._thread

    # --- the session's threads

    def _session_changed(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            self._around.gate.shut()
        self._leave_news((state, self._around.session.session_id))

    def _leave_news(self, news: tuple[SessionState, int] | WatchKey) -> None:
        with self._has_news:
            self._news.append(news)
            self._has_news.notify_all()

    # --- the thread

    def _run(self) -> None:
        try:
            while not (self._is_stopping or self.health is Health.FAILED):
                self._take_news()
                steps = self.member.work()
                if steps is not None:
                    self._do(steps)
                self._judge()
                if steps is None:
                    self._wait()
            self._do(self.member.leave())
            self._judge()
        except Exception as error:
            # A fault of ours: better no member than one that owns and does not read.
            log.exception("[%s] the rebalancing thread ends", self._consumer)
            self._around.gate.shut()
            self.reason = f"the rebalancing thread ended by {error!r}"
            self.health = Health.FAILED
            self._tell(self.health)
            self._around.session.close()

    def _take_news(self) -> None:
        while self._news:
            news = self._news.popleft()
            if isinstance(news, WatchKey):
                self._watches.disarm(news)
                self.member.group_changed()
                continue
            state, session_id = news
            log.info("[%s] ZooKeeper session %x is %s", self._consumer, session_id, state.value)
            steps = self.member.session_changed(state, session_id)
            if state is not SessionState.CONNECTED:
                self._watches.clear()
            self.counts.lost_sessions += state is SessionState.LOST
            if steps is not None:
                self._do(steps)
            if state is SessionState.CONNECTED:
                self._reopen()

    def _reopen(self) -> None:
        self._around.gate.reopen()
        if self._around.session.state is not SessionState.CONNECTED:
            self._around.gate.shut()  # it went away again meanwhile, and those news are on their way

    def _wait(self) -> None:
        with self._has_news:
            left_ms = self.member.next_due_ms - self._around.clock.now_ms()
            if not self._news and not self._is_stopping and left_ms > 0:
                self._has_news.wait(None if left_ms == inf else left_ms / 1000)

    def _do(self, steps: Steps[None]) -> None:
        """Perform what the steps yield, until they end."""
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
        """Only in the session that the member knows of; each answer is a proof of its life."""
        session, gate = self._around.session, self._around.gate
        session_id = self.member.ownership.session_id
        if session.session_id != session_id:
            raise SessionLost("the ZooKeeper session is another one by now")
        sent_ms = self._around.clock.now_ms()
        answer = perform_on(session, effect, self._watches)
        if session.session_id != session_id:
            raise SessionLost("the ZooKeeper session became another one during the request")
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
        found = self._around.readings.unfetched()
        if found:
            self._around.find_brokers()
        return found

    def _tell_listener(self, effect: TellReleasing | TellStarting) -> None:
        listener = self._around.listener
        if listener is None:
            return
        try:
            if isinstance(effect, TellReleasing):
                listener.before_releasing_partitions(partitions_by_topic(effect.partitions))
            else:
                listener.before_starting_fetchers(self._consumer, by_topic(effect.assignment))
        except Exception as error:
            raise ListenerFailed(f"the rebalance listener raised {error!r}") from error

    # --- what is said about it

    def _judge(self) -> None:
        """One line for every change of health, and for every broken node."""
        self._name_broken()
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
        self._tell(self.health)

    def _name_broken(self) -> None:
        balance = self.member.balance
        broken = dict(balance.view.broken) if balance is not None else {}
        for path, reason in broken.items():
            if self._broken.get(path) != reason:
                log.warning("[%s] left out: %s", self._consumer, reason)
        self._broken = broken
