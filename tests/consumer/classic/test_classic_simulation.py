"""The logic of members under thousands of seeds; and bugs that are planted, which must be found."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.consumer.classic import attempt, ownership
from ottla.consumer.classic.effects import (
    CreateEphemeral,
    FetchOffsets,
    Read,
    Start,
    StartFetching,
    Steps,
    WatchBook,
    WatchKey,
    perform_on,
)
from ottla.consumer.classic.gate import DeliveryGate
from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.consumer.classic.rebalancer import MemberAction, Rebalancer
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper.memory_session import MemoryZooKeeper
from ottla.zookeeper.zookeeper_errors import NodeExists
from tests.consumer.classic.simulation.ottla_member import OttlaMember
from tests.consumer.classic.simulation.scenario import Scenario
from tests.scale import SEED, sized

SEEDS = sized(250, 100_000)
SEEDS_TO_FIND = 1_500
"""Most are found within a few; one in a hundred seeds shows claims that are left behind."""


@pytest.mark.parametrize("first", range(SEED, SEED + SEEDS, 100))
def test_groups_behave(first: int) -> None:
    """One owner of a partition at any instant, nothing left out, and all in order when faults are over."""
    for seed in range(first, first + 100):
        try:
            Scenario(seed).run()
        except Exception as error:
            error.add_note(f"python -m tests.consumer.classic.simulation --seed {seed} --trace")
            raise


@pytest.mark.parametrize("seed", [10286, 1019385])
def test_histories_that_were_once_judged_wrongly(seed: int) -> None:
    """10286: a busy member had not looked yet at the news that its session is back.

    1019385: our last member was about to leave, and of Kafka's own one read a partition without owning it.
    """
    Scenario(seed).run()


def test_a_seed_is_always_the_same_run() -> None:
    assert Scenario(11).run() == Scenario(11).run()


# --- planted bugs


def find() -> None:
    for seed in range(SEEDS_TO_FIND):
        Scenario(seed).run()


def test_finds_members_that_rely_on_being_told_that_the_session_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DeliveryGate, "extend", lambda self, until_ms: _extend(self, until_ms + 60_000))
    with pytest.raises(AssertionError, match="which is owned by"):
        find()


_extend = DeliveryGate.extend


def test_finds_partitions_that_are_kept_after_a_lost_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(owned: ownership.Ownership) -> Steps[None]:
        yield from ()

    monkeypatch.setattr("ottla.consumer.classic.member.drop", drop)
    with pytest.raises(AssertionError):
        find()


def test_finds_offsets_that_are_not_committed_before_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OttlaMember, "_commit", lambda *_: None)
    with pytest.raises(AssertionError, match="messages twice, without any fault"):
        find()


def test_finds_offsets_that_are_read_before_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka does it: the former owner may commit between the two."""

    def take(
        owned: ownership.Ownership, wanted: Mapping[TopicAndPartition, ConsumerThreadId], assignment: object
    ) -> Steps[None]:
        places = tuple(sorted(wanted))
        offsets: Mapping[TopicAndPartition, int] = yield FetchOffsets(places)
        try:
            yield from ownership.claim_all(owned, wanted)
        except OttlaError:
            yield from ownership.roll_back(owned, places)
            raise
        yield StartFetching({place: Start(wanted[place], offsets[place]) for place in places})
        owned.owned.update(wanted)
        owned.doubtful.difference_update(wanted)

    monkeypatch.setattr(attempt, "_take", take)
    with pytest.raises(AssertionError, match="messages twice, without any fault"):
        find()


def test_finds_claims_that_are_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def roll_back(owned: ownership.Ownership, places: tuple[TopicAndPartition, ...]) -> Steps[None]:
        owned.doubtful.difference_update(places)
        yield from ()

    monkeypatch.setattr(attempt, "roll_back", roll_back)
    with pytest.raises(AssertionError):
        find()


def test_finds_claims_of_a_former_session_that_pass_for_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka 0.8 does it: the node's text alone."""

    def claim(session_id: int, path: str, data: bytes) -> Steps[str | None]:
        try:
            yield CreateEphemeral(path, data)
        except NodeExists:
            node = yield Read(path, watched=True)
            if node is None or node.data != data:
                return "somebody"
        return None

    monkeypatch.setattr(ownership, "claim_ephemeral", claim)
    with pytest.raises(AssertionError):
        find()


def test_finds_members_that_miss_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that is believed to be armed when it has fired."""
    monkeypatch.setattr(WatchBook, "disarm", lambda *_: None)
    with pytest.raises(AssertionError):
        find()


def test_finds_members_that_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zombies, as Kafka's own consumer has them."""

    def failed(self: Rebalancer, action: MemberAction, error: Exception, now_ms: float) -> None:
        self._failures += 1
        pause_ms = 2000 if self._failures < 4 else float("inf")
        for due in self._due:
            self._due[due] = now_ms + pause_ms

    monkeypatch.setattr(Rebalancer, "failed", failed)
    monkeypatch.setattr(Rebalancer, "group_changed", lambda *_: None)
    with pytest.raises(AssertionError):
        find()


def test_the_book_leaves_one_watch_a_node_and_reads_again_when_it_fired() -> None:
    ensemble = MemoryZooKeeper()
    session = ensemble.session()
    session.connect()
    fired: list[WatchKey] = []
    book = WatchBook(fired.append)
    look = Read("/a", watched=True)
    assert perform_on(session, look, book) is None
    session.create("/a", b"1")
    assert fired == [WatchKey("/a", is_children=False)]
    assert perform_on(session, look, book) is None, "the news are on their way"
    assert perform_on(session, Read("/a", watched=True, fresh=True), book).data == b"1"  # type: ignore[attr-defined]
    book.disarm(fired.pop())
    for _ in range(3):
        assert perform_on(session, look, book).data == b"1"  # type: ignore[attr-defined]
    session.set("/a", b"2")
    assert len(fired) == 1
