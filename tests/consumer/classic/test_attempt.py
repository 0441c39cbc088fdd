"""One attempt on a ZooKeeper in memory: in which order things are done, and what is undone."""

from __future__ import annotations

from typing import TypeVar

import pytest

from ottla.consumer.classic.assignors import assign_ranges
from ottla.consumer.classic.attempt import Balance, attempt, inspect, leave
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
    ZooKeeperEffect,
    perform_on,
)
from ottla.consumer.classic.group_view import NotRegistered, ViewRules
from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.consumer.classic.ownership import ClaimsRefused, Ownership, register
from ottla.consumer.classic.topic_count import StaticTopicCount
from ottla.model.errors import ConsumerIdInUse, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.broker_znodes import BrokerRegistration, Endpoint, encode_broker
from ottla.zookeeper.consumer_znodes import encode_registration
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper
from ottla.zookeeper.session import CreateMode
from ottla.zookeeper.topic_znodes import TopicAssignment, encode_assignment

T = TypeVar("T")
PLACES = [TopicAndPartition("t", number) for number in range(4)]
REGISTRATION = encode_registration(StaticTopicCount({"t": 1}).registration(0))


class Performer:
    """Performs what a member wants, and notes what is not about ZooKeeper."""

    def __init__(self, ensemble: MemoryZooKeeper, name: str) -> None:
        self.session = ensemble.session()
        self.session.connect()
        self.rules = ViewRules("g", f"g_{name}")
        self.ownership = Ownership("g", f"g_{name}", self.session.session_id)
        self.noted: list[Effect] = []
        self.fired: list[WatchKey] = []
        self._watches = WatchBook(self.fired.append)
        self.do(register(self.ownership, REGISTRATION))

    def do(self, steps: Steps[T]) -> T:
        answer: object = None
        failure: OttlaError | None = None
        while True:
            try:
                effect = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = failure = None
            try:
                answer = self._perform(effect)
            except OttlaError as error:
                failure = error

    def _perform(self, effect: Effect) -> object:
        if isinstance(effect, ZooKeeperEffect):
            return perform_on(self.session, effect, self._watches)
        self.noted.append(effect)
        if isinstance(effect, FetchOffsets):
            return dict.fromkeys(effect.partitions, 7)
        return frozenset() if isinstance(effect, FindUnfetched) else None

    def attempt(self) -> Balance:
        self.noted.clear()
        for key in self.fired:
            self._watches.disarm(key)
        return self.do(attempt(self.rules, self.ownership, assign_ranges))


@pytest.fixture
def ensemble() -> MemoryZooKeeper:
    """A broker, and a topic with four partitions."""
    ensemble = MemoryZooKeeper()
    admin = ensemble.session()
    admin.connect()
    admin.create_with_parents(paths.broker(0), encode_broker(BrokerRegistration((Endpoint("k", 1),), 0)))
    topic = encode_assignment(TopicAssignment(dict.fromkeys(range(4), (0,))))
    admin.create_with_parents(paths.topic("t"), topic)
    return ensemble


def owner(session: MemorySession, place: TopicAndPartition) -> str:
    return session.get(paths.owner("g", *place)).data.decode()


def test_the_first_member_takes_all(ensemble: MemoryZooKeeper) -> None:
    one = Performer(ensemble, "a")
    balance = one.attempt()
    thread = ConsumerThreadId("g_a", 0)
    assert one.noted == [
        FetchOffsets(tuple(PLACES)),
        NotifyStarting(balance.assignment),
        StartFetching(dict.fromkeys(PLACES, Start(thread, 7))),
    ]
    assert {owner(one.session, place) for place in PLACES} == {"g_a-0"}


def test_nothing_is_done_when_nothing_changed(ensemble: MemoryZooKeeper) -> None:
    one = Performer(ensemble, "a")
    one.attempt()
    one.attempt()
    assert one.noted == []


def test_what_goes_to_another_is_stopped_committed_told_and_released_in_this_order(
    ensemble: MemoryZooKeeper,
) -> None:
    one = Performer(ensemble, "a")
    one.attempt()
    two = Performer(ensemble, "b")
    with pytest.raises(ClaimsRefused, match=r"/owners/t/2 is held by g_a-0"):
        two.attempt()
    given_up = tuple(PLACES[2:])
    one.attempt()
    assert one.noted == [StopFetching(given_up), CommitOffsets(given_up), NotifyReleasing(given_up)]
    assert WatchKey(paths.owner("g", "t", 2), is_children=False) in two.fired, "who was refused is woken"
    two.attempt()
    assert [owner(one.session, place) for place in PLACES] == ["g_a-0", "g_a-0", "g_b-0", "g_b-0"]


def test_claims_are_all_or_none(ensemble: MemoryZooKeeper) -> None:
    one = Performer(ensemble, "a")
    one.session.create_with_parents(paths.owner("g", "t", 2), b"g_x-0", CreateMode.PERSISTENT)
    with pytest.raises(ClaimsRefused):
        one.attempt()
    assert one.session.children(paths.topic_owners("g", "t")) == ("2",)
    assert one.ownership.owned == {}
    assert one.ownership.doubtful == set()


def test_a_claim_without_an_answer_is_cleared_up(ensemble: MemoryZooKeeper) -> None:
    """The create was performed and its answer lost; by the next attempt the partition is another's."""
    one = Performer(ensemble, "a")
    steps = attempt(one.rules, one.ownership, assign_ranges)
    effect = next(steps)
    while not (type(effect).__name__ == "CreateEphemeral" and "/owners/t/3" in effect.path):  # type: ignore[union-attr]
        effect = steps.send(one._perform(effect))
    one.session.lose_next_answer()
    with pytest.raises(OttlaError):
        one.do(_continued(steps, effect))
    assert PLACES[3] in one.ownership.doubtful
    one.session.resume()
    two = Performer(ensemble, "b")
    one.attempt()
    two.attempt()
    assert [owner(one.session, place) for place in PLACES] == ["g_a-0", "g_a-0", "g_b-0", "g_b-0"]


def _continued(steps: Steps[Balance], effect: Effect) -> Steps[None]:
    """The rest of steps that have been begun."""
    while True:
        try:
            answer = yield effect
        except OttlaError as error:
            effect = steps.throw(error)
        else:
            effect = steps.send(answer)


def test_a_stolen_partition_is_abandoned_and_claimed_again(ensemble: MemoryZooKeeper) -> None:
    one = Performer(ensemble, "a")
    balance = one.attempt()
    one.session.delete(paths.owner("g", "t", 1))
    found = one.do(inspect(one.rules, one.ownership, balance))
    assert found.stolen == {PLACES[1]}
    assert found.unowned == {PLACES[1]}
    one.attempt()
    assert one.noted[0] == AbandonFetching((PLACES[1],))
    assert owner(one.session, PLACES[1]) == "g_a-0"


def test_a_node_of_the_members_former_session_is_not_its_own(ensemble: MemoryZooKeeper) -> None:
    """It goes with that session, whoever is named in it."""
    one = Performer(ensemble, "a")
    one.attempt()
    node = one.session.get(one.ownership.path(PLACES[0]))
    thread = one.ownership.owned[PLACES[0]]
    assert one.ownership.is_ours(node, thread)
    one.ownership.session_id += 1
    assert not one.ownership.is_ours(node, thread)


def test_leaving_gives_everything_back(ensemble: MemoryZooKeeper) -> None:
    one = Performer(ensemble, "a")
    one.attempt()
    one.noted.clear()
    one.do(leave(one.ownership))
    everything = tuple(PLACES)
    assert one.noted == [StopFetching(everything), CommitOffsets(everything), NotifyReleasing(everything)]
    assert one.session.children(paths.topic_owners("g", "t")) == ()
    assert one.session.children(paths.consumer_ids("g")) == ()


def test_who_is_not_registered_does_not_rebalance(ensemble: MemoryZooKeeper) -> None:
    one = Performer(ensemble, "a")
    one.session.delete(paths.consumer("g", "g_a"))
    with pytest.raises(NotRegistered, match="/consumers/g/ids/g_a"):
        one.attempt()


def test_a_registration_of_another_session_is_in_the_way(ensemble: MemoryZooKeeper) -> None:
    Performer(ensemble, "a")
    with pytest.raises(ConsumerIdInUse, match=r"a member with this consumer\.id runs already"):
        Performer(ensemble, "a")


def test_without_brokers_everything_stays(ensemble: MemoryZooKeeper) -> None:
    one = Performer(ensemble, "a")
    one.attempt()
    one.session.delete(paths.broker(0))
    Performer(ensemble, "b")
    one.attempt()
    assert one.noted == []
    one.session.create(paths.broker(0), b"{}")
    assert WatchKey(paths.BROKER_IDS, is_children=True) in one.fired
