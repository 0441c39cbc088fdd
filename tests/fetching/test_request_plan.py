"""Which partitions are asked for, how much, in which order, and how long the broker may wait."""

from __future__ import annotations

import pytest

from ottla.fetching.budget import FetchBudget
from ottla.fetching.cursor import FETCH_BYTES_MIN, Cursor
from ottla.fetching.feed_interface import Want
from ottla.fetching.fetch_config import FetchConfig, IsolationLevel
from ottla.fetching.request_plan import (
    FULL_WAIT_MS,
    FetchPlan,
    FetchTurn,
    fetch_request,
    newest_version,
    plan_fetch,
)
from ottla.model.cluster_view import NO_TOPIC_ID, BrokerNode, PartitionLeader
from ottla.model.offset_spec import EARLIEST
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.schema import encode
from tests.fetching.tables import PLENTY, TOPIC_ID, cursor

MB = 1 << 20
CONFIG = FetchConfig(fetch_wait_max_ms=500, max_processing_time_ms=100, fetch_message_max_bytes=MB)


def cursors(count: int, *, lag: int | None = PLENTY) -> list[Cursor]:
    return [cursor(TopicAndPartition("t", number), 10 * number, lag=lag) for number in range(count)]


def plan(
    turns: list[Cursor] | list[tuple[Cursor, Want]],
    config: FetchConfig = CONFIG,
    *,
    memory: int = PLENTY,
    now_ms: float = 0,
    is_limited: bool = True,
) -> FetchPlan:
    budget, most = FetchBudget(memory), config.fetch_message_max_bytes
    pairs = [turn if isinstance(turn, tuple) else (turn, Want.FETCH) for turn in turns]
    ready = (FetchTurn(one, want, one.request_bytes(most, budget.share_bytes(0))) for one, want in pairs)
    found = plan_fetch(ready, config, budget=budget, now_ms=now_ms, is_limited=is_limited)
    assert budget.held_bytes == found.held_bytes
    return found


def asked(found: FetchPlan) -> list[int]:
    return [place.partition for place in found.requests]


def test_partitions_are_asked_for_in_the_order_of_their_turns_where_they_are() -> None:
    found = plan(cursors(2))
    assert [(place.partition, one.offset, one.size) for place, one in found.requests.items()] == [
        (0, 0, MB),
        (1, 10, MB),
    ]
    assert found.max_wait_ms == 500


def test_partitions_that_are_behind_fill_an_answer_and_the_rest_has_its_turn_later() -> None:
    assert asked(plan(cursors(100))) == [0, 1]  # 2 MB
    assert asked(plan(cursors(100, lag=0))) == list(range(100))


def test_partitions_that_nothing_is_known_of_count_for_less() -> None:
    assert asked(plan(cursors(100, lag=None))) == list(range(16))


def test_partitions_that_are_a_little_behind_count_for_what_they_will_bring() -> None:
    some = cursors(100, lag=10)
    assert asked(plan(some)) == [0, 1]  # who knows how large their records are
    for one in some:
        one.learn(wire_bytes=100_000, chunk_bytes=150_000, offsets=10)
    found = plan(some)
    assert asked(found) == list(range(20))
    assert found.held_bytes == 20 * 200_000


def test_partitions_at_their_end_are_asked_for_as_well_and_cost_nothing() -> None:
    idle, behind = cursors(50, lag=0), cursors(100)[50:]
    assert asked(plan([*idle, *behind])) == list(range(52))


def test_an_answer_is_never_asked_to_be_larger_than_the_user_allows() -> None:
    assert plan(cursors(9), FetchConfig(fetch_max_bytes=100)).max_bytes == 100
    assert plan(cursors(9), FetchConfig(fetch_message_max_bytes=20 * MB)).max_bytes == 20 * MB
    assert asked(plan(cursors(9), FetchConfig(fetch_max_bytes=100))) == [0]


def test_before_version_3_what_is_asked_for_is_the_limit() -> None:
    config = FetchConfig(fetch_max_bytes=10 * MB, fetch_message_max_bytes=MB)
    assert asked(plan(cursors(100, lag=0), config, is_limited=False)) == list(range(10))


def test_partitions_share_the_memory() -> None:
    (one,) = plan(cursors(1), memory=600_000).requests.values()
    assert one.size == 300_000  # columns may take twice the bytes
    (one,) = plan(cursors(1), memory=10).requests.values()
    assert one.size == FETCH_BYTES_MIN


def test_what_is_asked_for_leaves_less_to_the_next() -> None:
    first, second = plan(cursors(2), memory=1_200_000).requests.values()
    assert first.size == 600_000
    assert second.size == 300_000  # its own half of the memory


def test_compressed_data_is_asked_for_by_what_it_becomes() -> None:
    one = cursor()
    one.learn(wire_bytes=1000, chunk_bytes=10_000, offsets=10)
    (found,) = plan([one], memory=1_000_000).requests.values()
    assert found.size == 100_000


@pytest.mark.parametrize(
    ("others", "max_wait_ms"),
    [
        ([], 500),
        ([Want.IDLE], 500),
        ([Want.FULL], FULL_WAIT_MS),  # its reader is about to make room
        ([Want.PARKED], 100),
        ([Want.PARKED, Want.FULL], FULL_WAIT_MS),
    ],
)
def test_who_cannot_be_asked_for_limits_the_wait_of_the_others(others: list[Want], max_wait_ms: int) -> None:
    turns = list(zip(cursors(3, lag=0), [*others, *[Want.FETCH] * 3], strict=False))
    found = plan(turns)
    assert asked(found) == [number for number, (_, want) in enumerate(turns) if want is Want.FETCH]
    assert found.max_wait_ms == max_wait_ms


def test_who_failed_waits_and_limits_the_wait_of_the_others() -> None:
    failed, sound = cursors(2)
    failed.retry_at_ms = 1100
    found = plan([failed, sound], now_ms=1000)
    assert (asked(found), found.max_wait_ms, found.wake_at_ms) == ([1], 100, 1100)
    assert asked(plan([failed, sound], now_ms=1100)) == [0, 1]


def test_nothing_is_asked_for_before_its_offset_is_known() -> None:
    lost, placed = cursors(2)
    lost.look_up(EARLIEST)
    assert asked(plan([lost, placed])) == [1]


def test_nothing_is_asked_for_ahead_of_what_may_be_damaged() -> None:
    one = cursor(offset=5)
    one.pending_bytes = 100  # an answer without a sound entry waits to be decoded
    assert asked(plan([one])) == []
    one.ahead = 8
    (found,) = plan([one]).requests.values()
    assert found.offset == 8


def test_neighbours_of_a_topic_stand_together_and_the_order_stays() -> None:
    places = [("a", 1), ("a", 0), ("b", 0), ("a", 2)]
    request = fetch_request(plan([cursor(TopicAndPartition(*place), lag=0) for place in places]), CONFIG)
    assert [(topic.topic, [one.partition for one in topic.partitions]) for topic in request.topics] == [
        ("a", [1, 0]),
        ("b", [0]),
        ("a", [2]),
    ]


@pytest.mark.parametrize("version", range(19))
def test_every_version_can_carry_the_request(version: int) -> None:
    one = cursor()
    one.leader = PartitionLeader(BrokerNode(1, "host", 9092), 3)
    config = FetchConfig(isolation_level=IsolationLevel.READ_COMMITTED)
    request = fetch_request(plan([one], config), config)
    assert encode(request, version)
    assert request.topics[0].partitions[0].current_leader_epoch == 3
    assert request.topics[0].topic_id == TOPIC_ID
    assert (request.isolation_level, request.session_epoch) == (1, -1)


def test_topics_without_ids_are_named_in_a_version_that_has_names() -> None:
    named = cursor()
    named.topic_id = NO_TOPIC_ID
    assert newest_version([cursor()]) is None
    assert newest_version([cursor(), named]) == 12
