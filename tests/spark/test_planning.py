"""The pure middle: offsets' JSON, how far a batch goes, which task reads what, what is lost."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.admission import BatchLimits, backlog, is_held_back, limited
from ottla.spark.data_loss import Bounds, ranges_between
from ottla.spark.offset_json import from_spark, start_in, to_spark
from ottla.spark.positions import check_complete
from ottla.spark.range_planner import TaskRange, TaskSizes, plan

A, B, C = (TopicAndPartition("a", 0), TopicAndPartition("a", 1), TopicAndPartition("b", 0))


def test_offsets_are_written_as_spark_writes_them() -> None:
    text = json.dumps(to_spark({C: 7, B: 2, A: 1}))
    assert text == '{"a": {"0": 1, "1": 2}, "b": {"0": 7}}'
    assert from_spark(json.loads(text)) == {A: 1, B: 2, C: 7}
    assert start_in(json.loads(text)) is None


def test_the_first_batch_of_an_old_checkpoint_has_where_the_query_began() -> None:
    made = {"@start": {"a": {"0": 4}}, "a": {"0": 9}}
    assert start_in(made) == {A: 4}
    assert from_spark(made) == {A: 9}


def test_offsets_that_are_given_are_given_for_all() -> None:
    check_complete("startingOffsets", {A: 1}, {A})
    with pytest.raises(ConfigError, match="has no a-1"):
        check_complete("startingOffsets", {A: 1}, {A, B})
    with pytest.raises(ConfigError, match="has b-0"):
        check_complete("startingOffsets", {A: 1, C: 1}, {A})


# --- admission


def test_a_limit_is_shared_by_backlog_and_nobody_starves() -> None:
    start, latest = {A: 0, B: 100, C: 5}, {A: 900, B: 200, C: 5}
    assert limited(start, latest, None) == latest
    assert limited(start, latest, 1000) == latest
    assert limited(start, latest, 100) == {A: 90, B: 110, C: 5}
    assert limited({A: 0, B: 0}, {A: 10_000, B: 1}, 10) == {A: 9, B: 1}


def test_a_log_that_ends_before_its_start_is_not_limited() -> None:
    assert limited({A: 50, B: 0}, {A: 3, B: 100}, 10) == {A: 3, B: 10}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_batch_makes_progress_until_all_is_read(seed: int) -> None:
    chance = random.Random(seed)
    latest = {TopicAndPartition("t", number): chance.randrange(1000) for number in range(20)}
    at = dict.fromkeys(latest, 0)
    batches = 0
    while at != latest:
        end = limited(at, latest, 137)
        assert all(at[place] <= end[place] <= latest[place] for place in latest)
        assert 0 < backlog(at, end) <= 137 + len(latest)
        at, batches = end, batches + 1
    assert batches <= sum(latest.values()) // (137 - len(latest)) + 2


def test_a_small_batch_waits_but_not_for_ever() -> None:
    limits = BatchLimits(None, 10, 1000)
    assert is_held_back(9, 999, limits)
    assert not is_held_back(10, 0, limits)
    assert not is_held_back(9, 1000, limits)
    assert not is_held_back(0, 0, BatchLimits())


# --- tasks


def covered(tasks: list[tuple[TaskRange, ...]]) -> dict[TopicAndPartition, list[int]]:
    got: dict[TopicAndPartition, list[int]] = {}
    for task in tasks:
        for one in task:
            got.setdefault(one.topic_partition, []).extend(range(one.start, one.end))
    return {place: sorted(offsets) for place, offsets in got.items()}


def test_small_ranges_share_a_task_and_large_ones_have_their_own() -> None:
    quiet = [TaskRange(TopicAndPartition("quiet", number), 5, 15) for number in range(100)]
    busy = TaskRange(A, 0, 1_000_000)
    tasks = plan([*quiet, busy, TaskRange(B, 3, 3)], TaskSizes(min_records=500))
    assert (busy,) in tasks
    assert len(tasks) == 3
    assert Counter(one for task in tasks for one in task) == Counter([*quiet, busy])


def test_nothing_is_merged_if_not_wanted() -> None:
    ranges = [TaskRange(TopicAndPartition("t", number), 0, 1) for number in range(5)]
    assert len(plan(ranges, TaskSizes(min_records=0))) == 5
    assert len(plan(ranges, TaskSizes(min_partitions=5))) == 5
    assert len(plan(ranges, TaskSizes(min_partitions=3))) == 3
    assert plan([], TaskSizes()) == []


def test_large_ranges_are_split_as_asked() -> None:
    ranges = [TaskRange(A, 0, 90), TaskRange(B, 10, 20)]
    by_count = plan(ranges, TaskSizes(min_partitions=10))
    assert len(by_count) == 10
    assert max(one.size for task in by_count for one in task) == 10
    assert len(plan(ranges, TaskSizes(max_records=20, min_records=0))) == 6
    assert len(plan([TaskRange(A, 0, 3)], TaskSizes(min_partitions=10))) == 3


def test_tasks_are_sized_by_bytes() -> None:
    sizes = TaskSizes(max_bytes=1000)
    ranges = [TaskRange(A, 0, 90), TaskRange(B, 10, 20)]
    tasks = plan(ranges, sizes, {A: 100.0, B: 5000.0})
    assert sorted(one.size for task in tasks for one in task) == [1] * 10 + [10] * 9
    assert len(tasks) == 19
    assert len(plan(ranges, sizes, {A: 1.0, B: 1.0})) == 1
    few = [TaskRange(TopicAndPartition("t", number), 0, 6) for number in range(10)]
    assert len(plan(few, sizes, dict.fromkeys((one.topic_partition for one in few), 50.0))) == 3
    assert plan(ranges, sizes, {}) == [tuple(ranges)]  # nobody tells how large they are


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_offset_is_in_one_task_and_no_task_has_a_partition_twice(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        ranges = [
            TaskRange(TopicAndPartition("t", number), start, start + chance.choice([0, 1, 7, 90, 400]))
            for number, start in enumerate(chance.choices(range(50), k=chance.randrange(8)))
        ]
        sizes = TaskSizes(
            chance.choice([None, 1, 3, 11]),
            chance.choice([None, 1, 40]),
            chance.choice([0, 5, 100]),
            chance.choice([None, 30, 1000]),
        )
        densities = {one.topic_partition: chance.choice([0.0, 0.1, 7.0, 100.0]) for one in ranges[1:]}
        tasks = plan(ranges, sizes, densities)
        wanted = {one.topic_partition: list(range(one.start, one.end)) for one in ranges if one.size}
        assert covered(tasks) == wanted, (ranges, sizes)
        for task in tasks:
            assert len({one.topic_partition for one in task}) == len(task), (ranges, sizes)
        if sizes.max_records is not None:
            assert all(sum(one.size for one in task) <= sizes.max_records for task in tasks)
        if sizes.min_partitions is not None:
            assert len(tasks) >= min(sizes.min_partitions, sum(one.size for one in ranges))


@pytest.mark.parametrize(("most", "tasks"), [(300, 400), (1000, 100), (2500, 50)])
def test_no_task_has_more_than_max_records_per_partition(most: int, tasks: int) -> None:
    ranges = [TaskRange(TopicAndPartition("t", number), 0, 1000) for number in range(100)]
    made = plan(ranges, TaskSizes(max_records=most))
    assert len(made) == tasks
    assert max(sum(one.size for one in task) for task in made) <= most


# --- loss


def test_what_is_there_is_read_whole() -> None:
    found = ranges_between({A: 5}, {A: 9, B: 4}, Bounds({A: 0, B: 0}, {A: 20, B: 4}))
    assert found.ranges == [TaskRange(A, 5, 9), TaskRange(B, 0, 4)]
    assert not found.losses


@pytest.mark.parametrize(
    ("start", "end", "earliest", "latest", "left", "words"),
    [
        ({A: 5, B: 1}, {A: 9}, {A: 0}, {A: 9}, [TaskRange(A, 5, 9)], "a-1: it was at offset 1"),
        ({A: 5}, {A: 9}, {}, {}, [], "not there any more"),
        ({A: 5}, {A: 9}, {A: 7}, {A: 9}, [TaskRange(A, 7, 9)], "offsets 5 to 6"),
        ({A: 5}, {A: 9}, {A: 12}, {A: 12}, [], "offsets 5 to 8"),
        ({A: 50}, {A: 9}, {A: 0}, {A: 12}, [TaskRange(A, 0, 9)], "made anew"),
        ({A: 5}, {A: 9}, {A: 0}, {A: 7}, [TaskRange(A, 5, 7)], "the log ends at 7"),
        ({}, {A: 9}, {A: 3}, {A: 9}, [TaskRange(A, 3, 9)], "is new, and begins at offset 3"),
    ],
)
def test_what_is_lost_is_told(
    start: dict[TopicAndPartition, int],
    end: dict[TopicAndPartition, int],
    earliest: dict[TopicAndPartition, int],
    latest: dict[TopicAndPartition, int],
    left: list[TaskRange],
    words: str,
) -> None:
    found = ranges_between(start, end, Bounds(earliest, latest))
    assert found.ranges == left
    assert len(found.losses) == 1
    assert words in found.losses[0]


def test_a_partition_without_new_records_may_have_lost_old_ones() -> None:
    assert ranges_between({A: 5}, {A: 5}, Bounds({A: 9}, {A: 9})) == ([], [])
