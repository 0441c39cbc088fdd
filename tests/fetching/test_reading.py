"""Partitions of a broker, read: in order, from any start, with pauses, seeks, joins and leaves."""

from __future__ import annotations

import threading

import pytest

from ottla import EmbeddedBroker
from ottla.fetching.engine import FetchEngine
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.feed_interface import BY_RESET_POLICY
from ottla.fetching.inbox import Inbox
from ottla.model.errors import ConfigError, MessageSizeTooLarge
from ottla.model.offset_spec import EARLIEST, LATEST
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.compression import Codec
from ottla.records.hashes import fetcher_id
from tests.fetching.conftest import Engines
from tests.fetching.tables import offsets_of
from tests.fetching.traffic import Ledger, Writer
from tests.waiting import PATIENCE_S, wait_for

PATIENCE_MS = PATIENCE_S * 1000


def places(topic: str, count: int = 3) -> list[TopicAndPartition]:
    return [TopicAndPartition(topic, number) for number in range(count)]


def fetcher_threads(name: str) -> list[str]:
    return sorted(
        one.name for one in threading.enumerate() if one.name.startswith(f"ConsumerFetcherThread-{name}-")
    )


def one_chunk(feed: PartitionFeed) -> list[int]:
    chunk = feed.poll(PATIENCE_MS)
    assert chunk is not None
    return offsets_of([chunk])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_every_record_of_several_partitions_comes_once_and_in_order(
    topic: str, writer: Writer, engine: Engines, codec: Codec
) -> None:
    for place in places(topic):
        writer.write(place, 3000, size=100, codec=codec)
    inbox, reader = Inbox(), engine(fetch_message_max_bytes=20_000)
    for place in places(topic):
        reader.add(place, 0, inbox=inbox)
    Ledger().read(inbox.poll, writer.ends)
    assert [info.lag for info in reader.infos()] == [0, 0, 0]


def test_records_that_are_written_meanwhile_arrive(topic: str, writer: Writer, engine: Engines) -> None:
    place = places(topic)[0]
    feed = engine(fetch_wait_max_ms=60_000).add(place, 0)
    ledger = Ledger()
    for _ in range(5):
        writer.write(place, 10)
        ledger.read(feed.poll, writer.ends)
    assert (feed.position, feed.high_watermark) == (50, 50)


@pytest.mark.parametrize(
    ("start", "reset", "first"),
    [
        (0, "none", 0),
        (123, "none", 123),
        (EARLIEST, "largest", 0),
        (LATEST, "smallest", 500),
        (BY_RESET_POLICY, "smallest", 0),
        (BY_RESET_POLICY, "largest", 500),
    ],
)
def test_reading_begins_where_it_is_told(
    topic: str, writer: Writer, engine: Engines, start: int, reset: str, first: int
) -> None:
    place = places(topic)[0]
    writer.write(place, 500)
    feed = engine(auto_offset_reset=reset).add(place, start)
    wait_for(lambda: feed.position >= 0)
    writer.write(place, 1)
    Ledger(first).read(feed.poll, writer.ends)


def test_partitions_join_and_leave_a_running_fetcher(topic: str, writer: Writer, engine: Engines) -> None:
    for place in places(topic):
        writer.write(place, 100)
    reader = engine()
    first = reader.add(places(topic)[0], 0)
    Ledger().read(first.poll, {places(topic)[0]: 100})
    second = reader.add(places(topic)[1], 0)
    Ledger().read(second.poll, {places(topic)[1]: 100})
    assert len(fetcher_threads("ottla")) == 1
    reader.remove(places(topic)[0])
    assert first.is_closed
    assert first.poll() is None
    again = reader.add(places(topic)[0], 50)
    Ledger(50).read(again.poll, {places(topic)[0]: 100})
    writer.write(places(topic)[1], 10)
    Ledger(100).read(second.poll, {places(topic)[1]: 110})
    assert list(reader.feeds) == [places(topic)[1], places(topic)[0]]


def test_fetchers_are_chosen_by_the_hash_of_the_partition(broker: EmbeddedBroker, engine: Engines) -> None:
    topic = "hashed"
    broker.create_topic(topic, 10)
    with Writer(broker.bootstrap) as writer:
        for place in places(topic, 10):
            writer.write(place, 10)
        inbox, reader = Inbox(), engine(num_consumer_fetchers=3)
        for place in places(topic, 10):
            reader.add(place, 0, inbox=inbox)
        Ledger().read(inbox.poll, writer.ends)
    wanted = {fetcher_id(topic, number, 3) for number in range(10)}
    assert len(wanted) == 3
    assert fetcher_threads("ottla") == [
        f"ConsumerFetcherThread-ottla-{number}-0" for number in sorted(wanted)
    ]


def test_a_paused_partition_stands_still_and_the_others_go_on(
    topic: str, writer: Writer, engine: Engines
) -> None:
    paused_place, place = places(topic)[:2]
    reader = engine()
    paused, feed = reader.add(paused_place, 0), reader.add(place, 0)
    paused.pause()
    writer.write(paused_place, 10)
    writer.write(place, 10)
    Ledger().read(feed.poll, {place: 10})
    writer.write(place, 10)
    Ledger(10).read(feed.poll, {place: 20})
    assert paused.info().fetched_offset in {0, 10}  # a fetch may have been under way
    paused.resume()
    Ledger().read(paused.poll, {paused_place: 10})


def test_a_seek_goes_back_and_forth(topic: str, writer: Writer, engine: Engines) -> None:
    place = places(topic)[0]
    writer.write(place, 1000, size=100)
    feed = engine(fetch_message_max_bytes=5000).add(place, 0)
    assert one_chunk(feed)[0] == 0
    for offset in (900, 10, 555, 0):
        feed.seek(offset)
        assert feed.position == offset
        assert one_chunk(feed)[0] == offset
    feed.seek(EARLIEST)
    assert one_chunk(feed)[0] == 0
    feed.seek(LATEST)
    wait_for(lambda: feed.position >= 0)
    writer.write(place, 1)
    Ledger(1000).read(feed.poll, {place: 1001})


def test_a_message_larger_than_a_fetch_is_read_whole(topic: str, writer: Writer, engine: Engines) -> None:
    for place in places(topic):
        writer.write(place, 3, size=500_000, at_once=1)
        writer.write(place, 100)
    inbox, reader = Inbox(), engine(fetch_message_max_bytes=1000)
    for place in places(topic):
        reader.add(place, 0, inbox=inbox)
    Ledger().read(inbox.poll, writer.ends)


def test_before_version_3_a_message_larger_than_a_fetch_is_an_error_that_says_so(
    topic: str, writer: Writer, engine: Engines
) -> None:
    place = places(topic)[0]
    writer.write(place, 10)
    writer.write(place, 1, size=50_000)
    feed = engine({"broker.version": "0.9"}, fetch_message_max_bytes=20_000).add(place, 0)
    Ledger().read(feed.poll, {place: 10})
    with pytest.raises(MessageSizeTooLarge, match=rf"{topic}-0 at offset 10.*20000 bytes"):
        feed.poll(PATIENCE_MS)
    writer.write(place, 1)
    feed.seek(11)
    Ledger(11).read(feed.poll, {place: 12})


@pytest.mark.parametrize("version", ["0.8.2", "0.9"])
def test_old_versions_read_what_new_producers_wrote(
    topic: str, writer: Writer, engine: Engines, version: str
) -> None:
    for place in places(topic):
        writer.write(place, 2000, size=100)
    reader, inbox = engine({"broker.version": version}, auto_offset_reset="smallest"), Inbox()
    for place in places(topic):
        reader.add(place, BY_RESET_POLICY, inbox=inbox)
    Ledger().read(inbox.poll, writer.ends)


def test_more_partitions_than_the_memory_is_for_are_read(broker: EmbeddedBroker, engine: Engines) -> None:
    broker.create_topic("many", 60)
    with Writer(broker.bootstrap) as writer:
        for place in places("many", 60):
            writer.write(place, 300, size=200)
        inbox, reader = Inbox(), engine(queued_max_bytes=100_000)
        for place in places("many", 60):
            reader.add(place, 0, inbox=inbox)
        Ledger().read(inbox.poll, writer.ends)


def test_a_topic_may_be_made_later(broker: EmbeddedBroker, engine: Engines) -> None:
    place = TopicAndPartition("later", 0)
    feed = engine({"allow.auto.create.topics": False}).add(place, 0)
    report = feed.errors.poll(PATIENCE_MS)
    assert report is not None
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(report)
    broker.create_topic("later")
    with Writer(broker.bootstrap) as writer:
        writer.write(place, 10)
        Ledger().read(feed.poll, writer.ends)


def test_headers_come_on_request(topic: str, writer: Writer, engine: Engines) -> None:
    writer.write(places(topic)[0], 1)
    chunk = engine(include_headers=True).add(places(topic)[0], 0).poll(PATIENCE_MS)
    assert chunk is not None
    assert chunk.batch.schema.names == ["offset", "timestamp", "timestamp_type", "key", "value", "headers"]


def test_a_partition_is_read_once(topic: str, engine: Engines) -> None:
    reader: FetchEngine = engine()
    reader.add(places(topic)[0], 0)
    with pytest.raises(ConfigError, match="is being read already"):
        reader.add(places(topic)[0], 5)
    with pytest.raises(ConfigError, match="no offset -9"):
        reader.add(places(topic)[1], -9)
    reader.remove(places(topic)[2])
