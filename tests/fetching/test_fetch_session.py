"""The client's side of fetch sessions, with the broker's core as the other end."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.serving.fetch_sessions import FetchSessions
from ottla.broker.storage.memory import Share
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_session import ClientSession
from ottla.fetching.request_plan import FetchPlan, PartitionRequest
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.fetch import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from tests.scale import seeded, sized

CONFIG = FetchConfig()
PLACES = [TopicAndPartition(topic, index) for topic in ("a", "b") for index in range(4)]


class Broker:
    """Answers fetches of sessions from logs that are only their ends."""

    def __init__(self) -> None:
        numbers = count(1)
        self.sessions = FetchSessions(Share(1 << 20), lambda: next(numbers))
        self.ends = dict.fromkeys(PLACES, 0)
        self.named: list[int] = []  # how many partitions each request named

    def answer(self, request: FetchRequest) -> FetchResponse:
        self.named.append(sum(len(topic.partitions) for topic in request.topics))
        if request.session_epoch == 0:
            self.sessions.drop(request.session_id)
            return self.sessions.begin(request, self._read(request.topics), uses_ids=False, now_ms=0)
        session = self.sessions.go_on(request, uses_ids=False, now_ms=0)
        if isinstance(session, Code):
            return FetchResponse(error_code=session)
        return session.news(self._read(session.topics()))

    def _read(self, topics: list[Any]) -> FetchResponse:
        return FetchResponse(
            responses=[
                FetchTopicResponse(topic=topic.topic, partitions=[self._one(topic.topic, one)])
                for topic in topics
                for one in topic.partitions
            ]
        )

    def _one(self, topic: str, wanted: Any) -> FetchPartitionResponse:
        end = self.ends[TopicAndPartition(topic, wanted.partition)]
        return FetchPartitionResponse(
            partition_index=wanted.partition,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            records=b"r" * (end - wanted.fetch_offset),
        )


def plan_of(
    wanted: dict[TopicAndPartition, int], size: int = 100, epoch: int = 0, lag: int | None = 1
) -> FetchPlan:
    requests = {}
    for where, offset in wanted.items():
        feed = SimpleNamespace(topic_partition=where, trouble=None)
        about = {"topic_id": bytes(16), "leader_epoch": epoch, "lag": lag, "failures": 0, "resting": None}
        cursor: Any = SimpleNamespace(feed=feed, **about)
        requests[where] = PartitionRequest(cursor, 0, offset, size)
    return FetchPlan(requests=requests)


def seen(response: FetchResponse) -> dict[TopicAndPartition, tuple[int, int]]:
    return {
        TopicAndPartition(topic.topic, one.partition_index): (one.high_watermark, len(one.records or b""))
        for topic in response.responses
        for one in topic.partitions
    }


@pytest.mark.parametrize("seed", range(sized(20, 5000)))
def test_answers_are_those_of_full_fetches(seed: int) -> None:
    """Random plans, appends, epochs of leaders, sizes, lost sessions."""
    chance = seeded(f"client sessions {seed}")
    broker, session = Broker(), ClientSession()
    for _ in range(60):
        for where in PLACES:
            broker.ends[where] += chance.choice([0, 0, 0, 2])
        wanted = {where: chance.randint(0, broker.ends[where]) for where in PLACES if chance.random() < 0.7}
        if not wanted:
            continue
        if chance.random() < 0.1:
            broker.sessions.sessions.clear()
        plan = plan_of(wanted, chance.choice([100, 200]), chance.choice([0, 0, 0, 1]))
        response = session.whole(plan, broker.answer(session.request(plan, CONFIG, uses_ids=False)))
        if response is None:
            response = session.whole(plan, broker.answer(session.request(plan, CONFIG, uses_ids=False)))
        assert response is not None
        assert seen(response) == {
            where: (broker.ends[where], broker.ends[where] - offset) for where, offset in wanted.items()
        }


def test_requests_and_answers_of_idle_partitions_are_empty() -> None:
    broker, session = Broker(), ClientSession()
    plan = plan_of(dict.fromkeys(PLACES, 0), lag=0)
    for _ in range(5):
        response = session.whole(plan, broker.answer(session.request(plan, CONFIG, uses_ids=False)))
    assert response is not None
    assert (broker.named, response.responses) == ([len(PLACES), 0, 0, 0, 0], [])


def test_a_smaller_size_is_told_and_a_larger_one_only_with_something_else() -> None:
    broker, session = Broker(), ClientSession()
    wanted = dict.fromkeys(PLACES, 0)
    for size in (100, 200, 50, 100):
        plan = plan_of(wanted, size)
        session.whole(plan, broker.answer(session.request(plan, CONFIG, uses_ids=False)))
    assert broker.named == [len(PLACES), 0, len(PLACES), 0]


def test_other_names_of_topics_begin_another_session() -> None:
    broker, session = Broker(), ClientSession()
    plan = plan_of(dict.fromkeys(PLACES, 0))
    session.whole(plan, broker.answer(session.request(plan, CONFIG, uses_ids=False)))
    assert session.request(plan, CONFIG, uses_ids=False).session_epoch == 1
    other = session.request(plan, CONFIG, uses_ids=True)
    assert (other.session_epoch, other.session_id) == (0, 1)


def test_an_error_of_a_full_fetch_is_left_to_the_partitions() -> None:
    """So that a broker that always fails is asked with pauses."""
    session = ClientSession()
    plan = plan_of({PLACES[0]: 0})
    session.request(plan, CONFIG, uses_ids=False)
    error = FetchResponse(error_code=Code.FETCH_SESSION_ID_NOT_FOUND)
    assert session.whole(plan, error) is error


def test_a_topic_that_was_made_anew_is_forgotten_under_its_old_id() -> None:
    session = ClientSession()
    plan = plan_of({PLACES[0]: 0})
    session.request(plan, CONFIG, uses_ids=True)
    session.whole(plan, FetchResponse(session_id=7))
    again: Any = plan_of({PLACES[0]: 0})
    again.requests[PLACES[0]].cursor.topic_id = b"n" * 16
    request = session.request(again, CONFIG, uses_ids=True)
    assert [(one.topic_id, one.partitions) for one in request.forgotten_topics_data] == [(bytes(16), [0])]
    assert [topic.topic_id for topic in request.topics] == [b"n" * 16]


def test_the_last_request_ends_the_session() -> None:
    broker, session = Broker(), ClientSession()
    assert session.farewell() is None
    plan = plan_of({PLACES[0]: 0})
    session.whole(plan, broker.answer(session.request(plan, CONFIG, uses_ids=False)))
    last = session.farewell()
    assert last is not None
    assert ([last.session_id], last.session_epoch, last.topics) == ([*broker.sessions.sessions], -1, [])
