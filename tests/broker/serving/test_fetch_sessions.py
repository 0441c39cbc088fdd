"""Fetch sessions (KIP-227): against a naive oracle, at their limits, and beside Kafka's own over a socket."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.serving.fetch_sessions import EVICTION_MS, PARTITION_BYTES, FetchSession, FetchSessions
from ottla.broker.storage.memory import Share
from ottla.model.error_codes import Code
from ottla.wire.api.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
)
from tests.broker.handlers.admin.calls import create
from tests.broker.handlers.admin.calls import topic as new_topic
from tests.broker.traffic import answers, data_of, fetch_request, fill, one, rows
from tests.broker.wire_client import Client
from tests.scale import seeded, sized
from tests.waiting import wait_for
from tools.peers import KAFKA_4, RealKafka

Log = dict[tuple[str, int], "Place"]


class Place:
    """A partition of the naive cluster: where it begins and ends, and whether this broker leads it."""

    def __init__(self) -> None:
        self.start, self.end, self.error = 0, 0, 0


def full_answer(logs: Log, wanted: dict[tuple[str, int], int]) -> FetchResponse:
    """What a full fetch gets: every partition, with records if there are any behind the offset."""
    topics = []
    for (name, index), offset in wanted.items():
        log = logs[name, index]
        has_more = not log.error and offset < log.end
        answer = FetchPartitionResponse(
            partition_index=index,
            error_code=log.error,
            high_watermark=-1 if log.error else log.end,
            log_start_offset=-1 if log.error else log.start,
            records=b"r" if has_more else b"",
        )
        topics.append(FetchTopicResponse(topic=name, partitions=[answer]))
    return FetchResponse(responses=topics)


def request_of(
    wanted: dict[tuple[str, int], int],
    session_id: int = 0,
    epoch: int = 0,
    forgotten: Sequence[tuple[str, int]] = (),
) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(topic=name, partitions=[FetchPartition(partition=index, fetch_offset=offset)])
            for (name, index), offset in wanted.items()
        ],
        forgotten_topics_data=[ForgottenTopic(topic=name, partitions=[index]) for name, index in forgotten],
    )


def by_partition(response: FetchResponse) -> dict[tuple[str, int], tuple[int, int, int, bool]]:
    return {
        (topic.topic, answer.partition_index): (
            answer.error_code,
            answer.high_watermark,
            answer.log_start_offset,
            bool(answer.records),
        )
        for topic in response.responses
        for answer in topic.partitions
    }


def sessions_of(slots: int = 1000, limit: int = 1 << 20) -> FetchSessions:
    numbers = count(1)
    return FetchSessions(Share(limit), lambda: next(numbers), slots)


@pytest.mark.parametrize("seed", range(sized(20, 5000)))
def test_a_client_of_a_session_knows_what_full_fetches_would_tell(seed: int) -> None:
    """Random adds, forgets, appends, cuts, moved leaders, wrong epochs: told changes add up to the truth."""
    chance = seeded(f"sessions {seed}")
    logs: Log = {(name, index): Place() for name in "abc" for index in range(4)}
    sessions, now_ms = sessions_of(), 0
    wanted: dict[tuple[str, int], int] = {}
    known: dict[tuple[str, int], tuple[int, int, int]] = {}
    session_id, epoch = 0, 0
    for _ in range(60):
        _change(chance, logs)
        before = dict(wanted)
        wanted = {key: chance.randint(0, logs[key].end) for key in logs if chance.random() < 0.6}
        if not wanted:
            continue
        truth = by_partition(full_answer(logs, wanted))
        if not session_id or chance.random() < 0.05:
            request = request_of(wanted, session_id, 0)
            sessions.drop(session_id)
            response = sessions.begin(request, full_answer(logs, wanted), uses_ids=False, now_ms=now_ms)
            known, session_id, epoch = {}, response.session_id, 1
            told = by_partition(response)
            assert told == truth
        else:
            if chance.random() < 0.1:
                wrong = request_of({}, session_id, epoch + 1)
                assert (
                    sessions.go_on(wrong, uses_ids=False, now_ms=now_ms) is Code.INVALID_FETCH_SESSION_EPOCH
                )
            changed = {key: offset for key, offset in wanted.items() if before.get(key) != offset}
            forgotten = [key for key in before if key not in wanted]
            session = sessions.go_on(
                request_of(changed, session_id, epoch, forgotten), uses_ids=False, now_ms=now_ms
            )
            assert isinstance(session, FetchSession)
            read = {
                (topic.topic, part.partition): part.fetch_offset
                for topic in session.topics()
                for part in topic.partitions
            }
            assert read == wanted
            told = by_partition(session.news(full_answer(logs, read)))
            epoch += 1
        known = {key: value for key, value in known.items() if key in wanted}
        known |= {key: value[:3] for key, value in told.items()}
        assert {key: value[:3] for key, value in truth.items()} == known
        assert {key for key, value in truth.items() if value[3] or value[0]} <= told.keys()
        now_ms += 1000
    assert (
        sessions._memory.used
        == sum(len(one.partitions) for one in sessions.sessions.values()) * PARTITION_BYTES
    )


def _change(chance: random.Random, logs: Log) -> None:
    for log in logs.values():
        step = chance.random()
        if step < 0.2:
            log.end += chance.randint(1, 3)
        elif step < 0.25:
            log.start = chance.randint(log.start, log.end)
        elif step < 0.3:
            log.error = chance.choice([0, int(Code.NOT_LEADER_OR_FOLLOWER)])


def begun(sessions: FetchSessions, size: int, now_ms: int) -> int:
    wanted = {("t", index): 0 for index in range(size)}
    response = full_answer({key: Place() for key in wanted}, wanted)
    return sessions.begin(request_of(wanted), response, uses_ids=False, now_ms=now_ms).session_id


def test_slots_are_limited_and_evicted_as_in_kafka() -> None:
    sessions = sessions_of(slots=2)
    small, large = begun(sessions, 1, 0), begun(sessions, 9, 0)
    assert begun(sessions, 20, 1000) == 0, "both are young and in use"
    later = EVICTION_MS + 1
    for session_id in (large, small):
        sessions.go_on(request_of({}, session_id, 1), uses_ids=False, now_ms=later)
    assert begun(sessions, 5, later + 1) != 0
    assert small not in sessions.sessions, "the smallest of those that have lived long goes"
    assert begun(sessions, 2, later + 2) == 0, "a smaller one takes nobody's place"
    assert begun(sessions, 1, 3 * EVICTION_MS) != 0, "one that nobody uses goes"


def test_memory_of_all_sessions_is_limited() -> None:
    sessions = sessions_of(limit=20 * PARTITION_BYTES)
    assert begun(sessions, 30, 0) == 0
    session_id = begun(sessions, 15, 0)
    more = {("u", index): 0 for index in range(10)}
    grown = sessions.go_on(request_of(more, session_id, 1), uses_ids=False, now_ms=1)
    assert grown is Code.FETCH_SESSION_ID_NOT_FOUND
    assert (sessions.sessions, sessions._memory.used, sessions._memory.refused) == ({}, 0, 2)


def test_names_and_ids_do_not_mix_and_an_empty_session_ends() -> None:
    sessions = sessions_of()
    session_id = begun(sessions, 1, 0)
    assert sessions.go_on(request_of({}, session_id, 1), uses_ids=True, now_ms=1) is (
        Code.FETCH_SESSION_TOPIC_ID_ERROR
    )
    last = sessions.go_on(request_of({}, session_id, 1, [("t", 0)]), uses_ids=False, now_ms=1)
    assert isinstance(last, FetchSession)
    assert not last.partitions
    assert not sessions.sessions


# --- over a socket, beside Kafka's own ------------------------------------------------------------------

TOPIC = "fetch-sessions"


@pytest.fixture(scope="module", params=["ottla", KAFKA_4])
def client(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> Iterator[Client]:
    """To a broker with a topic of four partitions."""
    if request.param == "ottla":
        with EmbeddedBroker() as broker, Client.of(broker.bootstrap) as opened:
            yield _with_topic(opened)
    else:
        with Client.of(real_kafka(request.param).bootstrap) as opened:
            yield _with_topic(opened)


def _with_topic(client: Client) -> Client:
    create(client, new_topic(TOPIC, 4))
    everything = {(TOPIC, index): 0 for index in range(4)}

    def is_led() -> bool:
        return not any(
            one.error_code for one in answers(client.call(fetch_request(client, everything, 12), 12))
        )

    wait_for(is_led, "all partitions have leaders")
    return client


@pytest.mark.parametrize("version", [7, 12, 16])
def test_a_session_tells_what_has_changed(client: Client, version: int) -> None:
    def ask(
        wanted: dict[int, int], session_id: int, epoch: int, forgotten: list[int] | None = None
    ) -> FetchResponse:
        places = {(TOPIC, index): offset for index, offset in wanted.items()}
        request = fetch_request(client, places, version, session_id=session_id, session_epoch=epoch)
        if forgotten:
            named = fetch_request(client, {(TOPIC, forgotten[0]): 0}, version).topics[0]
            request.forgotten_topics_data = [
                ForgottenTopic(topic=named.topic, topic_id=named.topic_id, partitions=forgotten)
            ]
        return client.call(request, version)

    def told(response: FetchResponse) -> dict[int, int]:
        assert response.error_code == Code.NONE
        return {found.partition_index: len(rows(data_of(found))) for found in answers(response)}

    ends = {
        found.partition_index: found.high_watermark
        for found in answers(ask(dict.fromkeys(range(4), 0), 0, -1))
    }
    first = ask(ends, 0, 0)
    session = first.session_id
    assert session != 0
    assert told(first) == {0: 0, 1: 0, 2: 0, 3: 0}
    assert told(ask({}, session, 1)) == {}
    fill(client, TOPIC, [one()], 2)
    assert told(ask({}, session, 2)) == {2: 1}
    assert told(ask({2: ends[2] + 1}, session, 3)) == {}
    assert ask({}, session, 3).error_code == Code.INVALID_FETCH_SESSION_EPOCH
    assert told(ask({}, session, 4, [2])) == {}
    fill(client, TOPIC, [one()], 2)
    fill(client, TOPIC, [one()], 1)
    assert told(ask({}, session, 5)) == {1: 1}
    assert told(ask({2: ends[2]}, session, 6)) == {1: 1, 2: 2}
    beyond = ask({3: ends[3] + 100}, session, 7)
    assert {found.partition_index: found.error_code for found in answers(beyond)}[
        3
    ] == Code.OFFSET_OUT_OF_RANGE
    again = ask(ends, session, 0)
    assert again.session_id not in (0, session)
    assert ask({}, session, 8).error_code == Code.FETCH_SESSION_ID_NOT_FOUND
    last = ask({0: ends[0]}, again.session_id, -1)
    assert (last.session_id, told(last)) == (0, {0: 0})
    assert ask({}, again.session_id, 1).error_code == Code.FETCH_SESSION_ID_NOT_FOUND


def test_the_number_of_sessions_is_kafkas_setting() -> None:
    slots = {"max.incremental.fetch.session.cache.slots": 1}
    with EmbeddedBroker(properties=slots) as broker, Client.of(broker.bootstrap) as client:
        create(client, new_topic(TOPIC, 1))
        asked = [client.call(fetch_request(client, {(TOPIC, 0): 0}, 12, session_epoch=0), 12) for _ in "ab"]
        assert [response.session_id != 0 for response in asked] == [True, False]


def test_a_session_ends_with_its_connection() -> None:
    slots = {"max.incremental.fetch.session.cache.slots": 1}
    with EmbeddedBroker(properties=slots) as broker, Client.of(broker.bootstrap) as client:
        create(client, new_topic(TOPIC, 1))
        request = fetch_request(client, {(TOPIC, 0): 0}, 12, session_epoch=0)
        with Client.of(broker.bootstrap) as killed:
            assert killed.call(request, 12).session_id
        wait_for(lambda: client.call(request, 12).session_id, "the slot is free")
