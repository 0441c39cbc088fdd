"""Positions in ZooKeeper, and in both worlds at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.model.errors import ConnectionLost, OffsetCommitFailed
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import DualOffsets, OffsetAndMetadata, ZooKeeperOffsets
from ottla.zookeeper import paths
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper
from ottla.zookeeper.zookeeper_errors import ZnodeError
from tests.offsets.conftest import Stores

T0, T1 = TopicAndPartition("t", 0), TopicAndPartition("t", 1)


@pytest.fixture
def session() -> Iterator[MemorySession]:
    with MemoryZooKeeper().session() as one:
        yield one


def test_positions_are_where_the_classic_consumer_keeps_them(session: MemorySession) -> None:
    offsets = ZooKeeperOffsets(session)
    offsets.commit("g", {T0: OffsetAndMetadata(17, "lost", 3)})
    assert session.get("/consumers/g/offsets/t/0").data == b"17"
    session.create_with_parents("/consumers/g/offsets/t/1", b"18")
    assert offsets.fetch("g", [T0, T1, TopicAndPartition("u", 0)]) == {
        T0: OffsetAndMetadata(17),
        T1: OffsetAndMetadata(18),
    }


def test_what_has_not_changed_is_not_written(session: MemorySession) -> None:
    offsets, path = ZooKeeperOffsets(session), paths.offset("g", *T0)

    def version() -> int:
        return session.get(path).stat.version

    offsets.commit("g", {T0: OffsetAndMetadata(1)})
    offsets.commit("g", {T0: OffsetAndMetadata(1)})
    assert version() == 0
    offsets.commit("g", {T0: OffsetAndMetadata(2)})
    assert version() == 1
    another = ZooKeeperOffsets(session)
    another.fetch("g", [T0])
    another.commit("g", {T0: OffsetAndMetadata(2)})
    assert version() == 1


def test_a_position_that_another_wrote_is_known_after_a_fetch(session: MemorySession) -> None:
    offsets, path = ZooKeeperOffsets(session), paths.offset("g", *T0)
    offsets.commit("g", {T0: OffsetAndMetadata(1)})
    session.set(path, b"9")
    assert offsets.fetch("g", [T0]) == {T0: OffsetAndMetadata(9)}
    offsets.commit("g", {T0: OffsetAndMetadata(1)})
    assert session.get(path).data == b"1"


def test_no_offset_is_no_position_and_nonsense_is_named(session: MemorySession) -> None:
    session.create_with_parents(paths.offset("g", *T0), b"-1")
    session.create_with_parents(paths.offset("g", *T1), b"seven")
    assert ZooKeeperOffsets(session).fetch("g", [T0]) == {}
    with pytest.raises(ZnodeError, match="/consumers/g/offsets/t/1"):
        ZooKeeperOffsets(session).fetch("g", [T1])


def test_the_larger_of_two_positions_wins(session: MemorySession, store: Stores) -> None:
    kafka, zookeeper = store(), ZooKeeperOffsets(session)
    kafka.commit("dual", {T0: OffsetAndMetadata(5, "kafka"), T1: OffsetAndMetadata(5)})
    zookeeper.commit("dual", {T0: OffsetAndMetadata(4), T1: OffsetAndMetadata(6)})
    both = DualOffsets(kafka, zookeeper)
    third = TopicAndPartition("t", 2)
    assert both.fetch("dual", [T0, T1, third]) == {
        T0: OffsetAndMetadata(5, "kafka"),
        T1: OffsetAndMetadata(6),
    }
    zookeeper.commit("dual", {third: OffsetAndMetadata(7)})
    assert both.fetch("dual", [third]) == {third: OffsetAndMetadata(7)}


def test_a_node_that_cannot_be_read_does_not_hide_what_kafka_has(
    session: MemorySession, store: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    kafka, zookeeper = store(), ZooKeeperOffsets(session)
    kafka.commit("broken", {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(5)})
    session.create_with_parents(paths.offset("broken", *T0), b"seven")
    zookeeper.commit("broken", {T1: OffsetAndMetadata(6)})
    both = DualOffsets(kafka, zookeeper)
    assert both.fetch("broken", [T0, T1]) == {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(6)}
    (line,) = [record.getMessage() for record in caplog.records]
    assert "/consumers/broken/offsets/t/0" in line
    third = TopicAndPartition("t", 2)
    session.create_with_parents(paths.offset("broken", *third), b"seven")
    with pytest.raises(ZnodeError, match="/consumers/broken/offsets/t/2"):
        both.fetch("broken", [third])


def test_what_is_committed_is_in_both(session: MemorySession, store: Stores) -> None:
    kafka, zookeeper = store(), ZooKeeperOffsets(session)
    DualOffsets(kafka, zookeeper).commit("both", {T0: OffsetAndMetadata(3), T1: OffsetAndMetadata(4)})
    assert kafka.fetch("both", [T0, T1]) == zookeeper.fetch("both", [T0, T1])


def test_what_kafka_refuses_is_in_neither(session: MemorySession, store: Stores) -> None:
    both = DualOffsets(store(), ZooKeeperOffsets(session))
    with pytest.raises(OffsetCommitFailed):
        both.commit("half", {T0: OffsetAndMetadata(1, "x" * 5000), T1: OffsetAndMetadata(4)})
    assert ZooKeeperOffsets(session).fetch("half", [T0, T1]) == {T1: OffsetAndMetadata(4)}
    both.close()
    with pytest.raises(ConnectionLost):
        both.commit("half", {T0: OffsetAndMetadata(1)})
