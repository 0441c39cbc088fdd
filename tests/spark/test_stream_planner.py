"""The driver's side of streaming queries, called as Spark calls it, against a broker and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import EmbeddedBroker
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MonotonicClock
from ottla.model.errors import DataLost
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets, OffsetAndMetadata
from ottla.spark.range_planner import TaskRange
from ottla.spark.source_options import Mode, source_options
from ottla.spark.stream_planner import StreamPlanner
from tests.spark.conftest import Filled

Planners = Callable[..., StreamPlanner]


class Stepping(MonotonicClock):
    """A second later each time it is looked at, so that nothing that was asked before is used again."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def now_ms(self) -> float:
        self.at_ms += 1000
        return self.at_ms


@pytest.fixture
def planner(broker: EmbeddedBroker, topic: str) -> Iterator[Planners]:
    made: list[StreamPlanner] = []

    def make(clock: MonotonicClock | None = None, **options: str) -> StreamPlanner:
        what = {} if "subscribePattern" in options else {"subscribe": topic}
        given = {"kafka.bootstrap.servers": broker.bootstrap, **what, **options}
        made.append(StreamPlanner(source_options(given, Mode.STREAM), clock or Stepping()))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def store(broker: EmbeddedBroker) -> Iterator[KafkaOffsets]:
    with KafkaOffsets(ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap})) as one:
        yield one


def read_by(tasks: list[Any]) -> dict[int, tuple[int, int]]:
    return {one.topic_partition.partition: (one.start, one.end) for task in tasks for one in task}


def go_on(planner: StreamPlanner, start: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    return planner.latest_offset(start, most, takes_all=most is None)


@pytest.mark.parametrize("repeats", [False, True])
def test_a_start_that_moves_is_kept_by_an_empty_first_batch(
    planner: Planners, topic: str, fill: Filled, repeats: bool
) -> None:
    fill(topic, range(30))
    before = planner(startingOffsets="latest")
    start = before.initial_offset()
    fill(topic, range(30, 60))
    assert before.initial_offset() == start == {topic: {"0": 10, "1": 10, "2": 10}}
    end = go_on(before, start)
    assert end == start
    assert before.tasks(start, end) == []
    if repeats:  # the driver was killed in the first batch
        fill(topic, range(60, 90))
        before = planner(startingOffsets="latest")
        moved = before.initial_offset()
        assert moved == {topic: {"0": 30, "1": 30, "2": 30}}
        assert before.tasks(moved, end) == before.tasks(moved, end) == []
    after = go_on(before, end)
    last = 30 if repeats else 20
    assert after == {topic: {"0": last, "1": last, "2": last}}
    assert read_by(before.tasks(end, after)) == {0: (10, last), 1: (10, last), 2: (10, last)}


def test_a_first_batch_that_is_repeated_leaves_new_partitions_to_the_next(
    planner: Planners, broker: EmbeddedBroker, topic: str, fill: Filled
) -> None:
    fill(topic, range(30))
    before = planner(subscribePattern=f"^{topic}", startingOffsets="earliest")
    end = go_on(before, before.initial_offset())
    broker.create_topic(f"{topic}-more", 1)
    fill(f"{topic}-more", range(5), 1)
    again = planner(subscribePattern=f"^{topic}", startingOffsets="earliest")
    start = again.initial_offset()
    assert read_by(again.tasks(start, end)) == {0: (0, 10), 1: (0, 10), 2: (0, 10)}
    assert again.tasks(end, go_on(again, end)) == [(TaskRange(TopicAndPartition(f"{topic}-more", 0), 0, 5),)]


def test_nothing_new_is_the_same_offset(planner: Planners, topic: str, fill: Filled) -> None:
    fill(topic, range(3))
    one = planner(startingOffsets="earliest")
    start = one.initial_offset()
    end = go_on(one, start)
    assert go_on(one, end) is end
    assert one.report_latest() == {topic: {"0": 1, "1": 1, "2": 1}}


def test_limits_are_kept_until_all_is_read(planner: Planners, topic: str, fill: Filled) -> None:
    fill(topic, range(300))
    one = planner(startingOffsets="earliest", maxOffsetsPerTrigger="90")
    at = one.initial_offset()
    seen: dict[int, int] = {0: 0, 1: 0, 2: 0}
    batches = 0
    while (end := go_on(one, at, 90)) is not at:
        for number, (first, last) in read_by(one.tasks(at, end)).items():
            assert seen[number] == first
            seen[number] = last
        at, batches = end, batches + 1
    assert seen == {0: 100, 1: 100, 2: 100}
    assert batches == 4


def test_tasks_are_planned_without_a_question_if_the_logs_were_seen_a_moment_ago(
    broker: EmbeddedBroker, planner: Planners, topic: str, fill: Filled
) -> None:
    fill(topic, range(60))
    query = planner(MonotonicClock(), startingOffsets="earliest")
    start = query.initial_offset()
    first = go_on(query, start, 30)
    assert read_by(query.tasks(start, first)) == {0: (0, 10), 1: (0, 10), 2: (0, 10)}
    second = go_on(query, first, 30)
    broker.fail("ListOffsets", "CLUSTER_AUTHORIZATION_FAILED", times=-1)
    try:
        assert read_by(query.tasks(first, second)) == {0: (10, 20), 1: (10, 20), 2: (10, 20)}
    finally:
        broker.clear_faults()


def test_a_small_batch_waits_for_more(planner: Planners, topic: str, fill: Filled) -> None:
    fill(topic, range(3))
    one = planner(startingOffsets="earliest", minOffsetsPerTrigger="30", maxTriggerDelay="1h")
    at = go_on(one, one.initial_offset(), 1000)
    fill(topic, range(3, 9))
    assert go_on(one, at, 1000) is at
    assert go_on(one, at) is not at  # unless the trigger wants everything
    fill(topic, range(9, 60))
    assert go_on(one, at, 1000) == {topic: {"0": 20, "1": 20, "2": 20}}


def test_available_now_ends_at_what_there_was(planner: Planners, topic: str, fill: Filled) -> None:
    fill(topic, range(9))
    one = planner(startingOffsets="earliest")
    one.prepare_available_now()
    fill(topic, range(9, 18))
    end = go_on(one, one.initial_offset())
    assert end[topic] == {"0": 3, "1": 3, "2": 3}
    assert go_on(one, end) is end


def test_new_topics_of_a_pattern_are_read_from_their_beginning(
    planner: Planners, broker: EmbeddedBroker, topic: str, fill: Filled
) -> None:
    one = planner(subscribePattern=f"{topic}.*")
    at = go_on(one, one.initial_offset())
    broker.create_topic(f"{topic}-more", 1)
    fill(f"{topic}-more", range(5), 1)
    end = go_on(one, at)
    assert end[f"{topic}-more"] == {"0": 5}
    assert one.tasks(at, end) == [(TaskRange(TopicAndPartition(f"{topic}-more", 0), 0, 5),)]


def test_a_topic_made_anew_is_loss_or_is_read_from_its_beginning(
    planner: Planners, broker: EmbeddedBroker, topic: str, fill: Filled
) -> None:
    fill(topic, range(30))
    strict, lenient = planner(), planner(failOnDataLoss="false")
    at = go_on(strict, strict.initial_offset())
    broker.delete_topic(topic)
    broker.create_topic(topic, 3)
    fill(topic, range(6))
    end = go_on(strict, at)
    with pytest.raises(DataLost, match="made anew"):
        strict.tasks(at, end)
    assert read_by(lenient.tasks(at, end)) == {0: (0, 2), 1: (0, 2), 2: (0, 2)}


def test_a_topic_that_is_gone_is_loss(
    planner: Planners, broker: EmbeddedBroker, topic: str, fill: Filled
) -> None:
    fill(topic, range(30))
    strict, lenient = planner(), planner(failOnDataLoss="false")
    at = go_on(strict, strict.initial_offset())
    broker.delete_topic(topic)
    end = go_on(strict, at)
    with pytest.raises(DataLost, match="not there any more"):
        strict.tasks(at, end)
    assert lenient.tasks(at, end) == []


def test_a_topic_that_was_there_a_moment_ago_is_loss(
    planner: Planners, broker: EmbeddedBroker, topic: str, fill: Filled
) -> None:
    fill(topic, range(30))
    one = planner(**{"partition.metadata.cache.ttl.ms": "3600000", "kafka.request.timeout.ms": "500"})
    at = go_on(one, one.initial_offset())
    broker.delete_topic(topic)
    with pytest.raises(DataLost, match="not there any more"):
        one.tasks(at, go_on(one, at))


def test_a_group_gets_the_offsets_of_batches_that_are_done(
    planner: Planners, topic: str, fill: Filled, store: KafkaOffsets
) -> None:
    places = [TopicAndPartition(topic, number) for number in range(3)]
    fill(topic, range(9))
    one = planner(startingOffsets="earliest", **{"group.id": "shadow"})
    start = one.initial_offset()
    end = go_on(one, start)
    assert store.fetch("shadow", places) == {}  # the batch is planned, not done
    assert go_on(one, end) is end
    assert {place: found.offset for place, found in store.fetch("shadow", places).items()} == dict.fromkeys(
        places, 3
    )


def test_a_query_begins_where_a_group_is(
    planner: Planners, topic: str, fill: Filled, store: KafkaOffsets
) -> None:
    fill(topic, range(30))
    store.commit("before", {TopicAndPartition(topic, 1): OffsetAndMetadata(7)})
    one = planner(startingOffsets="group", **{"group.id": "before"})
    assert one.initial_offset() == {topic: {"0": 0, "1": 7, "2": 0}}


def test_a_commit_that_fails_does_not_stop_the_query(
    planner: Planners, broker: EmbeddedBroker, topic: str, fill: Filled
) -> None:
    fill(topic, range(3))
    one = planner(startingOffsets="earliest", **{"group.id": "refused"})
    end = go_on(one, one.initial_offset())
    broker.fail("OffsetCommit", 25, times=-1)  # UNKNOWN_MEMBER_ID: the group has live members
    try:
        assert go_on(one, end) is end
    finally:
        broker.clear_faults()
