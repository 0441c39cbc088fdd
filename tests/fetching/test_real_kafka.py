"""The same on Apache Kafka: 0.9, which cannot tell its versions, and 4.x, which names topics by ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle

import pytest

from ottla.client.config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.metadata import ClusterMetadata
from ottla.fetching import (
    EARLIEST,
    FetchConfig,
    FetchEngine,
    Inbox,
    MessageSizeTooLarge,
    Reaction,
    TopicAndPartition,
)
from ottla.records.compression import Codec
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.fetching.traffic import PATIENCE_S, Ledger, until
from tests.log.record_sets import batch, values
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka, Unavailable

PARTITIONS, COUNT = 3, 2000
PATIENCE_MS = PATIENCE_S * 1000
PLACES = [TopicAndPartition("t", number) for number in range(PARTITIONS)]


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_4])
def kafka(request: pytest.FixtureRequest) -> Iterator[RealKafka]:
    """A broker that makes topics of three partitions."""
    try:
        with RealKafka(request.param, properties={"num.partitions": str(PARTITIONS)}) as one:
            yield one
    except Unavailable as error:
        pytest.skip(f"Kafka {request.param} cannot be run here: {error}")


def client(kafka: RealKafka) -> ClientConfig:
    pin = {"broker.version": "0.9"} if kafka.version == KAFKA_0_9 else {}
    return ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap, **pin})


@pytest.fixture(scope="module")
def filled(kafka: RealKafka) -> dict[TopicAndPartition, int]:
    """Numbered records in every partition."""
    return write(kafka, "t", COUNT, codecs=[Codec.NONE, Codec.GZIP, Codec.SNAPPY])


def write(
    kafka: RealKafka,
    topic: str,
    count: int,
    *,
    first: int = 0,
    size: int = 100,
    codecs: Sequence[Codec] = (Codec.NONE,),
) -> dict[TopicAndPartition, int]:
    """So many records in each partition, a codec after the other; where the partitions end then."""
    config = client(kafka)
    magic = 0 if kafka.version == KAFKA_0_9 else 2
    with ClusterMetadata(config) as metadata:
        places = [TopicAndPartition(topic, one.index) for one in metadata.partitions(topic)]
        for place, codec in zip(places, cycle(codecs), strict=False):
            for start in range(first, first + count, 100):
                rows = values(start, min(100, first + count - start), size)
                data = bytes(batch(*rows, codec=codec, magic=magic))
                until(partial(is_written, metadata, config, place, data, start))
    return dict.fromkeys(places, first + count)


def is_written(
    metadata: ClusterMetadata, config: ClientConfig, place: TopicAndPartition, data: bytes, offset: int
) -> bool:
    """Whether the leader took it. A broker that has just started refuses for a while."""
    part = ProducePartition(index=place.partition, records=data)
    topics = [ProduceTopic(name=place.topic, partition_data=[part])]
    with Connection.open(metadata.leader(*place).node.address, config) as connection:
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
        (told,) = connection.call(request, at_most=12).responses[0].partition_responses
    assert told.base_offset in {offset, -1}
    return told.error_code == 0


def test_every_record_comes_once_and_in_order(kafka: RealKafka, filled: dict[TopicAndPartition, int]) -> None:
    config = FetchConfig(fetch_message_max_bytes=30_000, num_consumer_fetchers=2)
    with FetchEngine(client(kafka), config) as engine:
        inbox = Inbox()
        for place in PLACES:
            engine.add(place, EARLIEST, inbox=inbox)
        Ledger().read(inbox.poll, filled)
        assert [info.lag for info in engine.infos()] == [0] * PARTITIONS


def test_an_offset_out_of_range_is_reset(kafka: RealKafka, filled: dict[TopicAndPartition, int]) -> None:
    config = FetchConfig.from_properties({"auto.offset.reset": "smallest"})
    with FetchEngine(client(kafka), config) as engine:
        feed = engine.add(PLACES[0], 10 * COUNT)
        Ledger().read(feed.poll, {PLACES[0]: filled[PLACES[0]]})
        report = feed.errors.poll(0)
        assert report is not None
        assert (report.reaction, report.offset) == (Reaction.RESET, 10 * COUNT)


def test_a_message_larger_than_a_fetch_is_what_the_version_makes_of_it(kafka: RealKafka) -> None:
    write(kafka, "large", 1, size=50_000)
    place = TopicAndPartition("large", 0)
    with FetchEngine(client(kafka), FetchConfig(fetch_message_max_bytes=1000)) as engine:
        feed = engine.add(place, 0)
        if kafka.version == KAFKA_0_9:
            with pytest.raises(MessageSizeTooLarge, match="large-0 at offset 0"):
                feed.poll(PATIENCE_MS)
        else:
            Ledger().read(feed.poll, {place: 1})


def test_a_broker_that_is_restarted_is_found_again(kafka: RealKafka) -> None:
    ends = write(kafka, "restarted", 50)
    with FetchEngine(client(kafka), FetchConfig()) as engine:
        inbox, ledger = Inbox(), Ledger()
        for place in ends:
            engine.add(place, 0, inbox=inbox)
        ledger.read(inbox.poll, ends)
        kafka.restart()
        ledger.read(inbox.poll, write(kafka, "restarted", 50, first=50))
