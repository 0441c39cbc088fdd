"""SimpleConsumer on the embedded broker: every call, lost connections, timeouts, the end, wrong arguments."""

from __future__ import annotations

import logging
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from ottla import ConfigError, EmbeddedBroker, KafkaError, LocalProtocolError, OttlaError, Producer
from ottla.consumer.simple import (
    EARLIEST_TIME,
    LATEST_TIME,
    FetchRequestBuilder,
    OffsetAndMetadata,
    SimpleConsumer,
    TopicAndPartition,
    find_coordinator,
)
from ottla.model.error_codes import Code
from ottla.model.errors import BrokerUnreachable, ConnectionLost, OffsetCommitFailed, RequestTimedOut
from ottla.wire.api.offset_commit import (
    OffsetCommitPartitionResponse,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
)
from ottla.wire.headers import decode_request_header
from tests.client.raw_server import RawServer, exactly, framed, next_request
from tests.consumer.simple.traffic import one_fetch, write
from tests.waiting import PATIENCE_S, wait_for

# --- messages


def test_several_partitions_come_in_one_answer(
    broker: EmbeddedBroker, topic: str, consumer: SimpleConsumer
) -> None:
    write(broker.bootstrap, topic, b"a", b"b")
    write(broker.bootstrap, topic, b"c", partition=1)
    builder = FetchRequestBuilder().client_id("me").max_wait(500).min_bytes(1)
    request = builder.add_fetch(topic, 0, 1, 10_000).add_fetch(topic, 1, 0, 10_000).build()
    response = consumer.fetch(request)
    assert not response.has_error
    assert [(one.offset, one.message.value) for one in response.message_set(topic, 0)] == [(1, b"b")]
    assert [(one.offset, one.message.value) for one in response.message_set(topic, 1)] == [(0, b"c")]
    assert response.batch(topic, 0).column("value") == pa.array([b"b"], pa.binary())
    assert (response.high_watermark(topic, 0), response.high_watermark(topic, 1)) == (2, 1)


def test_messages_of_aborted_and_open_transactions_are_left_out(
    broker: EmbeddedBroker, topic: str, consumer: SimpleConsumer
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
        for value, end in (("committed", producer.commit), ("aborted", producer.abort)):
            producer.begin()
            producer.send(topic, value, partition=0).result(PATIENCE_S)
            end()
        producer.begin()
        producer.send(topic, "open", partition=0).result(PATIENCE_S)
        builder = FetchRequestBuilder().add_fetch(topic, 0, 0, 10_000)
        for level, values in (
            ("read_uncommitted", [b"committed", b"aborted", b"open"]),
            ("read_committed", [b"committed"]),
        ):
            response = consumer.fetch(builder.isolation_level(level).add_fetch(topic, 0, 0, 10_000).build())
            assert [one.message.value for one in response.message_set(topic, 0)] == values
        assert response.next_offset(topic, 0) == 4  # where the open transaction begins
        waiting = consumer.fetch(builder.add_fetch(topic, 0, 4, 10_000).build())
        assert waiting.batch(topic, 0).num_rows == 0
        assert waiting.remark(topic, 0) == ""  # more bytes would not help


def test_errors_are_of_their_partitions(broker: EmbeddedBroker, topic: str, consumer: SimpleConsumer) -> None:
    write(broker.bootstrap, topic, b"a")
    builder = FetchRequestBuilder().add_fetch(topic, 0, 0, 1000).add_fetch(topic, 1, 50, 1000)
    response = consumer.fetch(builder.add_fetch("nowhere", 0, 0, 1000).build())
    assert response.has_error
    assert response.error_code(topic, 0) == Code.NONE
    assert response.error_code(topic, 1) == Code.OFFSET_OUT_OF_RANGE
    assert response.error_code("nowhere", 0) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert len(list(response.message_set(topic, 0))) == 1


def test_a_fetch_at_the_end_waits_for_what_is_written(
    broker: EmbeddedBroker, topic: str, consumer: SimpleConsumer
) -> None:
    request = (
        FetchRequestBuilder()
        .max_wait(int(PATIENCE_S * 1000))
        .min_bytes(1)
        .add_fetch(topic, 0, 0, 1000)
        .build()
    )
    writer = threading.Timer(0.05, write, (broker.bootstrap, topic, b"late"))
    writer.start()
    response = consumer.fetch(request)
    writer.join()
    assert [one.message.value for one in response.message_set(topic, 0)] == [b"late"]


def test_a_first_batch_that_is_too_large_comes_whole_and_the_next_partition_waits(
    broker: EmbeddedBroker, topic: str, consumer: SimpleConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    for partition in (0, 1):
        write(broker.bootstrap, topic, b"x" * 1000, partition=partition)
    caplog.set_level(logging.INFO, "ottla.consumer.simple")
    builder = FetchRequestBuilder().add_fetch(topic, 0, 0, 100).add_fetch(topic, 1, 0, 100)
    response = consumer.fetch(builder.build())
    assert [len(one.message.value or b"") for one in response.message_set(topic, 0)] == [1000]
    assert "The first batch came whole all the same" in response.remark(topic, 0)
    assert list(response.message_set(topic, 1)) == []
    assert f"{topic}-1 at offset 0: the log goes on to offset 1, and nothing came" in response.remark(
        topic, 1
    )
    assert response.bytes_needed(topic, 1) == 0
    told = {record.getMessage(): record.levelname for record in caplog.records}
    assert told[response.remark(topic, 0)] == "INFO"
    assert told[response.remark(topic, 1)] == "WARNING"


def test_an_old_version_says_that_the_size_is_too_small(
    broker: EmbeddedBroker, topic: str, consumer: SimpleConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    write(broker.bootstrap, topic, b"x" * 1000)
    builder = FetchRequestBuilder().request_version(2)
    response = consumer.fetch(builder.add_fetch(topic, 0, 0, 100).build())
    assert response.version == 2
    assert list(response.message_set(topic, 0)) == []
    assert response.next_offset(topic, 0) == 0
    # The broker converts, and sends an overflow entry, whose size is not the message's.
    assert response.bytes_needed(topic, 0) == 0
    assert "does not fit into fetch_size 100 or max_bytes: ask for more bytes" in caplog.text
    again = consumer.fetch(builder.add_fetch(topic, 0, 0, 2000).build())
    assert [len(one.message.value or b"") for one in again.message_set(topic, 0)] == [1000]


# --- where logs begin and end, who leads them


def test_offsets_before_a_time_are_the_bases_of_segments(
    broker: EmbeddedBroker, consumer: SimpleConsumer
) -> None:
    broker.create_topic("segments", config={"segment.bytes": "2000"})
    write(broker.bootstrap, "segments", *[b"x" * 900] * 7)
    place = TopicAndPartition("segments", 0)
    every = consumer.get_offsets_before(place, LATEST_TIME, 100)
    assert every[0] == 7
    assert every[-1] == 0
    assert list(every) == sorted(every, reverse=True)
    assert len(every) > 3
    assert consumer.get_offsets_before(place) == (7,)
    assert consumer.get_offsets_before(place, LATEST_TIME, 2) == every[:2]
    assert consumer.get_offsets_before(place, EARLIEST_TIME, 5) == (0,)
    assert consumer.get_offsets_before(place, 1000) == ()
    with pytest.raises(KafkaError, match="offsets of nowhere-0"):
        consumer.get_offsets_before(TopicAndPartition("nowhere", 0))


def test_metadata_tells_of_topics_and_makes_none(
    broker: EmbeddedBroker, topic: str, consumer: SimpleConsumer
) -> None:
    known, unknown = consumer.topic_metadata(topic, "never-made")
    assert (known.topic, known.error_code) == (topic, Code.NONE)
    assert [one.partition_id for one in known.partitions_metadata] == [0, 1]
    (first, _) = known.partitions_metadata
    assert first.leader is not None
    assert first.leader.port == broker.port
    assert first.replicas == first.isr == (first.leader,)
    assert (unknown.topic, unknown.error_code) == ("never-made", Code.UNKNOWN_TOPIC_OR_PARTITION)
    names = [one.topic for one in consumer.topic_metadata()]
    assert topic in names
    assert "never-made" not in names


# --- offsets of groups


def test_offsets_of_a_group_are_stored_and_read_back(broker: EmbeddedBroker, topic: str) -> None:
    first, second = TopicAndPartition(topic, 0), TopicAndPartition(topic, 1)
    with SimpleConsumer(*find_coordinator(broker.bootstrap, "g").address) as coordinator:
        assert coordinator.fetch_offsets("g", [first, second]) == {}
        coordinator.commit_offsets("g", {first: OffsetAndMetadata(5, "noted"), second: 7})
        assert coordinator.fetch_offsets("g", [first, second, TopicAndPartition("nowhere", 0)]) == {
            first: OffsetAndMetadata(5, "noted"),
            second: OffsetAndMetadata(7),
        }


def test_an_offset_that_is_refused_is_told_by_name(topic: str, consumer: SimpleConsumer) -> None:
    sound, wrong = TopicAndPartition(topic, 0), TopicAndPartition("nowhere", 3)
    with pytest.raises(OffsetCommitFailed, match="group 'h': offsets of nowhere-3 were not") as caught:
        consumer.commit_offsets("h", {sound: 1, wrong: 1})
    assert caught.value.failures == {wrong: Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert consumer.fetch_offsets("h", [sound, wrong]) == {sound: OffsetAndMetadata(1)}


def test_who_asks_another_than_the_coordinator_is_told_how_to_find_it(
    broker: EmbeddedBroker, topic: str, consumer: SimpleConsumer
) -> None:
    broker.fail("OffsetFetch", Code.NOT_COORDINATOR)
    with pytest.raises(KafkaError, match="find_coordinator") as caught:
        consumer.fetch_offsets("g", [TopicAndPartition(topic, 0)])
    assert caught.value.retriable


def test_zookeeper_is_not_silently_replaced(topic: str, consumer: SimpleConsumer) -> None:
    place = TopicAndPartition(topic, 0)
    with pytest.raises(LocalProtocolError, match="keeps no offsets in ZooKeeper"):
        consumer.commit_offsets("g", {place: 1}, version=0)
    with pytest.raises(LocalProtocolError, match="leave version out"):
        consumer.fetch_offsets("g", [place], version=0)


def test_a_broker_that_lost_its_zookeeper_is_told_of() -> None:
    """Kafka 3.9 lists version 0 and refuses it where it runs without ZooKeeper."""

    def refuse(connection: socket.socket) -> None:
        _, correlation_id = next_request(connection)
        row = OffsetCommitPartitionResponse(partition_index=0, error_code=Code.UNSUPPORTED_VERSION)
        topics = [OffsetCommitTopicResponse(name="t", partitions=[row])]
        connection.sendall(framed(correlation_id, OffsetCommitResponse(topics=topics), version=0))
        exactly(connection, 1)

    with (
        RawServer(refuse) as server,
        SimpleConsumer(*server.address, broker_version="0.9") as consumer,
        pytest.raises(LocalProtocolError, match="keeps no offsets in ZooKeeper"),
    ):
        consumer.commit_offsets("g", {TopicAndPartition("t", 0): 1}, version=0)


def test_a_broker_that_has_only_zookeeper_is_told_of(broker: EmbeddedBroker, topic: str) -> None:
    with (
        SimpleConsumer("127.0.0.1", broker.port, broker_version="0.8.1") as consumer,
        pytest.raises(LocalProtocolError, match=r"in ZooKeeper only.*give version=0"),
    ):
        consumer.commit_offsets("g", {TopicAndPartition(topic, 0): 1})


# --- the connection


def test_a_connection_that_breaks_is_made_anew_once(
    broker: EmbeddedBroker, topic: str, consumer: SimpleConsumer
) -> None:
    write(broker.bootstrap, topic, b"a")
    broker.drop("Fetch")
    assert len(list(consumer.fetch(one_fetch(topic)).message_set(topic, 0))) == 1
    broker.drop("Fetch", times=2)
    with pytest.raises(ConnectionLost):
        consumer.fetch(one_fetch(topic))
    assert len(list(consumer.fetch(one_fetch(topic)).message_set(topic, 0))) == 1


def test_no_answer_in_time_is_an_error_and_the_next_call_has_a_new_connection() -> None:
    with (
        RawServer.silent() as server,
        SimpleConsumer(*server.address, so_timeout=100, broker_version="0.9") as consumer,
    ):
        for _ in range(2):
            with pytest.raises(RequestTimedOut):
                consumer.fetch(one_fetch("t"))
        wait_for(lambda: server.accepted == 2)


def test_asking_for_versions_takes_no_longer_than_the_caller_waits() -> None:
    with (
        RawServer.silent() as server,
        SimpleConsumer(*server.address, so_timeout=100) as consumer,
        pytest.raises(BrokerUnreachable, match="2 requests, 100 ms each"),
    ):
        consumer.topic_metadata()


def test_a_broker_that_is_not_there_is_told_of() -> None:
    with EmbeddedBroker() as gone:
        port = gone.port
    with (
        SimpleConsumer("127.0.0.1", port) as consumer,
        pytest.raises(BrokerUnreachable, match=f"127.0.0.1:{port}"),
    ):
        consumer.topic_metadata()


def test_a_request_may_have_a_client_id_of_its_own() -> None:
    heard: list[str | None] = []

    def hang_up(connection: socket.socket) -> None:
        (size,) = struct.unpack(">i", exactly(connection, 4))
        heard.append(decode_request_header(exactly(connection, size))[0].client_id)

    with RawServer(hang_up) as server:
        with SimpleConsumer(*server.address, client_id="own", broker_version="0.9") as consumer:
            for name in ("", "other"):
                request = FetchRequestBuilder().client_id(name).add_fetch("t", 0, 0, 1).build()
                with pytest.raises(ConnectionLost):
                    consumer.fetch(request)
        assert heard == ["own", "own", "other", "other"]  # each is sent once more


def test_a_closed_consumer_stays_closed(broker: EmbeddedBroker, topic: str) -> None:
    consumer = SimpleConsumer("127.0.0.1", broker.port)
    assert not consumer.fetch(one_fetch(topic)).has_error
    consumer.close()
    consumer.close()
    with pytest.raises(ConfigError, match="is closed: make a new one"):
        consumer.fetch(one_fetch(topic))


def test_close_ends_a_fetch_of_another_thread(broker: EmbeddedBroker, topic: str) -> None:
    is_waiting = threading.Event()
    broker.delay("Fetch", 0.001, when=lambda _: not is_waiting.set())
    consumer = SimpleConsumer("127.0.0.1", broker.port)
    request = FetchRequestBuilder().max_wait(600_000).min_bytes(1).add_fetch(topic, 0, 0, 1000).build()
    outcome: list[OttlaError] = []

    def fetch() -> None:
        try:
            consumer.fetch(request)
        except OttlaError as error:
            outcome.append(error)

    thread = threading.Thread(target=fetch)
    thread.start()
    assert is_waiting.wait(PATIENCE_S)
    consumer.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert isinstance(outcome[0], ConnectionLost)


def test_ctrl_c_ends_a_fetch(broker: EmbeddedBroker, topic: str) -> None:
    program = (
        "import sys; from ottla.consumer.simple import *\n"
        "with SimpleConsumer('127.0.0.1', int(sys.argv[1])) as consumer:\n"
        "    consumer.topic_metadata(); print('waiting', flush=True)\n"
        "    consumer.fetch(FetchRequestBuilder().max_wait(600_000).min_bytes(1)"
        ".add_fetch(sys.argv[2], 0, 0, 1).build())\n"
    )
    command = [sys.executable, "-W", "error", "-c", program, str(broker.port), topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert told.rstrip().endswith("KeyboardInterrupt")


# --- wrong arguments


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SimpleConsumer("", 9092), "host is ''"),
        (lambda: SimpleConsumer("kafka:9092", 9092), "host is 'kafka:9092': give the host alone"),
        (lambda: SimpleConsumer("a host", 9092), "is no address of a broker"),
        (lambda: SimpleConsumer("kafka", 70_000), "port is 70000: give the broker's port"),
        (lambda: SimpleConsumer("kafka", "9092"), "port is '9092'"),  # type: ignore[arg-type]
        (lambda: SimpleConsumer("kafka", 9092, 0), "so_timeout=0"),
        (lambda: SimpleConsumer("kafka", 9092, buffer_size=-2), "buffer_size=-2"),
        (lambda: SimpleConsumer("kafka", 9092, client_id=5), "client_id=5"),  # type: ignore[arg-type]
        (lambda: SimpleConsumer("kafka", 9092, secure_protocol="SSL"), "did you mean security.protocol"),
        (lambda: SimpleConsumer("kafka", 9092, request_timeout_ms=5), "request_timeout_ms and so_timeout"),
        (
            lambda: SimpleConsumer("kafka", 9092, bootstrap_servers="a:1"),
            "bootstrap_servers and host and port",
        ),
        (lambda: SimpleConsumer("kafka", 9092, broker_version="4.1"), "cannot be pinned"),
    ],
)
def test_a_consumer_that_cannot_be_is_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda c: c.fetch({"t": 0}), "is not a FetchRequest"),
        (lambda c: c.get_offsets_before("t"), "'t' is not a partition: give TopicAndPartition"),
        (lambda c: c.get_offsets_before(("t", 0), -3), "time is -3: give -1"),
        (lambda c: c.get_offsets_before(("t", 0), -1, 0), "max_num_offsets is 0"),
        (lambda c: c.topic_metadata(["t"]), "topic is"),
        (lambda c: c.commit_offsets("", {("t", 0): 1}), "group is ''"),
        (lambda c: c.commit_offsets("g", {}), "no offsets are given"),
        (lambda c: c.commit_offsets("g", {("t", 0): -1}), "offset of t-0 is -1"),
        (lambda c: c.commit_offsets("g", {("t", 0): OffsetAndMetadata(1, b"")}), "metadata of t-0 is b''"),  # type: ignore[arg-type]
        (lambda c: c.commit_offsets("g", {("t", 0): 1}, version=-1), "version is -1: 0 is ZooKeeper"),
        (lambda c: c.fetch_offsets("g", []), "no partitions are given"),
        (lambda c: c.fetch_offsets("g", [("t", "0")]), "partition is '0'"),
    ],
)
def test_wrong_arguments_are_told_before_anything_is_sent(
    call: Callable[[SimpleConsumer], object], told: str
) -> None:
    with SimpleConsumer("127.0.0.1", 1) as nobody, pytest.raises(ConfigError, match=told):
        call(nobody)
