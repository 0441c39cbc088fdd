"""Members, idle connections and readers of the broker's benchmarks do what they count. Nothing is timed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.broker.catching_up import CatchingUp
from benchmarks.broker.frames import NEW, ProduceShape, produce_frames
from benchmarks.broker.load import filled
from benchmarks.broker.members import COMMIT_VERSION, KINDS
from benchmarks.broker.topics import new_topic
from benchmarks.harness import growth, run
from ottla import Admin, EmbeddedBroker
from ottla.admin import NewTopic

MEMBERS, EACH = 3, 2


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    # Members that send their joins together must come into one generation.
    with EmbeddedBroker(group_initial_rebalance_delay_ms=200) as broker:
        yield broker


@pytest.mark.parametrize("kind", KINDS)
def test_members_have_all_partitions_and_are_known(broker: EmbeddedBroker, kind: str) -> None:
    topic = kind.replace(" ", "-")
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic(topic, MEMBERS * EACH))
        with KINDS[kind](("127.0.0.1", broker.port), topic, topic, MEMBERS, EACH) as members:
            members.join()
            owned = [index for member in members.members for index in member.partitions]
            assert sorted(owned) == list(range(MEMBERS * EACH))
            for member in members.members:
                line = member.line
                assert line.ask(members.heartbeat(member), members.heartbeat_version).error_code == 0
                line.ask(members.commit(member), COMMIT_VERSION)
            assert len(admin.group_offsets(topic)) == MEMBERS * EACH


def test_a_reader_that_catches_up_counts_what_it_gets(broker: EmbeddedBroker) -> None:
    address = ("127.0.0.1", broker.port)
    shape = ProduceShape(value_bytes=1000, request_bytes=16_384)
    topics = [filled(address, produce_frames(new_topic(address, NEW), shape, count=1), 5) for _ in range(2)]
    assert CatchingUp(address, topics).finish() > 0


def test_a_cost_of_ten_times_the_size_is_a_power_of_it() -> None:
    result = run(growth("something", {1: [5.0], 10: [2.0, 1.0], 100: [100.0]}, 1.5))
    assert result.ours == pytest.approx(2)
    assert result.peers[0].is_met is False
