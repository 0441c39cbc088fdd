"""Close: from any thread, at any moment, at once; all threads end and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import EmbeddedBroker
from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.metadata import ClusterMetadata
from ottla.fetching.engine import FetchEngine
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.inbox import Inbox
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.fetch import FetchRequest
from tests.faulty_line import FaultyLine
from tests.fetching.traffic import Ledger, Writer
from tests.waiting import wait_for

LONG_MS = 60_000
AT_ONCE_S = 5.0
"""Much less than any wait in here, and much more than a busy machine takes."""


def threads(name: str) -> list[str]:
    return [one.name for one in threading.enumerate() if name in one.name]


@pytest.fixture
def make(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[Callable[..., FetchEngine]]:
    """Engines that are idle in long polls of a minute. Afterwards no thread of theirs may be left."""
    made: list[FetchEngine] = []
    name = request.node.name

    def engine(bootstrap: str = "", metadata: ClusterMetadata | None = None) -> FetchEngine:
        config = ClientConfig.from_properties({"bootstrap.servers": bootstrap or broker.bootstrap})
        made.append(FetchEngine(config, FetchConfig(fetch_wait_max_ms=LONG_MS), metadata, name=name))
        return made[-1]

    yield engine
    for one in made:
        one.close()
    assert threads(name) == []


def idle(engine: FetchEngine, topic: str, writer: Writer) -> PartitionFeed:
    """A feed that has read what there is, so that its fetcher waits for more."""
    place = TopicAndPartition(topic, 0)
    writer.write(place, 1)
    feed = engine.add(place, 0)
    Ledger().read(feed.poll, {place: 1})
    return feed


def closes_at_once(engine: FetchEngine) -> bool:
    start = time.monotonic()
    engine.close()
    return time.monotonic() - start < AT_ONCE_S


def test_a_long_poll_is_interrupted(make: Callable[..., FetchEngine], topic: str, writer: Writer) -> None:
    engine = make()
    feed = idle(engine, topic, writer)
    assert closes_at_once(engine)
    assert feed.is_closed
    assert feed.poll() is None
    assert closes_at_once(engine)  # again
    with pytest.raises(ConfigError, match="engine is closed"):
        engine.add(TopicAndPartition(topic, 1), 0)


def test_a_reader_that_waits_ends(make: Callable[..., FetchEngine], topic: str, writer: Writer) -> None:
    engine = make()
    feed = idle(engine, topic, writer)
    ended: list[object] = []
    reader = threading.Thread(target=lambda: ended.append(feed.poll()))
    reader.start()
    engine.close()
    reader.join(AT_ONCE_S)
    assert ended == [None]


def test_a_reader_may_close_from_its_own_thread(
    make: Callable[..., FetchEngine], topic: str, writer: Writer
) -> None:
    engine = make()
    feed = idle(engine, topic, writer)
    outcome: list[bool] = []

    def read() -> None:
        feed.poll(10)
        outcome.append(closes_at_once(engine))

    reader = threading.Thread(target=read)
    reader.start()
    reader.join(2 * AT_ONCE_S)
    assert outcome == [True]


def test_several_threads_may_close_at_once(
    make: Callable[..., FetchEngine], topic: str, writer: Writer
) -> None:
    engine = make()
    idle(engine, topic, writer)
    closers = [threading.Thread(target=engine.close) for _ in range(4)]
    for one in closers:
        one.start()
    for one in closers:
        one.join(AT_ONCE_S)
    assert not any(one.is_alive() for one in closers)


def test_what_waits_does_not_hold_a_close_up(
    make: Callable[..., FetchEngine], topic: str, writer: Writer
) -> None:
    place = TopicAndPartition(topic, 0)
    writer.write(place, 3000, size=1000)
    engine = make()
    feed = engine.add(place, 0)
    wait_for(lambda: feed.info().fetched_offset == 3000)
    assert closes_at_once(engine)


def test_a_broker_that_never_answers_does_not_hold_a_close_up(make: Callable[..., FetchEngine]) -> None:
    with FaultyLine() as silent:
        engine = make(f"127.0.0.1:{silent.port}")
        engine.add(TopicAndPartition("t", 0), 0)
        wait_for(lambda: silent.connections > 0)
        assert closes_at_once(engine)


def test_an_engine_that_was_never_used_can_be_closed(make: Callable[..., FetchEngine]) -> None:
    assert closes_at_once(make())


def test_shared_metadata_stay_usable(
    make: Callable[..., FetchEngine], broker: EmbeddedBroker, topic: str, writer: Writer
) -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap})
    with ClusterMetadata(config) as metadata:
        engine = make(metadata=metadata)
        idle(engine, topic, writer)
        assert closes_at_once(engine)
        assert metadata.refresh([topic]).leader_of(topic, 0) is not None


def test_removing_the_last_partition_ends_its_fetcher_after_a_while(
    make: Callable[..., FetchEngine], topic: str, writer: Writer, request: pytest.FixtureRequest
) -> None:
    engine = make()
    feed = idle(engine, topic, writer)
    engine.remove(feed.topic_partition)
    writer.write(feed.topic_partition, 1)  # ends the long poll
    name = f"ConsumerFetcherThread-{request.node.name}"
    wait_for(lambda: threads(name) == [])
    again = engine.add(feed.topic_partition, 0)
    Ledger().read(again.poll, {feed.topic_partition: 2})


def test_an_inbox_ends_with_its_engine(make: Callable[..., FetchEngine], topic: str) -> None:
    engine, inbox = make(), Inbox()
    engine.add(TopicAndPartition(topic, 0), 0, inbox=inbox)
    ended: list[object] = []
    reader = threading.Thread(target=lambda: ended.append(inbox.poll()))
    reader.start()
    engine.close()
    inbox.close()
    reader.join(AT_ONCE_S)
    assert ended == [None]


def test_a_fetcher_that_waits_ends_its_session(
    make: Callable[..., FetchEngine], topic: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    send = Connection.send

    def noted(connection: Connection, request: Any, **more: Any) -> object:
        sent.append(request)
        return send(connection, request, **more)

    monkeypatch.setattr(Connection, "send", noted)
    engine = make()
    idle(engine, topic, writer)
    fetches = wait_for(
        lambda: [one for one in sent if isinstance(one, FetchRequest) and one.session_epoch > 0],
        "a fetch of a session",
    )
    engine.close()
    assert isinstance(sent[-1], FetchRequest)
    assert (sent[-1].session_id, sent[-1].session_epoch) == (fetches[0].session_id, -1)
