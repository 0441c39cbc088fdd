"""Partitions that the application chooses: rows, columns, positions to the row, pauses, seeks, errors."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from ottla import ConfigError, EmbeddedBroker, KafkaError, Producer
from ottla.consumer.partition import PartitionConsumer
from ottla.fetching.fetch_errors import Reaction
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.rows import RowMaker
from tests.consumer.partition.conftest import Consumers
from tests.consumer.partition.rows import checked, column, offsets
from tests.fetching.traffic import Writer
from tests.waiting import wait_for


def places(topic: str) -> list[TopicAndPartition]:
    return [TopicAndPartition(topic, number) for number in range(3)]


def test_messages_come_in_order_with_what_was_written(
    topic: str, writer: Writer, consumers: Consumers
) -> None:
    writer.write(places(topic)[0], 5000)
    reader = consumers(fetch_message_max_bytes=20_000).consume_partition(topic, 0, 0)
    assert offsets(reader.messages(), 5000) == [*range(5000)]
    assert (reader.position, reader.high_watermark, reader.lag) == (5000, 5000, 0)
    assert (reader.topic, reader.partition, reader.failure) == (topic, 0, None)


def test_batches_come_in_order_with_what_was_written(
    topic: str, writer: Writer, consumers: Consumers
) -> None:
    writer.write(places(topic)[0], 5000)
    reader = consumers(fetch_message_max_bytes=20_000).consume_partition(topic, 0, 0)
    found = []
    for chunk in reader.chunks():
        batch = chunk.batch
        assert batch.schema.names == ["offset", "timestamp", "timestamp_type", "key", "value"]
        found += batch.column("offset").to_pylist()
        assert reader.position == found[-1] + 1
        if reader.position == 5000:
            break
    assert found == [*range(5000)]


@pytest.mark.parametrize(
    ("start", "first"), [("earliest", 0), ("smallest", 0), (7, 7), ("latest", 10), ("newest", 10)]
)
def test_reading_begins_where_it_is_told(
    topic: str, writer: Writer, consumers: Consumers, start: int | str, first: int
) -> None:
    writer.write(places(topic)[0], 10)
    reader = consumers().consume_partition(topic, 0, start)
    wait_for(lambda: reader.position >= 0)
    writer.write(places(topic)[0], 2)
    assert offsets(reader.messages(), 12 - first) == [*range(first, 12)]


def test_times_are_looked_up(broker: EmbeddedBroker, topic: str, consumers: Consumers) -> None:
    start = datetime(2026, 1, 31, 12, tzinfo=UTC)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for n in range(10):
            timestamp_ms = int(start.timestamp() * 1000) + 1000 * n
            producer.send(topic, b"v%d-" % n, b"k%d" % n, 0, timestamp_ms)
    reader = consumers().consume_partition(topic, 0, start + timedelta(seconds=7))
    assert offsets(reader.messages(), 3) == [7, 8, 9]
    reader.seek("2026-01-31T12:00:03.5Z")
    assert offsets(reader.messages(), 2) == [4, 5]
    reader.seek(datetime.now(UTC) - start + timedelta(hours=1))
    assert offsets(reader.messages(), 2) == [0, 1]
    reader.seek(timedelta(0))
    wait_for(lambda: reader.position == 10)


def test_the_last_records_and_the_offsets_of_times(topic: str, writer: Writer, consumers: Consumers) -> None:
    first, second, third = places(topic)
    writer.write(first, 10)
    consumer = consumers()
    reader = consumer.consume_partition(topic, 0, "earliest")
    reader.tail(3)
    assert offsets(reader, 3) == [7, 8, 9]
    consumer.tail(1)
    assert offsets(consumer, 1) == [9]
    consumer.seek(first, 5)
    assert [chunk.next_offset for chunk in islice(consumer.chunks(), 1)] == [10]
    times = {first: timedelta(days=10_000), second: timedelta(0)}
    assert consumer.offsets_for_times(times) == {first: 0, second: None}
    with pytest.raises(ConfigError, match=f"{third} is not read"):
        consumer.seek(third, 0)


def test_what_it_is_and_where_is_told(topic: str, consumers: Consumers) -> None:
    consumer = consumers()
    assert "nothing is read" in repr(consumer)
    reader = consumer.consume_partition(topic, 0, 5)
    assert repr(reader) == f"<PartitionReader of {topic}-0: at 5, log end unknown>"
    assert repr(consumer).endswith(f": {topic}-0 at 5>")
    consumer.close()
    assert repr(reader).endswith(": closed>")
    assert repr(consumer).endswith(": closed>")


def test_deserializers_are_of_the_consumer_or_of_a_partition(broker: EmbeddedBroker, topic: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for partition in (0, 1):
            producer.send(topic, b"7", None, partition)
    with PartitionConsumer(
        bootstrap_servers=broker.bootstrap, key_deserializer=int, value_deserializer=int
    ) as consumer:
        consumer.consume_partition(topic, 0, 0)
        consumer.consume_partition(topic, 1, 0, value_deserializer=bytes.decode)
        rows = islice(consumer, 2)
        assert {row.partition: (row.key, row.value) for row in rows} == {0: (None, 7), 1: (None, "7")}


def test_an_iterator_ends_in_time_and_the_next_one_goes_on(
    topic: str, writer: Writer, consumers: Consumers
) -> None:
    writer.write(places(topic)[0], 10)
    reader = consumers(consumer_timeout_ms=300).consume_partition(topic, 0, 0)
    wait_for(lambda: reader.high_watermark == 10)
    assert [one.offset for one in reader.messages()] == [*range(10)]
    assert list(reader.chunks(timeout=0)) == []
    writer.write(places(topic)[0], 5)
    assert offsets(reader.messages(timeout=math.inf), 5) == [*range(10, 15)]


def test_rows_and_columns_take_turns_in_the_middle_of_a_chunk(
    topic: str, writer: Writer, consumers: Consumers
) -> None:
    writer.write(places(topic)[0], 100, at_once=100)
    reader = consumers().consume_partition(topic, 0, 0)
    assert offsets(reader.messages(), 10) == [*range(10)]
    assert (reader.position, reader.lag) == (10, 90)
    assert offsets(reader.messages(), 5) == [*range(10, 15)]
    assert column(islice(reader.chunks(), 1)) == [*range(15, 100)]
    assert reader.position == 100


def test_a_seek_takes_effect_at_the_next_row(topic: str, writer: Writer, consumers: Consumers) -> None:
    writer.write(places(topic)[0], 1000, at_once=1000)
    reader = consumers().consume_partition(topic, 0, 0)
    seeks = [(4, 500), (505, 998), (999, 0), (2, 990)]
    found = []
    for message in checked(reader.messages()):
        found.append(message.offset)
        if seeks and message.offset == seeks[0][0]:
            reader.seek(seeks.pop(0)[1])
        elif message.offset == 999:
            break
    assert found == [*range(5), *range(500, 506), 998, 999, *range(3), *range(990, 1000)]
    reader.seek("earliest")
    assert offsets(reader.messages(), 1) == [0]


def test_a_paused_partition_delivers_what_was_fetched_and_no_more(
    topic: str, writer: Writer, consumers: Consumers
) -> None:
    writer.write(places(topic)[0], 100, at_once=100)
    consumer = consumers()
    reader, other = consumer.consume_partition(topic, 0, 0), consumer.consume_partition(topic, 1, 0)
    assert offsets(reader.messages(), 10) == [*range(10)]
    reader.pause()
    assert reader.is_paused
    assert offsets(reader.messages(), 90) == [*range(10, 100)]
    for _ in range(2):  # a fetch of both may have been under way
        writer.write(places(topic)[0], 10)
        writer.write(places(topic)[1], 10)
        assert len(offsets(other.messages(), 10)) == 10
    rest = [one.offset for one in reader.messages(timeout=0.1)]
    assert len(rest) <= 10
    reader.resume()
    assert not reader.is_paused
    rest += offsets(reader.messages(), 120 - reader.position)
    assert rest == [*range(100, 120)]


def test_all_partitions_are_read_in_one_loop(topic: str, writer: Writer, consumers: Consumers) -> None:
    consumer = consumers(fetch_message_max_bytes=5000)
    for place in places(topic):
        writer.write(place, 500)
        consumer.consume_partition(*place, 0)
    found: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for message in islice(checked(consumer.messages()), 701):
        found[message.partition].append(message.offset)
    for chunk in consumer.chunks():
        assert chunk.batch.num_rows
        found[chunk.topic_partition.partition] += chunk.batch.column("offset").to_pylist()
        assert chunk.next_offset == found[chunk.topic_partition.partition][-1] + 1
        if sum(map(len, found.values())) == 1500:
            break
    assert found == {number: [*range(500)] for number in range(3)}
    assert list(consumer.messages(timeout=0)) == []


def test_one_loop_takes_over_what_a_reader_left(topic: str, writer: Writer, consumers: Consumers) -> None:
    consumer = consumers()
    readers = [consumer.consume_partition(*place, 0) for place in places(topic)]
    for place, reader in zip(places(topic), readers, strict=True):
        writer.write(place, 100, at_once=100)
        assert offsets(reader.messages(), 40) == [*range(40)]
    rest = [(one.partition, one.offset) for one in islice(checked(consumer.messages()), 180)]
    assert sorted(rest) == [(number, offset) for number in range(3) for offset in range(40, 100)]


def test_a_loop_over_all_may_read_single_partitions_in_between(
    topic: str, writer: Writer, consumers: Consumers
) -> None:
    consumer = consumers(fetch_message_max_bytes=1000)
    for place in places(topic)[:2]:
        writer.write(place, 300, at_once=20)
        consumer.consume_partition(*place, 0)
    found: dict[int, list[int]] = {0: [], 1: []}
    for message in checked(consumer.messages()):
        found[message.partition].append(message.offset)
        other = consumer.readers[TopicAndPartition(topic, 1 - message.partition)]
        found[other.partition] += offsets(other.messages(timeout=0), 3)
        if sum(map(len, found.values())) == 600:
            break
    assert found == {number: [*range(300)] for number in range(2)}


@pytest.mark.parametrize("source", ["reader", "consumer"])
def test_ctrl_c_between_taking_and_holding_a_chunk_loses_nothing(
    topic: str, writer: Writer, thread_consumers: Consumers, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write(places(topic)[0], 200, at_once=20)
    consumer = thread_consumers(fetch_message_max_bytes=1000)
    reader = consumer.consume_partition(topic, 0, 0)
    read = reader.messages if source == "reader" else consumer.messages
    assert offsets(read(), 30) == [*range(30)]
    with monkeypatch.context() as patch:
        patch.setattr(RowMaker, "rows", interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(read())
    assert reader.position == 40  # a fetch brings one batch
    assert offsets(read(), 160) == [*range(40, 200)]


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_decoders_run_when_asked(topic: str, writer: Writer, consumers: Consumers) -> None:
    writer.write(places(topic)[0], 3)
    reader = consumers().consume_partition(
        topic, 0, 0, key_deserializer=bytes.decode, value_deserializer=lambda data: json.loads(data)
    )
    for message in islice(reader.messages(), 3):
        assert message.key == f"k{message.offset}"
        with pytest.raises(json.JSONDecodeError):
            _ = message.value
    assert reader.position == 3


def test_headers_come_on_request(topic: str, writer: Writer, consumers: Consumers) -> None:
    writer.write(places(topic)[0], 1)
    reader = consumers(include_headers=True).consume_partition(topic, 0, 0)
    assert next(reader.chunks()).batch.schema.names[-1] == "headers"


def test_partitions_are_listed_and_read_once(topic: str, consumers: Consumers) -> None:
    consumer = consumers()
    assert consumer.partitions(topic) == [0, 1, 2]
    reader = consumer.consume_partition(topic, 0, 0)
    with pytest.raises(ConfigError, match="is being read already"):
        consumer.consume_partition(topic, 0, 5)
    assert list(consumer.readers) == [TopicAndPartition(topic, 0)]
    reader.close()
    assert consumer.readers == {}
    assert consumer.consume_partition(topic, 0, 5).position == 5


@pytest.mark.parametrize("offset", [-1, "soon", None, True, 1.5])
def test_what_is_no_offset_is_refused(topic: str, consumers: Consumers, offset: object) -> None:
    with pytest.raises(ConfigError, match=r"'earliest'.* 'latest'"):
        consumers().consume_partition(topic, 0, offset)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topic", "partition", "message"),
    [
        ("orders", "1", "partition='1': the partitions of 'orders' are numbered"),
        ("orders", -1, "partition=-1"),
        ("orders", True, "partition=True"),
        ("", 0, "topic='': give the name of a topic"),
        (b"orders", 0, "topic=b'orders'"),
    ],
)
def test_what_is_no_partition_is_refused(
    consumers: Consumers, topic: object, partition: object, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        consumers().consume_partition(topic, partition, 0)  # type: ignore[arg-type]


def test_a_partition_that_is_being_read_tells_what_to_do(topic: str, consumers: Consumers) -> None:
    consumer = consumers()
    reader = consumer.consume_partition(topic, 0, 0)
    with pytest.raises(ConfigError, match=rf"{topic}-0 is being read already: seek\(\) its reader, or close"):
        consumer.consume_partition(topic, 0, 0)
    with pytest.raises(ConfigError, match="timeout='3': give a number of seconds"):
        next(reader.messages("3"))  # type: ignore[arg-type]
    consumer.close()
    with pytest.raises(ConfigError, match="this consumer is closed"):
        consumer.consume_partition(topic, 1, 0)


def test_settings_of_other_consumers_tell_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"value\.deserializer.* key_deserializer or value_des"):
        PartitionConsumer({"bootstrap.servers": "127.0.0.1:9", "value.deserializer": "org.apache.X"})


def test_settings_of_groups_are_refused_with_a_reason() -> None:
    with pytest.raises(ConfigError, match="there is no group here"):
        PartitionConsumer({"bootstrap.servers": "127.0.0.1:9", "group.id": "g"})
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        PartitionConsumer()


# --- what goes wrong


def test_an_offset_that_is_gone_stops_the_partition_until_it_is_told_another(
    topic: str, writer: Writer, consumers: Consumers
) -> None:
    writer.write(places(topic)[0], 10)
    writer.delete_before(places(topic)[0], 5)
    reader = consumers().consume_partition(topic, 0, 2)
    for _ in range(2):
        with pytest.raises(KafkaError, match=f"{topic}-0 at offset 2.*auto.offset.reset is none"):
            next(reader.messages())
    (report,) = reader.errors(timeout=0)
    assert (report.reaction, report.offset, report.error) == (Reaction.STOP, 2, reader.failure)
    reader.seek("earliest")
    assert offsets(reader.messages(), 5) == [*range(5, 10)]
    assert reader.failure is None


@pytest.mark.parametrize(("reset", "first"), [("smallest", 5), ("earliest", 5), ("largest", 10)])
def test_an_offset_that_is_gone_is_replaced_if_the_user_says_so(
    topic: str, writer: Writer, consumers: Consumers, reset: str, first: int
) -> None:
    writer.write(places(topic)[0], 10)
    writer.delete_before(places(topic)[0], 5)
    reader = consumers(auto_offset_reset=reset).consume_partition(topic, 0, 2)
    report = next(reader.errors())
    assert (report.reaction, report.offset) == (Reaction.RESET, 2)
    wait_for(lambda: reader.position == first)
    writer.write(places(topic)[0], 1)
    assert offsets(reader.messages(), 11 - first) == [*range(first, 11)]


def test_one_loop_tells_an_error_once_and_goes_on_with_the_others(
    topic: str, writer: Writer, consumers: Consumers
) -> None:
    consumer = consumers()
    for place in places(topic):
        writer.write(place, 10)
    lost = consumer.consume_partition(topic, 0, 99)
    with pytest.raises(KafkaError, match=f"{topic}-0 at offset 99"):
        next(consumer.messages())
    assert lost.failure is not None
    consumer.consume_partition(topic, 1, 0)
    assert offsets(consumer.messages(), 10) == [*range(10)]
    lost.seek(8)
    assert [(one.partition, one.offset) for one in islice(consumer.messages(), 2)] == [(0, 8), (0, 9)]


def test_an_error_of_a_closed_reader_is_not_told_to_the_others(
    topic: str, writer: Writer, consumers: Consumers
) -> None:
    consumer = consumers()
    writer.write(places(topic)[1], 10)
    lost = consumer.consume_partition(topic, 0, 99)
    wait_for(lambda: lost.failure is not None)
    lost.close()
    consumer.consume_partition(topic, 1, 0)
    assert offsets(consumer.messages(), 10) == [*range(10)]
    assert [one.offset for one in lost.errors()] == [99]


def test_a_topic_that_is_not_there_is_reported_and_waited_for(consumers: Consumers) -> None:
    with EmbeddedBroker(properties={"auto.create.topics.enable": "false"}) as broker:
        reader = consumers(broker.bootstrap).consume_partition("later", 0, 0)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(next(reader.errors()))
        broker.create_topic("later")
        with Writer(broker.bootstrap) as writer:
            writer.write(TopicAndPartition("later", 0), 10)
            assert offsets(reader.messages(), 10) == [*range(10)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_random_walk_never_loses_or_repeats_a_record(
    topic: str, writer: Writer, thread_consumers: Consumers, seed: int
) -> None:
    chance, count = random.Random(seed), 2000
    writer.write(places(topic)[0], count, size=100, at_once=50)
    consumer = thread_consumers(fetch_message_max_bytes=20_000, fetch_wait_max_ms=5)
    reader, expected = consumer.consume_partition(topic, 0, 0), 0
    for _ in range(300):
        wanted = min(chance.randrange(150), count - expected)
        match chance.choice(["rows", "rows of all", "columns", "chunks", "seek", "pause"]):
            case "rows":
                found = offsets(reader.messages(), wanted)
            case "rows of all":
                found = offsets(consumer.messages(), wanted)
            case "columns" if expected < count:
                found = column(islice(reader.chunks(), 1))
            case "chunks" if expected < count:
                found = column(islice(consumer.chunks(), 1))
            case "pause":
                reader.pause()
                found = [one.offset for one in islice(reader.messages(timeout=0), wanted)]
                reader.resume()
            case _:
                expected, found = chance.randrange(count), []
                reader.seek(expected)
        assert found == [*range(expected, expected + len(found))]
        expected += len(found)
        assert reader.position == expected
