"""The same on Apache Kafka: 0.9, which cannot tell its versions, and 4.x, which names topics by ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ottla.fetching.engine import FetchEngine
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_errors import Reaction
from ottla.fetching.inbox import Inbox
from ottla.model.errors import MessageSizeTooLarge
from ottla.model.offset_spec import EARLIEST
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.compression import Codec
from tests.fetching.real_traffic import client, write
from tests.fetching.traffic import Ledger
from tests.waiting import PATIENCE_S
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka

PARTITIONS, COUNT = 3, 2000
PATIENCE_MS = PATIENCE_S * 1000
PLACES = [TopicAndPartition("fetched", number) for number in range(PARTITIONS)]


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_4])
def kafka(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> RealKafka:
    return real_kafka(request.param)


@pytest.fixture(scope="module")
def filled(kafka: RealKafka) -> dict[TopicAndPartition, int]:
    """Numbered records in every partition."""
    return written(kafka, "fetched", COUNT, codecs=[Codec.NONE, Codec.GZIP, Codec.SNAPPY])


def written(
    kafka: RealKafka,
    topic: str,
    count: int,
    *,
    first: int = 0,
    size: int = 100,
    codecs: Sequence[Codec] = (Codec.NONE,),
) -> dict[TopicAndPartition, int]:
    magic = 0 if kafka.version == KAFKA_0_9 else 2
    return write(client(kafka), topic, count, magic=magic, first=first, size=size, codecs=codecs)


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
    written(kafka, "fetched-large", 1, size=50_000)
    place = TopicAndPartition("fetched-large", 0)
    with FetchEngine(client(kafka), FetchConfig(fetch_message_max_bytes=1000)) as engine:
        feed = engine.add(place, 0)
        if kafka.version == KAFKA_0_9:
            with pytest.raises(MessageSizeTooLarge, match="large-0 at offset 0"):
                feed.poll(PATIENCE_MS)
        else:
            Ledger().read(feed.poll, {place: 1})


def test_a_broker_that_is_restarted_is_found_again(kafka: RealKafka) -> None:
    ends = written(kafka, "fetched-restarted", 50)
    with FetchEngine(client(kafka), FetchConfig()) as engine:
        inbox, ledger = Inbox(), Ledger()
        for place in ends:
            engine.add(place, 0, inbox=inbox)
        ledger.read(inbox.poll, ends)
        kafka.restart()
        ledger.read(inbox.poll, written(kafka, "fetched-restarted", 50, first=50))
