"""A connection that breaks, a search that is in vain: no partition is forgotten, no reader left waiting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla import EmbeddedBroker
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC
from ottla.client.connection import Connection
from ottla.client.metadata import ClusterMetadata
from ottla.fetching.cursor import Cursor, Departure
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetcher import BrokerFetcher
from ottla.fetching.frame_memory import FrameMemory
from ottla.fetching.inbox import Inbox
from ottla.fetching.partition_info import BrokerAndFetcherId
from ottla.model.cluster_view import BrokerNode
from ottla.model.error_codes import Code
from ottla.model.errors import AuthenticationFailed, ConnectionLost, KafkaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.schema import Api
from tests.fetching.conftest import Engines
from tests.fetching.tables import Table, answer, feed, reader_of, response
from tests.fetching.traffic import Ledger, Writer
from tests.waiting import PATIENCE_S

PATIENCE_MS = PATIENCE_S * 1000
CONFIG = ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:1"})
PLACES = [TopicAndPartition("t", number) for number in range(2)]


class Homes:
    """Remembers who was given back, and why."""

    def __init__(self) -> None:
        self.taken: list[Departure] = []

    def take_in(self, departures: Iterable[Departure]) -> None:
        self.taken += departures


class Script:
    """A connection that takes one request, answers that t-0 is elsewhere, and breaks at the next."""

    def __init__(self) -> None:
        self.sent = 0

    def version_for(self, _: Api) -> int:
        return 11

    def send(self, *_: object, **__: object) -> None:
        self.sent += 1
        if self.sent > 1:
            raise ConnectionLost("broken")

    def receive(self, _: float) -> object:
        elsewhere = answer(partition=0, error=Code.NOT_LEADER_OR_FOLLOWER)
        return SimpleNamespace(message=response(elsewhere, answer(partition=1)))

    def close(self) -> None:
        pass


@pytest.fixture
def metadata() -> Iterator[ClusterMetadata]:
    with ClusterMetadata(CONFIG) as one:
        yield one


def run(metadata: ClusterMetadata, cursors: list[Cursor]) -> list[Departure]:
    """A fetcher reads these until it ends; who was given back."""
    homes = Homes()
    fetcher = BrokerFetcher(
        BrokerAndFetcherId(BrokerNode(1, "127.0.0.1", 1), 0),
        Table().table,
        client_config=CONFIG,
        config=FetchConfig(),
        metadata=metadata,
        memory=FrameMemory(reserve_bytes=0),
        search=homes,
        clock=MONOTONIC,
        name="fetcher",
    )
    assert fetcher.join(cursors)
    fetcher.thread.start()
    fetcher.thread.join(PATIENCE_S)
    return homes.taken


def test_who_was_leaving_when_the_connection_broke_leaves(
    monkeypatch: pytest.MonkeyPatch, metadata: ClusterMetadata
) -> None:
    monkeypatch.setattr(Connection, "open", lambda *_, **__: Script())
    given_back = run(metadata, [Cursor(feed(place)) for place in PLACES])
    assert [one.cursor.feed.topic_partition for one in given_back] == PLACES
    assert [type(one.reason) for one in given_back] == [KafkaError, ConnectionLost]


def test_a_login_that_is_refused_stops_readers_that_were_never_served(
    monkeypatch: pytest.MonkeyPatch, metadata: ClusterMetadata
) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise AuthenticationFailed("no such user")

    monkeypatch.setattr(Connection, "open", refuse)
    (given_back,) = run(metadata, [Cursor(feed(PLACES[0]))])
    with pytest.raises(AuthenticationFailed, match="no such user"):
        reader_of(given_back.cursor).poll(0)


def test_a_topic_that_may_not_be_read_stops_its_reader_until_that_decides(
    broker: EmbeddedBroker, topic: str, writer: Writer, engine: Engines
) -> None:
    place, inbox = TopicAndPartition(topic, 0), Inbox()
    writer.write(place, 10)
    broker.fail("Metadata", Code.TOPIC_AUTHORIZATION_FAILED)
    one = engine().add(place, 0, inbox=inbox)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        inbox.poll(PATIENCE_MS)
    assert inbox.poll(100) is None  # it is told once
    one.seek(5)
    Ledger(5).read(inbox.poll, {place: 10})
