"""The same on Apache Kafka: 0.9, which knows neither times nor its versions, and 4.x, with transactions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ottla import KafkaError, Producer
from ottla.consumer.partition import OffsetRange, PartitionConsumer, replay
from ottla.fetching.fetch_errors import Reaction
from ottla.model.errors import NoTimestamps
from tests.consumer.partition.rows import checked, column, offsets
from tests.waiting import wait_for
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka

TOPIC = "read-by-partitions"
PARTITIONS, COUNT = 3, 1000
NOW = datetime.now(UTC).replace(microsecond=0)
NOW_MS = int(NOW.timestamp() * 1000)


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_4])
def kafka(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> RealKafka:
    """A broker with a topic of three partitions whose record n is of n seconds after NOW."""
    kafka = real_kafka(request.param)
    with Producer(settings(kafka)) as producer:
        for n in range(COUNT * PARTITIONS):
            offset = n // PARTITIONS
            key, value = b"k%d" % offset, b"v%d-" % offset
            producer.send(TOPIC, value, key, n % PARTITIONS, NOW_MS + 1000 * offset)
    return kafka


def settings(kafka: RealKafka) -> dict[str, Any]:
    pin = {"broker_version": "0.9"} if kafka.version == KAFKA_0_9 else {}
    return {"bootstrap_servers": kafka.bootstrap, **pin}


def test_partitions_are_read_and_sought(kafka: RealKafka) -> None:
    with PartitionConsumer(settings(kafka), fetch_message_max_bytes=5000) as consumer:
        assert consumer.partitions(TOPIC) == [*range(PARTITIONS)]
        reader = consumer.consume_partition(TOPIC, 0, "earliest")
        assert offsets(reader.messages(), COUNT) == [*range(COUNT)]
        assert (reader.position, reader.lag) == (COUNT, 0)
        reader.seek(COUNT - 5)
        assert offsets(reader.messages(), 5) == [*range(COUNT - 5, COUNT)]
        end = consumer.consume_partition(TOPIC, 1, "latest")
        wait_for(lambda: end.position == COUNT)


def test_an_offset_out_of_range_stops_or_is_replaced(kafka: RealKafka) -> None:
    with PartitionConsumer(settings(kafka)) as consumer:
        reader = consumer.consume_partition(TOPIC, 0, 10 * COUNT)
        with pytest.raises(KafkaError, match=f"{TOPIC}-0 at offset {10 * COUNT}"):
            next(reader.messages())
    with PartitionConsumer(settings(kafka), auto_offset_reset="smallest") as consumer:
        reader = consumer.consume_partition(TOPIC, 0, 10 * COUNT)
        assert offsets(reader.messages(), 5) == [*range(5)]
        assert [one.reaction for one in reader.errors(timeout=0)] == [Reaction.RESET]


def test_a_replay_by_offsets(kafka: RealKafka) -> None:
    with replay(TOPIC, [0, 2], since={0: 10}, until=500, **settings(kafka)) as part:
        assert part.ranges == {0: OffsetRange(10, 500), 2: OffsetRange(0, 500)}
        found = sorted((one.partition, one.offset) for one in checked(part.messages()))
    assert found == [*((0, n) for n in range(10, 500)), *((2, n) for n in range(500))]
    assert len(column(replay(TOPIC, **settings(kafka)))) == COUNT * PARTITIONS


def test_a_replay_by_times(kafka: RealKafka) -> None:
    bounds = {"since": NOW + timedelta(seconds=100), "until": NOW + timedelta(seconds=150)}
    with replay(TOPIC, [1], **bounds, **settings(kafka)) as part:  # type: ignore[arg-type]
        if kafka.version == KAFKA_0_9:
            with pytest.raises(NoTimestamps, match=rf"{TOPIC}-1: .*older than 0\.10\.1"):
                list(part)
        else:
            assert column(part) == [*range(100, 150)]


@pytest.mark.parametrize(
    ("isolation", "wanted"), [("read_committed", [0, 1, 2, 7]), ("read_uncommitted", [0, 1, 2, 4, 5, 7])]
)
def test_a_replay_ends_behind_the_markers_of_transactions(
    kafka: RealKafka, isolation: str, wanted: list[int]
) -> None:
    """Offsets: 0 to 2 committed (3), 4 and 5 aborted (6), 7 committed (8): the log ends with a marker."""
    if kafka.version == KAFKA_0_9:
        pytest.skip("0.9 has no transactions")
    confluent = pytest.importorskip("confluent_kafka")
    topic = f"transactions-{isolation}"
    producer = confluent.Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for count, end in ((3, "commit"), (2, "abort"), (1, "commit")):
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic, b"v", partition=0)
        producer.flush()
        getattr(producer, f"{end}_transaction")()
    with replay(topic, isolation_level=isolation, **settings(kafka)) as part:
        assert part.ranges[0] == OffsetRange(0, 9)
        assert [one.offset for one in part.messages()] == wanted
        assert part.progress.fraction == 1.0
