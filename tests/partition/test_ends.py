"""The end: from any thread, at any moment; also of two threads with a reader each, and by Ctrl-C."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import islice, pairwise

import pytest

from ottla import EmbeddedBroker
from ottla.fetching import TopicAndPartition
from ottla.model.errors import ConfigError
from ottla.partition import PartitionConsumer, PartitionReader
from tests.fetching.traffic import PATIENCE_S, Writer, until
from tests.partition.conftest import Consumers
from tests.partition.rows import checked, offsets


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
    until(lambda: reader.high_watermark == count)
    return reader


@pytest.mark.parametrize("close", ["reader", "consumer"])
@pytest.mark.parametrize("iterate", ["messages", "batches", "errors"])
def test_whoever_waits_ends(topic: str, consumers: Consumers, close: str, iterate: str) -> None:
    consumer = consumers(fetch_wait_max_ms=60_000)
    reader = consumer.consume_partition(topic, 0, 0)
    waiting = Waiting(lambda: list(getattr(reader, iterate)(timeout_ms=-1)))
    (reader if close == "reader" else consumer).close()
    assert waiting.end() == []
    assert reader.is_closed


@pytest.mark.parametrize("iterate", ["messages", "chunks"])
def test_who_waits_for_all_partitions_ends(topic: str, consumers: Consumers, iterate: str) -> None:
    consumer = consumers()
    consumer.consume_partition(topic, 0, 0)
    waiting = Waiting(lambda: list(getattr(consumer, iterate)(timeout_ms=-1)))
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
    assert list(reader.batches()) == []


def test_async_close_delivers_what_was_fetched(topic: str, writer: Writer, consumers: Consumers) -> None:
    consumer = consumers(fetch_message_max_bytes=500, queued_max_message_chunks=1000)
    reader = filled(consumer, writer, topic, 200)
    until(lambda: reader._feed.info().fetched_offset == 200)
    found = []
    for message in checked(reader.messages(timeout_ms=-1)):
        found.append(message.offset)
        if message.offset == 5:
            reader.async_close()
            assert not reader.is_closed
    assert found == [*range(200)]
    assert reader.is_closed
    assert consumer.readers == {}


def test_async_close_wakes_who_waits(topic: str, consumers: Consumers) -> None:
    reader = consumers().consume_partition(topic, 0, 0)
    waiting = Waiting(lambda: list(reader.messages(timeout_ms=-1)))
    reader.async_close()
    assert waiting.end() == []


def test_async_close_in_one_loop_over_all(topic: str, writer: Writer, consumers: Consumers) -> None:
    consumer = consumers()
    reader = filled(consumer, writer, topic, 100)
    assert len(list(islice(consumer.messages(), 5))) == 5
    reader.async_close()
    assert [one.offset for one in consumer.messages(timeout_ms=500)] == [*range(5, 100)]


def test_two_threads_have_a_reader_each(topic: str, writer: Writer, consumers: Consumers) -> None:
    consumer = consumers(fetch_message_max_bytes=5000)
    readers = [consumer.consume_partition(topic, number, 0) for number in range(2)]
    threads = [Waiting(lambda one=one: offsets(one.messages(), 3000)) for one in readers]  # type: ignore[misc]
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
        until(lambda enough=after + 20: len(found) >= enough)  # type: ignore[misc]
    reader.close()
    waiting.end()
    for (target, _, first), (_, end, _) in pairwise(seeks):
        assert found[first] >= target
        assert found[first:end] == [*range(found[first], found[first] + end - first)]


PROGRAM = """
import sys
from ottla.partition import PartitionConsumer
with PartitionConsumer(bootstrap_servers=sys.argv[1]) as consumer:
    reader = consumer.consume_partition("t", 0, "earliest")
    print("waiting", flush=True)
    for message in {}.messages():
        pass
"""


@pytest.mark.parametrize("source", ["reader", "consumer"])
def test_ctrl_c(broker: EmbeddedBroker, source: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(source), broker.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n", process.communicate()[1]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode not in {0, -signal.SIGKILL}
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "Warning" not in said


def test_a_forgotten_consumer_is_told_of_and_ends(broker: EmbeddedBroker, topic: str, writer: Writer) -> None:
    before = threading.active_count()
    consumer = PartitionConsumer(bootstrap_servers=broker.bootstrap, fetch_wait_max_ms=50)
    filled(consumer, writer, topic, 10)
    assert threading.active_count() > before
    del consumer
    with pytest.warns(ResourceWarning, match="was not closed"):
        gc.collect()
    until(lambda: threading.active_count() <= before)


def test_a_consumer_that_read_nothing_has_nothing_to_close(recwarn: pytest.WarningsRecorder) -> None:
    PartitionConsumer(bootstrap_servers="127.0.0.1:1")
    gc.collect()
    assert not [one for one in recwarn if "PartitionConsumer" in str(one.message)]
