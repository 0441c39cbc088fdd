"""The end: from any thread, at any moment; also of two threads with a reader each, and by Ctrl-C."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable
from itertools import islice, pairwise

import pytest

from ottla import EmbeddedBroker, replay
from ottla.consumer.partition import PartitionConsumer, PartitionReader
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from tests.consumer.partition.conftest import Consumers
from tests.consumer.partition.rows import checked, offsets
from tests.fetching.traffic import Writer
from tests.interruption import interrupted
from tests.waiting import PATIENCE_S, wait_for


class Waiting:
    """A thread that iterates; `end` gives what came, once the iterator has ended."""

    def __init__(self, iterate: Callable[[], object]) -> None:
        self._found: list[object] = []
        self._thread = threading.Thread(target=lambda: self._found.append(iterate()), daemon=True)
        self._thread.start()

    def end(self) -> object:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self._found[0]


def filled(consumer: PartitionConsumer, writer: Writer, topic: str, count: int) -> PartitionReader:
    """A reader whose records have all been fetched."""
    place = TopicAndPartition(topic, 0)
    writer.write(place, count, at_once=10)
    reader = consumer.consume_partition(topic, 0, 0)
    wait_for(lambda: reader.high_watermark == count)
    return reader


@pytest.mark.parametrize("close", ["reader", "consumer"])
@pytest.mark.parametrize("iterate", ["messages", "chunks", "errors"])
def test_whoever_waits_ends(topic: str, consumers: Consumers, close: str, iterate: str) -> None:
    consumer = consumers(fetch_wait_max_ms=60_000)
    reader = consumer.consume_partition(topic, 0, 0)
    waiting = Waiting(lambda: list(getattr(reader, iterate)(timeout=math.inf)))
    (reader if close == "reader" else consumer).close()
    assert waiting.end() == []
    assert reader.is_closed


@pytest.mark.parametrize("iterate", ["messages", "chunks"])
def test_who_waits_for_all_partitions_ends(topic: str, consumers: Consumers, iterate: str) -> None:
    consumer = consumers()
    consumer.consume_partition(topic, 0, 0)
    waiting = Waiting(lambda: list(getattr(consumer, iterate)(timeout=math.inf)))
    consumer.close()
    consumer.close()
    assert waiting.end() == []
    with pytest.raises(ConfigError, match="closed"):
        consumer.consume_partition(topic, 1, 0)


def test_close_drops_what_is_left_even_of_a_chunk(topic: str, writer: Writer, consumers: Consumers) -> None:
    consumer = consumers()
    reader = filled(consumer, writer, topic, 100)
    found = []
    for message in reader.messages():
        found.append(message.offset)
        if message.offset == 5:
            reader.close()
    assert found == [*range(6)]
    assert list(reader.chunks()) == []


def test_async_close_delivers_what_was_fetched(topic: str, writer: Writer, consumers: Consumers) -> None:
    consumer = consumers(fetch_message_max_bytes=500, queued_max_message_chunks=1000)
    reader = filled(consumer, writer, topic, 200)
    wait_for(lambda: reader._feed.info().fetched_offset == 200)
    found = []
    for message in checked(reader.messages(timeout=math.inf)):
        found.append(message.offset)
        if message.offset == 5:
            reader.async_close()
            assert not reader.is_closed
    assert found == [*range(200)]
    assert reader.is_closed
    assert consumer.readers == {}


def test_async_close_wakes_who_waits(topic: str, consumers: Consumers) -> None:
    reader = consumers().consume_partition(topic, 0, 0)
    waiting = Waiting(lambda: list(reader.messages(timeout=math.inf)))
    reader.async_close()
    assert waiting.end() == []


def test_async_close_in_one_loop_over_all(topic: str, writer: Writer, consumers: Consumers) -> None:
    consumer = consumers()
    reader = filled(consumer, writer, topic, 100)
    assert len(list(islice(consumer.messages(), 5))) == 5
    reader.async_close()
    assert [one.offset for one in consumer.messages(timeout=0.5)] == [*range(5, 100)]


def test_two_threads_have_a_reader_each(topic: str, writer: Writer, consumers: Consumers) -> None:
    consumer = consumers(fetch_message_max_bytes=5000)
    readers = [consumer.consume_partition(topic, number, 0) for number in range(2)]
    threads = [Waiting(lambda one=one: offsets(one.messages(), 3000)) for one in readers]
    for _ in range(3):
        for number in range(2):
            writer.write(TopicAndPartition(topic, number), 1000)
    assert [one.end() for one in threads] == [[*range(3000)]] * 2


def test_seeks_of_another_thread_are_seen_at_once(topic: str, writer: Writer, consumers: Consumers) -> None:
    """A reader makes no row of before a seek that has returned; one that was made may be under way."""
    writer.write(TopicAndPartition(topic, 0), 3000, at_once=50)
    reader = consumers(fetch_message_max_bytes=10_000).consume_partition(topic, 0, 0)
    found: list[int] = []
    waiting = Waiting(lambda: found.extend(one.offset for one in reader.messages()))
    seeks = []
    for target in [100, 2000, 5, 700, 2500, 40] * 5:
        before = len(found)
        reader.seek(target)
        seeks.append((target, before, after := len(found) + 1))
        wait_for(lambda enough=after + 20: len(found) >= enough)
    reader.close()
    waiting.end()
    for (target, _, first), (_, end, _) in pairwise(seeks):
        assert found[first] >= target
        assert found[first:end] == [*range(found[first], found[first] + end - first)]


PROGRAM = """
import sys
from ottla.consumer.partition import PartitionConsumer
with PartitionConsumer(bootstrap_servers=sys.argv[1]) as consumer:
    reader = consumer.consume_partition("t", 0, "earliest")
    print("waiting", flush=True)
    for message in {}.messages():
        pass
"""


@pytest.mark.parametrize("source", ["reader", "consumer"])
def test_ctrl_c(broker: EmbeddedBroker, source: str) -> None:
    complaint = interrupted(PROGRAM.format(source), broker.bootstrap)
    assert complaint.rstrip().endswith("KeyboardInterrupt")
    assert "Warning" not in complaint


def test_a_forgotten_consumer_is_told_of_and_ends(broker: EmbeddedBroker, topic: str, writer: Writer) -> None:
    before = threading.active_count()
    consumer = PartitionConsumer(bootstrap_servers=broker.bootstrap, fetch_wait_max_ms=50)
    filled(consumer, writer, topic, 10)
    assert threading.active_count() > before
    del consumer
    with pytest.warns(ResourceWarning, match="was not closed"):
        gc.collect()
    wait_for(lambda: threading.active_count() <= before)


def test_a_consumer_that_read_nothing_has_nothing_to_close(recwarn: pytest.WarningsRecorder) -> None:
    PartitionConsumer(bootstrap_servers="127.0.0.1:1")
    gc.collect()
    assert not [one for one in recwarn if "PartitionConsumer" in str(one.message)]


def test_a_forgotten_replay_is_told_of(broker: EmbeddedBroker, topic: str, writer: Writer) -> None:
    writer.write(TopicAndPartition(topic, 0), 10, at_once=10)
    past = replay(topic, bootstrap_servers=broker.bootstrap)
    assert past.ranges[0].stop == 10
    with pytest.warns(ResourceWarning, match=f"Replay of '{topic}' was not closed"):
        del past


def test_a_replay_that_is_left_in_the_middle_ends(broker: EmbeddedBroker, topic: str, writer: Writer) -> None:
    writer.write(TopicAndPartition(topic, 0), 10, at_once=10)
    before = threading.active_count()
    rows = replay(topic, bootstrap_servers=broker.bootstrap, fetch_wait_max_ms=50).messages()
    next(rows)
    assert threading.active_count() > before
    del rows
    wait_for(lambda: threading.active_count() <= before)
