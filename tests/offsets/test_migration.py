"""Groups move between stores: what is planned, what is refused, what is read back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ottla.model.errors import ConfigError, OwnershipLost
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import (
    DualOffsets,
    LedgerOffsets,
    OffsetAndMetadata,
    OffsetLedger,
    OffsetStore,
    ZooKeeperOffsets,
    carry_out,
    exported,
    imported,
    plan_migration,
)
from ottla.offsets import MigrationStep as Step
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper
from tests.offsets.conftest import Stores

T0, T1, T2 = (TopicAndPartition("t", number) for number in range(3))
POSITIONS = {T0: OffsetAndMetadata(10), T1: OffsetAndMetadata(0), T2: OffsetAndMetadata(2**40)}


@pytest.fixture
def session() -> Iterator[MemorySession]:
    with MemoryZooKeeper().session() as one:
        yield one


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerOffsets]:
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection:
        offsets = LedgerOffsets(connection)
        offsets.create_table()
        yield offsets


@pytest.fixture
def stores(session: MemorySession, store: Stores, ledger: LedgerOffsets) -> dict[str, OffsetStore]:
    kafka, zookeeper = store(), ZooKeeperOffsets(session)
    return {"kafka": kafka, "zookeeper": zookeeper, "ledger": ledger}


@pytest.mark.parametrize("kind", ["kafka", "zookeeper", "ledger"])
def test_a_store_lists_what_it_has_of_a_group(kind: str, stores: dict[str, OffsetStore]) -> None:
    one, group = stores[kind], f"listed in {kind}".replace(" ", "-")
    assert one.fetch_all(group) == {}
    one.commit(group, {T2: OffsetAndMetadata(7), T0: OffsetAndMetadata(5)})
    one.commit(f"{group}-other", {T1: OffsetAndMetadata(1)})
    assert list(one.fetch_all(group).items()) == [(T0, OffsetAndMetadata(5)), (T2, OffsetAndMetadata(7))]
    assert one.fetch(group, [T0, T1]) == {T0: OffsetAndMetadata(5)}


def test_of_two_stores_the_larger_positions_of_both_are_listed(stores: dict[str, OffsetStore]) -> None:
    kafka, zookeeper = stores["kafka"], stores["zookeeper"]
    kafka.commit("union", {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(5)})
    zookeeper.commit("union", {T1: OffsetAndMetadata(6), T2: OffsetAndMetadata(7)})
    found = DualOffsets(kafka, zookeeper).fetch_all("union")
    assert [(place, one.offset) for place, one in found.items()] == [(T0, 5), (T1, 6), (T2, 7)]


def moves(kinds: str) -> tuple[str, str]:
    source, _, target = kinds.partition(" to ")
    return source, target


@pytest.mark.parametrize(
    "kinds",
    [
        "zookeeper to kafka",
        "kafka to zookeeper",
        "kafka to ledger",
        "ledger to kafka",
        "zookeeper to ledger",
        "ledger to zookeeper",
    ],
)
def test_what_has_moved_is_read_back_and_moving_it_again_changes_nothing(
    kinds: str, stores: dict[str, OffsetStore]
) -> None:
    source, target = (stores[name] for name in moves(kinds))
    group = kinds.replace(" ", "-")
    source.commit(group, POSITIONS)
    plan = plan_migration(group, source.fetch_all(group), target.fetch_all(group))
    assert [(one.topic_partition, one.target, one.step) for one in plan.moves] == [
        (place, None, Step.WRITE) for place in POSITIONS
    ]
    assert carry_out(plan, target) == {}
    assert target.fetch_all(group) == POSITIONS
    again = plan_migration(group, source.fetch_all(group), target.fetch_all(group))
    assert {one.step for one in again.moves} == {Step.SAME}
    assert carry_out(again, target) == {}


def test_a_note_and_an_epoch_move_where_they_can_be_kept(stores: dict[str, OffsetStore]) -> None:
    plan = plan_migration("noted", {T0: OffsetAndMetadata(1, "a note", 4)}, {})
    carry_out(plan, stores["kafka"])
    assert stores["kafka"].fetch_all("noted") == {T0: OffsetAndMetadata(1, "a note", 4)}


def test_a_target_that_is_ahead_is_refused_with_everything_else() -> None:
    ahead = {T1: OffsetAndMetadata(1)}
    plan = plan_migration("g", POSITIONS, ahead)
    assert [one.step for one in plan.moves] == [
        Step.WRITE,
        Step.REFUSE,
        Step.WRITE,
    ]
    assert plan.refusals[0].reason == "the target is ahead (1 > 0): leave it out, or force it"
    forced = plan_migration("g", POSITIONS, ahead, force=True)
    assert forced.writes == POSITIONS
    assert not forced.refusals
    behind = plan_migration("g", POSITIONS, {T0: OffsetAndMetadata(9)})
    assert behind.writes == POSITIONS


def test_a_plan_with_refusals_writes_nothing(session: MemorySession) -> None:
    target = ZooKeeperOffsets(session)
    target.commit("g", {T1: OffsetAndMetadata(1)})
    plan = plan_migration("g", POSITIONS, target.fetch_all("g"))
    with pytest.raises(ConfigError, match="t-1 and 0 more are refused: the target is ahead"):
        carry_out(plan, target)
    assert target.fetch_all("g") == {T1: OffsetAndMetadata(1)}


def test_live_members_refuse_what_would_change() -> None:
    plan = plan_migration("g", POSITIONS, {T0: POSITIONS[T0]}, live=["g_host-1", "a-member"])
    assert [one.step for one in plan.moves] == [
        Step.SAME,
        Step.REFUSE,
        Step.REFUSE,
    ]
    assert "'g' has live members (a-member, g_host-1): stop them" in plan.refusals[0].reason
    assert not plan_migration("g", POSITIONS, {}, live=["a-member"], force=True).refusals


def test_partitions_that_are_gone_stay_behind() -> None:
    plan = plan_migration("g", POSITIONS, {}, known=[T0, T1])
    assert [one.step for one in plan.moves] == [Step.WRITE, Step.WRITE, Step.GONE]
    assert list(plan.writes) == [T0, T1]


def test_what_the_coordinator_refuses_is_told_by_partition(stores: dict[str, OffsetStore]) -> None:
    long = OffsetAndMetadata(1, "x" * 5000)
    failures = carry_out(plan_migration("long", {T0: OffsetAndMetadata(4), T1: long}, {}), stores["kafka"])
    assert list(failures) == [T1]
    assert "offsets of t-1 were not committed" in failures[T1]
    assert stores["kafka"].fetch_all("long") == {T0: OffsetAndMetadata(4)}


class Forgetful(ZooKeeperOffsets):
    """Loses a position, and stores another wrongly."""

    def commit(self, group: str, _: object) -> None:
        super().commit(group, {T0: OffsetAndMetadata(11)})


def test_what_is_read_back_is_compared(session: MemorySession) -> None:
    plan = plan_migration("g", {T0: OffsetAndMetadata(10), T1: OffsetAndMetadata(3)}, {})
    assert carry_out(plan, Forgetful(session)) == {
        T0: "10 was written and 11 is read back",
        T1: "3 was written and nothing is read back",
    }


def test_a_position_from_outside_ends_a_ledgers_worker(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection:
        worker, outside = OffsetLedger(connection, group_id="g"), LedgerOffsets(connection)
        worker.create_table()
        worker.start([T0, T1])
        assert outside.fetch_all("g") == {}  # started, and nothing stored yet
        outside.commit("g", {T0: OffsetAndMetadata(100)})
        with pytest.raises(OwnershipLost), worker.transaction() as cursor:
            worker.record(cursor, T0, 5)
        assert outside.fetch_all("g") == {T0: OffsetAndMetadata(100)}
        assert OffsetLedger(connection, group_id="g").start([T0]) == {T0: 100}


def test_lines_of_text_go_both_ways() -> None:
    text = exported("g", POSITIONS)
    assert text == (
        "/consumers/g/offsets/t/0:10\n/consumers/g/offsets/t/1:0\n/consumers/g/offsets/t/2:1099511627776\n"
    )
    assert imported(text + exported("h", {T0: OffsetAndMetadata(1)})) == {
        "g": POSITIONS,
        "h": {T0: OffsetAndMetadata(1)},
    }
    assert imported("/consumers/g/offsets/t/0:1\n\nwhat comes behind an empty line is not read\n") == {
        "g": {T0: OffsetAndMetadata(1)}
    }


@pytest.mark.parametrize(
    "line",
    ["/consumers/g/offsets/t/0", "/consumers/g/offsets/t/0:x", "/consumers/g/owners/t/0:1", "/a:1", "7",
     "/consumers/g/offsets/t/0:-1", "/consumers/g/offsets/t/one:1", "/consumers/g/offsets/t/0:1:2"],
)  # fmt: skip
def test_a_line_that_is_no_position_is_told_by_its_number(line: str) -> None:
    with pytest.raises(ConfigError, match=r"line 2: .* is not a position"):
        imported(f"/consumers/g/offsets/t/0:1\n{line}\n")


def test_a_group_whose_name_makes_no_path_cannot_be_exported() -> None:
    with pytest.raises(ConfigError, match=r"group.id 'a/b'"):
        exported("a/b", POSITIONS)
