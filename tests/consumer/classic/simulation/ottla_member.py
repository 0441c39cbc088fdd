"""The real logic of a member (`ottla.consumer.classic.member`), performed on a simulated world."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from math import inf

from ottla.consumer.classic.assignors import Assignor, assign_ranges
from ottla.consumer.classic.effects import (
    AbandonFetching,
    CommitOffsets,
    Effect,
    FetchOffsets,
    FindUnfetched,
    NotifyReleasing,
    NotifyStarting,
    Start,
    StartFetching,
    Steps,
    StopFetching,
    WatchBook,
    WatchKey,
    perform_on,
)
from ottla.consumer.classic.gate import DeliveryGate
from ottla.consumer.classic.group_view import ViewRules
from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.consumer.classic.member import ClassicMember
from ottla.consumer.classic.rebalancer import RebalanceTimes
from ottla.consumer.classic.topic_count import TopicCount
from ottla.consumer.reading.health import Health
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper.consumer_znodes import encode_registration
from ottla.zookeeper.session import SessionState
from ottla.zookeeper.zookeeper_errors import SessionLost, ZooKeeperConnectionLost
from tests.consumer.classic.simulation.world import GROUP, SESSION_TIMEOUT_MS, Process, World

AUTO_COMMIT_MS = 4000


class OttlaMember(Process):
    """One process: a thread that rebalances, streams that hand out, a committer."""

    def __init__(
        self, world: World, name: str, topic_count: TopicCount, assignor: Assignor = assign_ranges
    ) -> None:
        super().__init__(world, name)
        self.topic_count = topic_count
        self.gate = DeliveryGate()
        self.feeds: dict[TopicAndPartition, tuple[ConsumerThreadId, int]] = {}
        self.progress: dict[TopicAndPartition, int] = {}
        self.member = ClassicMember(
            ViewRules(GROUP, name),
            assignor,
            encode_registration(topic_count.registration(0)),
            times=RebalanceTimes(session_timeout_ms=SESSION_TIMEOUT_MS),
            chance=random.Random(world.chance.random()),
            now_ms=lambda: world.now_ms,
        )
        self._watches = WatchBook(self._noticed)
        self._news: deque[SessionState | WatchKey] = deque()
        self._steps: Steps[None] | None = None
        self._answer: object = None
        self._failure: OttlaError | None = None
        self.is_leaving = False
        self._wake_count = 0

    @property
    def is_content(self) -> bool:
        """Whether it waits for something to happen."""
        is_idle = self.is_well and not self.is_leaving and not self._news
        return is_idle and self.member.health is Health.STABLE

    # --- the process

    def start(self) -> None:
        """Connect and run."""
        self.session.add_listener(self._session_changed)
        self.session.connect()
        self.world.after(self.world.chance.uniform(0, 800), self._hand_out_now_and_then)
        self.world.after(self.world.chance.uniform(0, AUTO_COMMIT_MS), self._commit_now_and_then)

    def leave(self) -> None:
        """Shut down in good order."""
        self.world.trace(f"{self.name}: leaves")
        self.is_leaving = True
        self._look()

    def wake(self) -> None:
        """A stream is the first to run."""
        self.hand_out()
        self._look()

    def hand_out(self) -> None:
        """Every partition's stream gives a few messages to its user, as far as the gate is open."""
        if self.is_frozen or not self.is_alive:
            return
        for place, (thread, offset) in self.feeds.items():
            if self.gate.is_open(self.world.now_ms):
                self._check_owner(place, str(thread), "hands out")
                self.world.hand_out(place, offset)
                self.feeds[place] = thread, offset + 1
                self.progress[place] = offset + 1

    def _hand_out_now_and_then(self) -> None:
        if self.is_alive:
            self.hand_out()
            self.world.after(self.world.chance.uniform(200, 1800), self._hand_out_now_and_then)

    def _commit_now_and_then(self) -> None:
        if self.is_alive:
            if not self.is_frozen:
                with suppress(OttlaError):
                    self._commit(tuple(self.feeds))
            self.world.after(AUTO_COMMIT_MS, self._commit_now_and_then)

    # --- the thread that rebalances

    def _session_changed(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            self.gate.shut()
        self._news.append(state)
        self._look()

    def _noticed(self, key: WatchKey) -> None:
        self._news.append(key)
        self._look()

    def _look(self, delay_ms: float = 0.0) -> None:
        """Let the thread run; an earlier appointment is void."""
        if self._steps is not None and delay_ms == 0.0:
            return  # it is busy and looks when it is done
        self._wake_count += 1
        self.world.after(delay_ms, partial(self._run, self._wake_count))

    def _run(self, wake_count: int) -> None:
        if wake_count != self._wake_count or not self.is_alive:
            return
        if self.is_frozen:
            self._look(50.0)
            return
        if self._steps is None:
            self._steps = self._next_steps()
        if self._steps is not None:
            self._advance(self._steps)
        elif self.is_leaving:
            self._end()
        elif self.member.next_due_ms < inf:
            self._look(max(0.001, self.member.next_due_ms - self.world.now_ms))

    def _next_steps(self) -> Steps[None] | None:
        while self._news:
            news = self._news.popleft()
            if isinstance(news, WatchKey):
                self._watches.disarm(news)
                self.member.group_changed()
                continue
            if news is SessionState.CONNECTED and self.session.state is SessionState.CONNECTED:
                self.gate.reopen()
            if news is not SessionState.CONNECTED:
                self._watches.clear()
            steps = self.member.session_changed(news, self.session.session_id)
            if steps is not None:
                return steps
        if self.is_leaving:
            return self.member.leave() if self.member.ownership.owned else None
        return self.member.work()

    def _advance(self, steps: Steps[None]) -> None:
        """Perform one effect and come back with its result after a while."""
        try:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                effect = steps.throw(failure)
            else:
                effect = steps.send(self._answer)
        except StopIteration:
            self._steps, self._answer = None, None
            self._look(0.001)
            return
        try:
            self._answer = self._perform(effect)
        except OttlaError as error:
            self._answer, self._failure = None, error
        self._look(self._pause_ms())

    def _pause_ms(self) -> float:
        """How long an effect takes."""
        return self.world.chance.uniform(0.1, 20.0) if self.world.chance.random() < 0.95 else 400.0

    def _perform(self, effect: Effect) -> object:
        local = self._perform_here(effect)
        if local is not NotImplemented:
            return local
        if self.session.session_id != self.member.ownership.session_id:
            raise SessionLost("the session changed")
        sent_ms = self.world.now_ms
        try:
            answer = perform_on(self.session, effect, self._watches)  # type: ignore[arg-type]
        except ZooKeeperConnectionLost:
            self.answer_was_lost()
            raise
        finally:
            self.world.pass_on_events()
        self.gate.extend(sent_ms + SESSION_TIMEOUT_MS)
        return answer

    def _perform_here(self, effect: Effect) -> object:
        match effect:
            case StopFetching(places) | AbandonFetching(places):
                self._stop(places, keeps_progress=isinstance(effect, StopFetching))
            case CommitOffsets(places) if self.gate.is_open(self.world.now_ms):
                self._commit(places)
            case CommitOffsets():
                raise ZooKeeperConnectionLost("the session is in doubt")
            case FetchOffsets(places):
                return {place: self.world.stored(place) for place in places}
            case StartFetching(starts):
                self._start(starts)
            case FindUnfetched():
                return frozenset(self.member.ownership.owned.keys() - self.feeds.keys())
            case NotifyReleasing() | NotifyStarting():
                return None
            case _:
                return NotImplemented
        return None

    def _start(self, starts: Mapping[TopicAndPartition, Start]) -> None:
        for place, (thread, offset) in starts.items():
            self.feeds[place] = thread, max(0, offset)
            self.progress.pop(place, None)
            self.world.trace(f"{thread} reads {place} from {max(0, offset)}")

    def _stop(self, places: tuple[TopicAndPartition, ...], *, keeps_progress: bool) -> None:
        for place in places:
            self.feeds.pop(place, None)
            if not keeps_progress:
                self.progress.pop(place, None)

    def _commit(self, places: tuple[TopicAndPartition, ...]) -> None:
        """Only as long as they are ours without doubt."""
        for place in places:
            if place in self.progress and self.gate.is_open(self.world.now_ms):
                self._check_owner(place, f"{self.name}-", "commits")
                self._store(place, self.progress.pop(place))

    def _store(self, place: TopicAndPartition, offset: int) -> None:
        self.world.commit(place, offset)

    def _check_owner(self, place: TopicAndPartition, beginning: str, what: str) -> None:
        owner = self.world.owner_of(place)
        is_owner = owner is not None and owner[0].startswith(beginning)
        assert is_owner or self.world.has_scala, f"{self.name} {what} {place}, which is owned by {owner}"

    def _end(self) -> None:
        self.world.trace(f"{self.name}: has left")
        self.is_alive = False
        self._expire_later()
        self.session.close()
        self.world.pass_on_events()
