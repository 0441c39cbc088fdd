"""Rows and columns into a broker, and read back: where they are, what they carry, what the user is told."""

from __future__ import annotations

import json
import sys
import threading
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.errors import ConfigError, ProducerClosed, RecordTooLarge
from ottla.producer import BatchDelivery, Delivery, Producer, RecordMetadata
from ottla.records.columns import HEADERS
from ottla.records.hashes import key_partition
from tests.producer.reading import Read, read_topic, values

TIMEOUT_S = 120
TIME = 1_700_000_000_000


def producer(broker: EmbeddedBroker, **properties: Any) -> Producer:
    return Producer(bootstrap_servers=broker.bootstrap, **properties)


# ---- rows


def test_a_record_is_where_its_delivery_says(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker) as one:
        sent = one.send(topic, b"v", b"k", timestamp_ms=TIME, headers=[("a", b"1"), ("b", None)])
        told = sent.result(TIMEOUT_S)
    assert told == RecordMetadata(topic, key_partition(b"k", 3), 0, TIME)
    assert sent.done()
    assert sent.exception() is None
    found = read_topic(broker.bootstrap, topic)[told.partition]
    assert found == [Read(0, b"k", b"v", TIME, (("a", b"1"), ("b", None)))]


def test_values_may_be_text_bytes_or_nothing(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker) as one:
        for value in ("é", b"b", bytearray(b"c"), memoryview(b"d"), None, b"", ""):
            one.send(topic, value, partition=1)
    assert values(broker.bootstrap, topic)[1] == ["é".encode(), b"b", b"c", b"d", None, b"", b""]


def test_serializers_make_bytes_of_keys_and_values_and_are_not_called_for_none(
    broker: EmbeddedBroker, topic: str
) -> None:
    seen: list[object] = []

    def by_key(_topic: str, key: bytes | None, value: bytes | None, _count: int) -> int:
        seen.append((key, value))
        return 1

    with producer(broker, key_serializer=str, value_serializer=json.dumps, partitioner=by_key) as one:
        one.send(topic, {"a": 1}, 7)
        one.send(topic, None, None)
        with pytest.raises(TypeError, match="not JSON serializable"):
            one.send(topic, object())
    assert seen == [(b"7", b'{"a": 1}'), (None, None)]
    assert [(record.key, record.value) for record in read_topic(broker.bootstrap, topic)[1]] == seen


def test_a_serializer_must_be_a_function_that_returns_bytes(broker: EmbeddedBroker, topic: str) -> None:
    with pytest.raises(ConfigError, match="key_serializer='utf-8'"):
        producer(broker, key_serializer="utf-8")
    with producer(broker, value_serializer=len) as one, pytest.raises(ConfigError, match="of type int"):
        one.send(topic, b"v")


def test_a_producer_says_what_it_is(broker: EmbeddedBroker) -> None:
    with producer(broker, client_id="billing") as one:
        assert repr(one) == f"<Producer 'billing' to {broker.bootstrap}>"
    assert repr(one) == f"<Producer 'billing' to {broker.bootstrap}, closed>"


def test_a_delivery_says_what_has_become_of_it(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, linger_ms=600_000) as one:
        record, rows = one.send(topic, b"a", partition=0), one.send_many(topic, [b"b", b"c"], partition=0)
        assert repr(record) == f"<Delivery to '{topic}': under way>"
        assert repr(rows) == f"<BatchDelivery of 2 rows to '{topic}': under way>"
    assert repr(record) == f"<Delivery to '{topic}': in partition 0 at offset 0>"
    assert repr(rows) == f"<BatchDelivery of 2 rows to '{topic}': done>"


def test_a_delivery_that_failed_says_why(broker: EmbeddedBroker, topic: str) -> None:
    one = producer(broker, linger_ms=600_000)
    record = one.send(topic, b"a")
    with pytest.raises(ProducerClosed):
        one.close(timeout=0)
    assert repr(record).startswith(f"<Delivery to '{topic}': failed: the producer was closed")


def test_headers_may_be_a_dict(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker) as one:
        one.send(topic, b"1", partition=0)
        one.send(topic, b"2", partition=0, headers={"a": b"1", "b": "text"})  # type: ignore[arg-type]
    found = read_topic(broker.bootstrap, topic)[0]
    assert [record.headers for record in found] == [(), (("a", b"1"), ("b", b"text"))]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"value": 5}, "value is of type int"),
        ({"value": {"item": "tea"}}, "value is of type dict: .*; json.dumps makes text of it"),
        ({"value": b"", "key": 1.5}, "key is of type float"),
        ({"value": b"", "headers": ["ab", "c"]}, "pairs of a text and bytes"),
        ({"value": b"", "headers": [(b"a", b"b")]}, "a header's name is text"),
        ({"value": b"", "timestamp_ms": 1.5}, "timestamp_ms is of type float"),
        ({"value": b"", "timestamp_ms": -1}, "milliseconds since 1970"),
        ({"value": b"", "partition": "1"}, "partition is of type str"),
        ({"value": b"", "topic": ""}, "the name of a topic is wanted"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(
    broker: EmbeddedBroker, topic: str, what: dict[str, Any], message: str
) -> None:
    with producer(broker) as one, pytest.raises(ConfigError, match=message):
        one.send(**{"topic": topic, **what})


def test_keys_place_records_as_java_does(broker: EmbeddedBroker, topic: str) -> None:
    keys = [b"key-%d" % n for n in range(300)]
    with producer(broker) as one:
        told = [one.send(topic, b"v", key) for key in keys]
        assert [sent.result(TIMEOUT_S).partition for sent in told] == [key_partition(key, 3) for key in keys]


def test_records_without_a_key_go_to_one_partition_a_piece(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, linger_ms=0) as one:
        pieces = []
        for _ in range(6):
            sent = [one.send(topic, b"v") for _ in range(20)]
            one.flush(TIMEOUT_S)
            pieces.append([delivery.result().partition for delivery in sent])
    assert {piece[0] for piece in pieces} == {0, 1, 2}
    offsets = [len(found) for found in values(broker.bootstrap, topic).values()]
    assert sum(offsets) == 120


def test_one_wrong_partition_fails_alone(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, linger_ms=1000) as one:
        before = one.send(topic, b"1", partition=2)
        wrong = one.send(topic, b"2", partition=7)
        behind = one.send(topic, b"3", partition=2)
        with pytest.raises(ConfigError, match=r"says partition 7, but .* has 3: 0 to 2"):
            one.flush(TIMEOUT_S)
        assert isinstance(wrong.exception(), ConfigError)
        assert (before.result().offset, behind.result().offset) == (0, 1)
    assert values(broker.bootstrap, topic) == {0: [], 1: [], 2: [b"1", b"3"]}


def test_a_users_partitioner_is_asked_for_rows_and_columns(broker: EmbeddedBroker, topic: str) -> None:
    asked = []

    def by_value(name: str, key: bytes | None, value: bytes | None, count: int) -> int:
        asked.append((name, key, value, count))
        return int(value or b"0") % count

    with producer(broker, partitioner=by_value) as one:
        sent = [one.send(topic, b"%d" % n, b"same") for n in range(6)]
        assert [delivery.result(TIMEOUT_S).partition for delivery in sent] == [0, 1, 2, 0, 1, 2]
        batch = one.send_batch(topic, pa.table({"value": [b"2", b"1", b"0"]}))
        assert batch.result(TIMEOUT_S).column("partition").to_pylist() == [2, 1, 0]
    assert asked[1] == (topic, b"same", b"1", 3)


def test_a_users_column_partitioner_gets_columns(broker: EmbeddedBroker, topic: str) -> None:
    def last(_name: str, columns: pa.RecordBatch, count: int) -> list[int]:
        return [count - 1] * columns.num_rows

    with producer(broker, column_partitioner=last) as one:
        assert one.send(topic, b"v").result(TIMEOUT_S).partition == 2


def test_a_partitioner_that_fails_is_told_in_the_delivery(broker: EmbeddedBroker, topic: str) -> None:
    def fail(*_: object) -> int:
        raise KeyError("nope")

    with producer(broker, partitioner=fail) as one:
        sent = one.send(topic, b"v")
        assert "the partitioner failed: KeyError('nope')" in str(sent.exception(TIMEOUT_S))
        with pytest.raises(KeyError):
            one.send_batch(topic, pa.table({"value": [b"v"]}))


def test_round_robin_takes_turns_row_by_row(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, partitioner="round_robin") as one:
        sent = [one.send(topic, b"v", b"key") for _ in range(9)]
        turns = [delivery.result(TIMEOUT_S).partition for delivery in sent]
    assert sorted(turns) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert all(a != b for a, b in pairwise(turns))


def test_callbacks_get_their_deliveries(broker: EmbeddedBroker, topic: str) -> None:
    told: list[int] = []
    done = threading.Event()

    def note(delivery: Delivery) -> None:
        told.append(delivery.result().offset)
        if len(told) == 50:
            done.set()
            raise RuntimeError("a callback's error harms nobody")

    with producer(broker) as one:
        for _ in range(50):
            one.send(topic, b"v", partition=0, on_delivery=note)
        assert done.wait(TIMEOUT_S)
        assert one.send(topic, b"v", partition=0).result(TIMEOUT_S).offset == 50
    assert told == list(range(50))


def test_a_callback_may_send(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker) as one:
        again = []
        done = threading.Event()

        def reply(delivery: Delivery) -> None:
            again.append(one.send(topic, b"reply", partition=delivery.result().partition))
            done.set()

        one.send(topic, b"first", partition=0, on_delivery=reply)
        assert done.wait(TIMEOUT_S)
        assert again[0].result(TIMEOUT_S).offset == 1


@pytest.mark.parametrize("wait", ["flush", "close"])
def test_a_callback_that_would_wait_for_itself_is_told(broker: EmbeddedBroker, topic: str, wait: str) -> None:
    errors: list[str] = []

    def on_delivery(_delivery: Delivery) -> None:
        try:
            getattr(one, wait)()
        except RuntimeError as error:
            errors.append(str(error))

    with producer(broker) as one:
        one.send(topic, b"v", on_delivery=on_delivery)
        one.flush(TIMEOUT_S)
        assert one.send(topic, b"v").result(TIMEOUT_S)
    assert errors == [f"{wait}() in on_delivery would wait for itself: call it in another thread"]


def test_a_callback_that_exits_does_not_end_the_producer(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker) as one:
        one.send(topic, b"v", on_delivery=lambda _: sys.exit(3))
        one.flush(TIMEOUT_S)
        assert one.send(topic, b"v").result(TIMEOUT_S)


def test_threads_keep_their_own_order(broker: EmbeddedBroker, topic: str) -> None:
    def work(one: Producer, name: int) -> None:
        for n in range(2_000):
            one.send(topic, b"%d %d" % (name, n), b"%d" % name)

    with producer(broker, batch_size=2_000) as one:
        threads = [threading.Thread(target=work, args=(one, name)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen: dict[bytes, list[int]] = {}
    for found in values(broker.bootstrap, topic).values():
        for value in found:
            name, number = (value or b"").split()
            seen.setdefault(name, []).append(int(number))
    assert {name: numbers == list(range(2_000)) for name, numbers in seen.items()} == {
        b"%d" % name: True for name in range(4)
    }


# ---- lists


def test_lists_are_sent_as_single_records_would_be(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker) as one:
        delivery = one.send_many(
            topic,
            ["é", b"b", bytearray(b"c"), None],
            (number for number in (b"1", None, "3", memoryview(b"4"))),
            partition=1,
            timestamps_ms=[TIME, TIME + 1, TIME + 2, TIME + 3],
            headers=[{"a": b"1"}, None, [("b", None)], ()],
        )
        assert delivery.result(TIMEOUT_S)["offset"].to_pylist() == [0, 1, 2, 3]
    assert read_topic(broker.bootstrap, topic)[1] == [
        Read(0, b"1", "é".encode(), TIME, (("a", b"1"),)),
        Read(1, None, b"b", TIME + 1, ()),
        Read(2, b"3", b"c", TIME + 2, (("b", None),)),
        Read(3, b"4", None, TIME + 3, ()),
    ]


def test_lists_go_through_serializers_and_to_the_partitions_of_their_keys(
    broker: EmbeddedBroker, topic: str
) -> None:
    with producer(broker, key_serializer=str, value_serializer=json.dumps) as one:
        placed = one.send_many(topic, [{"a": 1}, None, [2]], range(3)).result(TIMEOUT_S)
    assert placed["partition"].to_pylist() == [key_partition(b"%d" % key, 3) for key in range(3)]
    sent = [value for of_partition in values(broker.bootstrap, topic).values() for value in of_partition]
    assert sorted(sent, key=str) == sorted([b'{"a": 1}', None, b"[2]"], key=str)


@pytest.mark.parametrize(
    ("lists", "reason"),
    [
        ({"values": [b"a", b"b"], "keys": [b"k"]}, "not of the same length: 2 of value, 1 of key"),
        ({"values": b"ab"}, "a list is wanted"),
        ({"values": [1, 2]}, "value is of type int"),
        ({"values": [b"a"], "timestamps_ms": [-1]}, "milliseconds since 1970"),
        ({"values": [b"a"], "headers": [[(1, b"")]]}, "a header's name is text"),
    ],
)
def test_wrong_lists_are_refused_and_nothing_is_sent(
    broker: EmbeddedBroker, topic: str, lists: dict[str, Any], reason: str
) -> None:
    with producer(broker) as one:
        with pytest.raises(ConfigError, match=reason):
            one.send_many(topic, **lists)
        assert len(one.send_many(topic, [])) == 0
    assert not any(values(broker.bootstrap, topic).values())


# ---- columns


def test_columns_are_placed_by_their_keys_and_told_row_by_row(broker: EmbeddedBroker, topic: str) -> None:
    count = 5_000
    keys = [None if n % 5 == 0 else b"k%d" % (n % 91) for n in range(count)]
    table = pa.table(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([b"%d" % n for n in range(count)], pa.binary()),
            "timestamp": pa.array([TIME + n for n in range(count)], pa.int64()),
        }
    )
    with producer(broker, batch_size=3_000) as one:
        delivery = one.send_batch(topic, table)
        told = delivery.result(TIMEOUT_S)
    assert len(delivery) == told.num_rows == count
    found = read_topic(broker.bootstrap, topic)
    for n, (partition, offset) in enumerate(
        zip(told.column("partition").to_pylist(), told.column("offset").to_pylist(), strict=True)
    ):
        record = found[partition][offset]
        assert (record.key, record.value, record.timestamp_ms) == (keys[n], b"%d" % n, TIME + n)
        if keys[n] is not None:
            assert partition == key_partition(keys[n] or b"", 3)
    for records in found.values():
        numbers = [int(record.value or b"") for record in records]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_columns_of_any_text_or_bytes_are_taken(
    broker: EmbeddedBroker, topic: str, kind: pa.DataType
) -> None:
    column = pa.array(["a", None, "é"], pa.string()).cast(kind)
    with producer(broker) as one:
        one.send_batch(topic, pa.table({"value": column}), partition=1).result(TIMEOUT_S)
        one.send_batch(topic, pa.record_batch({"value": column}).slice(2), partition=1)
    assert values(broker.bootstrap, topic)[1] == [b"a", None, "é".encode(), "é".encode()]


def test_columns_have_headers_and_a_partition_column(broker: EmbeddedBroker, topic: str) -> None:
    table = pa.table(
        {
            "value": pa.array([b"1", b"2", b"3"]),
            "headers": pa.array([[{"key": "h", "value": b"x"}], [], None], HEADERS),
            "partition": pa.array([2, 0, 2], pa.int64()),
            "more": [1, 2, 3],
        }
    )
    with producer(broker) as one:
        told = one.send_batch(topic, table).result(TIMEOUT_S)
    assert told.to_pydict() == {"partition": [2, 0, 2], "offset": [0, 0, 1]}
    found = read_topic(broker.bootstrap, topic)
    assert [(one.value, one.headers) for one in found[2]] == [(b"1", (("h", b"x"),)), (b"3", ())]


def test_rows_of_a_partition_column_that_are_null_go_by_key(broker: EmbeddedBroker, topic: str) -> None:
    table = pa.table(
        {"key": [b"k", b"k"], "value": [b"1", b"2"], "partition": pa.array([None, 1], pa.int32())}
    )
    with producer(broker) as one:
        told = one.send_batch(topic, table).result(TIMEOUT_S)
    assert told.column("partition").to_pylist() == [key_partition(b"k", 3), 1]


def test_columns_without_keys_fill_batches_of_one_partition_after_another(
    broker: EmbeddedBroker, topic: str
) -> None:
    table = pa.table({"value": pa.array([b"x" * 100] * 3_000)})
    with producer(broker, batch_size=20_000) as one:
        told = one.send_batch(topic, table).result(TIMEOUT_S).column("partition").to_pylist()
    changes = sum(a != b for a, b in pairwise(told))
    assert set(told) == {0, 1, 2}
    assert changes < 30


def test_rows_and_columns_of_one_thread_stay_in_order(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, linger_ms=200) as one:
        one.send(topic, b"1", partition=0)
        one.send_batch(topic, pa.table({"value": [b"2", b"3"]}), partition=0)
        one.send(topic, b"4", partition=0)
        one.send_batch(
            topic,
            pa.table({"value": [b"5"], "headers": pa.array([[{"key": "h", "value": b""}]], HEADERS)}),
            partition=0,
        )
    assert values(broker.bootstrap, topic)[0] == [b"1", b"2", b"3", b"4", b"5"]


def test_a_table_may_be_larger_than_the_memory(broker: EmbeddedBroker, topic: str) -> None:
    count = 20_000
    table = pa.table({"value": pa.array([b"%0100d" % n for n in range(count)])})
    with producer(broker, buffer_memory=100_000, batch_size=20_000) as one:
        one.send_batch(topic, table, partition=0).result(TIMEOUT_S)
    assert values(broker.bootstrap, topic)[0] == table.column("value").to_pylist()


def test_small_chunks_and_no_rows_are_taken(broker: EmbeddedBroker, topic: str) -> None:
    chunks = pa.chunked_array([pa.array([b"%d" % n]) for n in range(300)])
    with producer(broker) as one:
        one.send_batch(topic, pa.table({"value": chunks}), partition=0)
        nothing = one.send_batch(topic, pa.table({"value": pa.array([], pa.binary())}))
        assert nothing.result(TIMEOUT_S).num_rows == 0
        called: list[object] = []
        one.send_batch(topic, pa.table({"value": pa.array([], pa.binary())}), on_delivery=called.append)
        assert called
    assert values(broker.bootstrap, topic)[0] == chunks.to_pylist()


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"key": [b"a"]}, {}, "there is no column 'value'"),
        ({"value": [1.5]}, {}, "column 'value' of type double does not hold binary"),
        ({"value": [b""], "headers": [5]}, {}, "column 'headers'"),
        ({"value": [b""], "timestamp": ["no"]}, {}, "column 'timestamp'"),
        ({"value": [b""], "partition": [3]}, {}, "column 'partition' says partition 3"),
        ({"value": [b""], "partition": [-1]}, {}, "column 'partition' says partition -1"),
        ({"value": [b""], "partition": [1]}, {"partition": 1}, "leave one of them out"),
        ({"value": [b""]}, {"partition": 3}, r"send_batch\(\) says partition 3"),
    ],
)
def test_columns_that_cannot_be_sent_are_refused(
    broker: EmbeddedBroker, topic: str, columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with producer(broker) as one:
        with pytest.raises(ConfigError, match=message):
            one.send_batch(topic, pa.table(columns), **options)
        with pytest.raises(ConfigError, match=r"not as list: for one record use send\(\)"):
            one.send_batch(topic, [b"v"])


def test_columns_are_told_by_a_callback(broker: EmbeddedBroker, topic: str) -> None:
    done = threading.Event()
    told: list[int] = []

    def note(delivery: BatchDelivery) -> None:
        told.append(delivery.result().num_rows)
        done.set()

    with producer(broker) as one:
        one.send_batch(topic, pa.table({"value": [b"1", b"2"]}), on_delivery=note)
        assert done.wait(TIMEOUT_S)
    assert told == [2]


# ---- how it is sent


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_again(broker: EmbeddedBroker, topic: str, codec: str) -> None:
    table = pa.table({"value": pa.array([b"value %d" % n for n in range(2_000)])})
    with producer(broker, compression_type=codec) as one:
        one.send_batch(topic, table, partition=0)
        one.send(topic, b"last", partition=0)
    assert values(broker.bootstrap, topic)[0] == [*table.column("value").to_pylist(), b"last"]


@pytest.mark.parametrize("acks", [0, 1, "all", "-1"])
def test_every_acknowledgement_stores(broker: EmbeddedBroker, topic: str, acks: object) -> None:
    with producer(broker, acks=acks) as one:
        told = [one.send(topic, b"%d" % n, partition=0) for n in range(20)]
        one.flush(TIMEOUT_S)
        assert [sent.result().offset for sent in told] == ([-1] * 20 if acks == 0 else list(range(20)))
    if acks != 0:
        assert values(broker.bootstrap, topic)[0] == [b"%d" % n for n in range(20)]


def test_a_record_above_the_limits_is_refused(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, max_request_size=10_000) as one:
        with pytest.raises(RecordTooLarge, match=r"20,0\d\d bytes is above max.request.size=10,000"):
            one.send(topic, bytes(20_000))
        with pytest.raises(RecordTooLarge):
            one.send_batch(topic, pa.table({"value": [b"small", bytes(20_000)]}))
    assert not any(values(broker.bootstrap, topic).values())


def test_nothing_is_taken_after_the_close(broker: EmbeddedBroker, topic: str) -> None:
    one = producer(broker)
    sent = one.send(topic, b"v")
    one.close()
    assert sent.result(0).offset == 0
    one.close()
    for call in (lambda: one.send(topic, b"v"), lambda: one.send_batch(topic, pa.table({"value": [b"v"]}))):
        with pytest.raises(ProducerClosed):
            call()


def test_a_topic_is_made_where_the_broker_allows_it(broker: EmbeddedBroker) -> None:
    with producer(broker) as one:
        assert one.send("made-by-sending", b"v").result(TIMEOUT_S).offset == 0


def test_librdkafka_reads_what_was_sent(broker: EmbeddedBroker, topic: str) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    with producer(broker, compression_type="lz4") as one:
        for n in range(100):
            one.send(topic, b"%d" % n, b"k", headers=[("n", b"%d" % n)])
    partition = key_partition(b"k", 3)
    consumer = confluent.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    try:
        consumer.assign([confluent.TopicPartition(topic, partition, 0)])
        found: list[Any] = []
        while len(found) < 100:
            messages = consumer.consume(100, TIMEOUT_S)
            assert messages, "nothing came"
            found += messages
        assert [message.value() for message in found] == [b"%d" % n for n in range(100)]
        assert found[7].headers() == [("n", b"7")]
    finally:
        consumer.close()
