"""Brokers that refuse, hang up, move, go and come back under load: stored once, in order, or told of."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

from ottla import aio
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import DeliveryExpired, KafkaError, OttlaError, ProducerClosed
from ottla.producer import BufferFull, Producer
from tests.both_faces import FACES, on_a_loop
from tests.producer.reading import values

TIMEOUT_S = 60
COUNT = 3_000


@pytest.fixture
def cluster() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3) as one:
        one.create_topic("orders", 3, replication_factor=3)
        yield one


@pytest.fixture(autouse=True)
def no_faults_left(broker: EmbeddedBroker) -> Iterator[None]:
    yield
    broker.heal()


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Iterator[None]:
    """Producers are blocking ones, or those of asyncio."""
    with ExitStack() as stack:
        if request.param != FACES[0]:
            stack.enter_context(on_a_loop(sys.modules[__name__], "Producer", aio.Producer))
        yield


both_faces = pytest.mark.usefixtures("face")


def producer(broker: EmbeddedBroker, **properties: Any) -> Producer:
    defaults = {"batch_size": 2_000, "retry_backoff_ms": 5, "reconnect_backoff_ms": 5, "linger_ms": 1}
    return Producer(bootstrap_servers=broker.bootstrap, **{**defaults, **properties})


def numbers(found: list[bytes | None]) -> list[int]:
    return [int(value or b"") for value in found]


def check_once_and_in_order(broker: EmbeddedBroker, topic: str, count: int = COUNT) -> None:
    found = [numbers(one) for one in values(broker.bootstrap, topic).values()]
    assert all(one == sorted(one) for one in found), "out of order"
    together = sorted(number for one in found for number in one)
    assert len(together) == len(set(together)), "twice"
    assert together == list(range(count)), "lost"


def send_numbers(one: Producer, topic: str, count: int = COUNT) -> None:
    for n in range(count):
        one.send(topic, b"%d" % n, b"%d" % (n % 17))


# ---- one broker, with faults


@pytest.mark.parametrize(
    "error",
    [
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.LEADER_NOT_AVAILABLE,
        Code.REQUEST_TIMED_OUT,
        Code.NOT_ENOUGH_REPLICAS,
        Code.CORRUPT_MESSAGE,
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Code.UNKNOWN_PRODUCER_ID,
        Code.INVALID_PRODUCER_EPOCH,
        Code.KAFKA_STORAGE_ERROR,
    ],
    ids=lambda code: code.name,
)
@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_errors_that_pass_are_survived(
    broker: EmbeddedBroker, topic: str, error: Code, idempotent: bool
) -> None:
    with producer(broker, enable_idempotence=idempotent) as one:
        rule = broker.fail("Produce", error, times=5)
        send_numbers(one, topic)
        one.flush(TIMEOUT_S)
    assert rule.struck == 5
    check_once_and_in_order(broker, topic)


@pytest.mark.parametrize("handled", [True, False], ids=["answers lost", "requests lost"])
def test_connections_that_break_are_survived(broker: EmbeddedBroker, topic: str, handled: bool) -> None:
    with producer(broker) as one:
        rule = broker.drop("Produce", times=4, handled=handled)
        send_numbers(one, topic)
        one.flush(TIMEOUT_S)
    assert rule.struck == 4
    check_once_and_in_order(broker, topic)


def test_without_idempotence_a_lost_answer_stores_twice_but_in_order(
    broker: EmbeddedBroker, topic: str
) -> None:
    with producer(broker, enable_idempotence=False) as one:
        broker.drop("Produce", times=4, handled=True)
        send_numbers(one, topic)
        one.flush(TIMEOUT_S)
    found = [numbers(one) for one in values(broker.bootstrap, topic).values()]
    assert sorted({number for one in found for number in one}) == list(range(COUNT))
    assert sum(map(len, found)) > COUNT
    for one_partition in found:
        first_seen = list(dict.fromkeys(one_partition))
        assert first_seen == sorted(first_seen)


@pytest.mark.parametrize("seed", range(5))
def test_many_faults_at_random(broker: EmbeddedBroker, topic: str, seed: int) -> None:
    chance = random.Random(seed)
    errors = [Code.NOT_LEADER_OR_FOLLOWER, Code.REQUEST_TIMED_OUT, Code.OUT_OF_ORDER_SEQUENCE_NUMBER]

    def at_random(_request: object) -> bool:
        return chance.random() < 0.05

    with producer(broker, batch_size=chance.choice((500, 5_000))) as one:
        for error in errors[:2]:
            broker.fail("Produce", error, times=8, when=at_random)
        broker.drop("Produce", times=4, when=at_random)
        broker.drop("Produce", times=4, handled=True, when=at_random)
        broker.delay("Produce", 0.02, times=10, when=at_random)
        broker.fail("Metadata", Code.REQUEST_TIMED_OUT, times=2)
        send_numbers(one, topic)
        one.flush(TIMEOUT_S)
    check_once_and_in_order(broker, topic)


@both_faces
def test_columns_survive_faults_too(broker: EmbeddedBroker, topic: str) -> None:
    table = pa.table(
        {
            "key": pa.array([b"%d" % (n % 17) for n in range(COUNT)]),
            "value": pa.array([b"%d" % n for n in range(COUNT)]),
        }
    )
    with producer(broker) as one:
        broker.drop("Produce", times=2, handled=True)
        broker.fail("Produce", Code.NOT_LEADER_OR_FOLLOWER, times=3)
        told = one.send_batch(topic, table).result(TIMEOUT_S)
    check_once_and_in_order(broker, topic)
    found = values(broker.bootstrap, topic)
    places = zip(told.column("partition").to_pylist(), told.column("offset").to_pylist(), strict=True)
    assert [int(found[partition][offset] or b"") for partition, offset in places] == list(range(COUNT))


def test_an_id_that_is_slow_to_come_is_waited_for(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker) as one:
        broker.fail("InitProducerId", Code.COORDINATOR_LOAD_IN_PROGRESS, times=3)
        send_numbers(one, topic, 10)
        one.flush(TIMEOUT_S)
    check_once_and_in_order(broker, topic, 10)


def test_a_cluster_that_refuses_ids_is_used_without_unless_demanded(
    broker: EmbeddedBroker, topic: str
) -> None:
    broker.fail("InitProducerId", Code.CLUSTER_AUTHORIZATION_FAILED, times=2)
    with producer(broker) as one:
        send_numbers(one, topic, 10)
    check_once_and_in_order(broker, topic, 10)
    with producer(broker, enable_idempotence=True) as one:
        sent = one.send(topic, b"v")
        error = sent.exception(TIMEOUT_S)
        assert "CLUSTER_AUTHORIZATION_FAILED" in str(error)
        assert "Set enable.idempotence=false" in str(error)
        with pytest.raises(OttlaError, match=r"enable\.idempotence"):
            one.send(topic, b"v")


# ---- records that a broker does not take


@both_faces
def test_batches_that_are_too_large_for_the_topic_are_split(broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(f"{topic}-small", 1, config={"max.message.bytes": "1000"})
    with producer(broker, batch_size=100_000, linger_ms=50) as one:
        told = [one.send(f"{topic}-small", b"%d" % n) for n in range(2_000)]
        one.flush(TIMEOUT_S)
        assert [sent.result().offset for sent in told] == list(range(2_000))
    check_once_and_in_order(broker, f"{topic}-small", 2_000)


@both_faces
def test_a_record_that_is_too_large_for_the_topic_fails_alone(broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(f"{topic}-small", 1, config={"max.message.bytes": "1000"})
    with producer(broker, batch_size=100_000, linger_ms=50) as one:
        sent = [one.send(f"{topic}-small", bytes(5_000) if n == 50 else b"%d" % n) for n in range(100)]
        errors = [delivery.exception(TIMEOUT_S) for delivery in sent]
    assert [n for n, error in enumerate(errors) if error is not None] == [50]
    failure = errors[50]
    assert isinstance(failure, KafkaError)
    assert failure.code == Code.MESSAGE_TOO_LARGE
    assert f"{topic}-small-0: 1 records" in str(failure)
    found = numbers(values(broker.bootstrap, f"{topic}-small")[0])
    assert found == [n for n in range(100) if n != 50]


@both_faces
def test_what_is_refused_is_told_and_the_rest_goes_on(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker) as one:
        assert one.send(topic, b"0", partition=0).result(TIMEOUT_S).offset == 0
        broker.fail("Produce", Code.INVALID_RECORD, times=1)
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            one.send(topic, b"1", partition=0).result(TIMEOUT_S)
        told = [one.send(topic, b"%d" % n, partition=0) for n in range(2, 500)]
        assert [sent.result(TIMEOUT_S).offset for sent in told] == list(range(1, 499))
    assert numbers(values(broker.bootstrap, topic)[0]) == [0, *range(2, 500)]


@both_faces
def test_failures_that_nobody_looked_at_are_raised_by_flush_and_close(
    broker: EmbeddedBroker, topic: str
) -> None:
    one = producer(broker)
    broker.fail("Produce", Code.TOPIC_AUTHORIZATION_FAILED, times=1)
    one.send(topic, b"v")
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        one.flush(TIMEOUT_S)
    one.flush(TIMEOUT_S)
    broker.fail("Produce", Code.TOPIC_AUTHORIZATION_FAILED, times=1)
    one.send_batch(topic, pa.table({"value": [b"v"]}))
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        one.close()


@both_faces
def test_a_batchs_failures_are_told_by_rows(broker: EmbeddedBroker, topic: str) -> None:
    table = pa.table({"value": [b"0", b"1", b"2"], "partition": pa.array([0, 1, 0], pa.int32())})
    with producer(broker, max_request_size=100, batch_size=100, linger_ms=0) as one:
        one.send(topic, b"first", partition=0).result(TIMEOUT_S)
        broker.fail(
            "Produce",
            Code.INVALID_RECORD,
            times=1,
            when=lambda request: request.topic_data[0].partition_data[0].index == 1,
        )
        delivery = one.send_batch(topic, table)
        failures = delivery.failures(TIMEOUT_S)
        assert [(list(rows), error.code) for rows, error in failures] == [([1], Code.INVALID_RECORD)]  # type: ignore[attr-defined]
        with pytest.raises(KafkaError):
            delivery.result(TIMEOUT_S)


def test_topics_that_there_cannot_be_are_told(broker: EmbeddedBroker) -> None:
    with producer(broker) as one:
        sent = one.send("no such/topic", b"v")
        assert "INVALID_TOPIC" in str(sent.exception(TIMEOUT_S))
        with pytest.raises(KafkaError, match="INVALID_TOPIC"):
            one.send_batch("no such/topic", pa.table({"value": [b"v"]}))


def test_topics_that_there_are_not_are_told_after_a_while(broker: EmbeddedBroker) -> None:
    with producer(broker, allow_auto_create_topics=False, max_block_ms=100) as one:
        sent = one.send("nowhere", b"v")
        error = sent.exception(TIMEOUT_S)
        assert isinstance(error, DeliveryExpired)
        assert "nothing is known of it after 100 ms" in str(error)
        with pytest.raises(DeliveryExpired, match="nowhere"):
            one.send_batch("nowhere", pa.table({"value": [b"v"]}))


# ---- brokers that are not there


def test_a_full_buffer_is_told_after_max_block(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, buffer_memory=10_000, max_block_ms=50) as one:
        sent = [one.send(topic, b"v")]
        one.flush(TIMEOUT_S)
        broker.delay("Produce", 600, times=-1)
        with pytest.raises(BufferFull, match=r"buffer.memory=10,000.*max.block.ms=50"):
            sent += [one.send(topic, bytes(500)) for _ in range(25)]
        with pytest.raises(ProducerClosed):
            one.close(0)
    assert sent[0].result(0).offset == 0


def test_a_full_buffer_tells_what_was_accepted_of_a_batch(broker: EmbeddedBroker, topic: str) -> None:
    table = pa.table({"value": pa.array([bytes(1_000)] * 500)})
    with producer(broker, buffer_memory=50_000, max_block_ms=100) as one:
        one.send(topic, b"v", partition=0).result(TIMEOUT_S)
        rule = broker.delay("Produce", 1, times=-1)
        with pytest.raises(BufferFull, match="rows were accepted, the next were not") as caught:
            one.send_batch(topic, table, partition=0)
        rule.left = 0
        broker.clear_faults()
        delivery = caught.value.delivery
        assert delivery is not None
        assert 0 < caught.value.accepted == len(delivery) < 500
        assert delivery.result(TIMEOUT_S).num_rows == caught.value.accepted
    assert len(values(broker.bootstrap, topic)[0]) == caught.value.accepted + 1


def test_records_expire_when_no_broker_takes_them(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, delivery_timeout_ms=2_000, request_timeout_ms=1_000, linger_ms=0) as one:
        assert one.send(topic, b"0", partition=0).result(TIMEOUT_S).offset == 0
        broker.fail("Produce", Code.NOT_ENOUGH_REPLICAS, times=-1)
        sent = [one.send(topic, b"v", partition=0) for _ in range(10)]
        for delivery in sent:
            error = delivery.exception(TIMEOUT_S)
            assert isinstance(error, DeliveryExpired)
            assert "delivery.timeout.ms=2000; they are not stored" in str(error)
        broker.clear_faults()
        assert one.send(topic, b"1", partition=0).result(TIMEOUT_S).offset == 1
    assert values(broker.bootstrap, topic)[0] == [b"0", b"1"]


def test_columns_expire_too_although_nothing_else_is_sent(broker: EmbeddedBroker, topic: str) -> None:
    table = pa.table({"value": [b"v"]})
    with producer(broker, delivery_timeout_ms=1_000, request_timeout_ms=500, linger_ms=0) as one:
        one.send_batch(topic, table, partition=0).result(TIMEOUT_S)
        time.sleep(0.3)  # so that the thread that watches the time has nothing to do
        broker.fail("Produce", Code.NOT_ENOUGH_REPLICAS, times=-1)
        with pytest.raises(DeliveryExpired, match="they are not stored"):
            one.send_batch(topic, table, partition=0).result(TIMEOUT_S)


def test_a_broker_that_never_answers_costs_its_connection(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, request_timeout_ms=200) as one:
        assert one.send(topic, b"0", partition=0).result(TIMEOUT_S).offset == 0
        rule = broker.delay("Produce", 600, times=1)
        assert one.send(topic, b"1", partition=0).result(TIMEOUT_S).offset == 1
        assert rule.struck == 1
    assert values(broker.bootstrap, topic)[0] == [b"0", b"1"]


@both_faces
def test_retries_have_an_end(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, retries=2) as one:
        rule = broker.fail("Produce", Code.NOT_ENOUGH_REPLICAS, times=3)
        with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
            one.send(topic, b"v", partition=0).result(TIMEOUT_S)
        assert rule.struck == 3
        assert one.send(topic, b"v", partition=0).result(TIMEOUT_S).offset == 0


def test_a_close_with_a_time_limit_gives_up(broker: EmbeddedBroker, topic: str) -> None:
    one = producer(broker)
    one.send(topic, b"v").result(TIMEOUT_S)
    broker.delay("Produce", 600, times=-1)
    sent = [one.send(topic, b"v") for _ in range(5)]
    with pytest.raises(ProducerClosed, match="before the records were acknowledged"):
        one.close(0.1)
    assert all(isinstance(delivery.exception(0), ProducerClosed) for delivery in sent)


def test_a_close_by_another_thread_ends_a_send_that_waits(broker: EmbeddedBroker, topic: str) -> None:
    one = producer(broker, buffer_memory=20_000)
    one.send(topic, b"v").result(TIMEOUT_S)
    broker.delay("Produce", 600, times=-1)
    caught: list[BaseException] = []
    waits = threading.Event()

    def fill() -> None:
        try:
            for _ in range(1_000):
                if one._engine.state.memory.used > 15_000:
                    waits.set()
                one.send(topic, bytes(1_000))
        except OttlaError as error:
            caught.append(error)

    thread = threading.Thread(target=fill)
    thread.start()
    assert waits.wait(TIMEOUT_S)
    with pytest.raises(ProducerClosed):
        one.close(0)
    thread.join(TIMEOUT_S)
    assert [type(error) for error in caught] == [ProducerClosed]


# ---- several brokers


def test_leaders_that_move_under_load_are_followed(cluster: EmbeddedBroker) -> None:
    with producer(cluster) as one:
        for n in range(COUNT):
            one.send("orders", b"%d" % n, b"%d" % (n % 17))
            if n % 100 == 0:
                cluster.move_leader("orders", n // 100 % 3, (n // 100 + 1) % 3)
        one.flush(TIMEOUT_S)
    check_once_and_in_order(cluster, "orders")


def test_brokers_that_go_and_come_are_survived(cluster: EmbeddedBroker) -> None:
    with producer(cluster) as one:
        for n in range(COUNT):
            one.send("orders", b"%d" % n, b"%d" % (n % 17))
            if n % 1_000 == 300:
                cluster.stop_broker(n // 1_000)
            if n % 1_000 == 900:
                cluster.start_broker(n // 1_000)
        one.flush(TIMEOUT_S)
    check_once_and_in_order(cluster, "orders")


def test_a_cluster_that_restarts_under_load_is_survived(topic: str, broker: EmbeddedBroker) -> None:
    done = threading.Event()

    def load(one: Producer) -> None:
        send_numbers(one, topic)
        done.set()

    with producer(broker, buffer_memory=200_000) as one:
        thread = threading.Thread(target=load, args=(one,))
        thread.start()
        for _ in range(3):
            one.flush(TIMEOUT_S)
            broker.stop()
            broker.start()
        assert done.wait(TIMEOUT_S)
        thread.join()
        one.flush(TIMEOUT_S)
    check_once_and_in_order(broker, topic)


def test_records_that_expire_say_why_their_broker_was_not_reached() -> None:
    settings: dict[str, Any] = {"delivery_timeout_ms": 1_000, "request_timeout_ms": 500}
    with (
        EmbeddedBroker(properties={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as broker,
        Producer(bootstrap_servers=f"127.0.0.1:{broker.port}", **settings) as sender,
    ):
        broker.create_topic("t")
        error = sender.send("t", b"v", partition=0).exception(TIMEOUT_S)
    assert isinstance(error, DeliveryExpired)
    assert "broker 0 advertises 127.0.0.1:1, which cannot be reached" in str(error)


def test_a_topic_is_not_waited_for_longer_than_a_delivery_may_take(broker: EmbeddedBroker) -> None:
    settings: dict[str, Any] = {
        "delivery_timeout_ms": 300,
        "request_timeout_ms": 200,
        "allow_auto_create_topics": False,
    }
    with Producer(bootstrap_servers=broker.bootstrap, **settings) as sender:
        error = sender.send("never-made", b"v").exception(TIMEOUT_S / 2)
    assert isinstance(error, DeliveryExpired)
    assert "'never-made': nothing is known of it after 300 ms" in str(error)


def test_a_table_may_be_larger_than_the_memory_and_that_less_than_a_batch(broker: EmbeddedBroker) -> None:
    table = pa.table({"value": [b"%06d" % number * 20 for number in range(5_000)]})
    broker.create_topic("small-memory")
    settings: dict[str, Any] = {"buffer_memory": 100_000, "batch_size": 1_000_000}
    with Producer(bootstrap_servers=broker.bootstrap, **settings) as sender:
        assert sender.send_batch("small-memory", table).result(TIMEOUT_S).num_rows == 5_000
    assert values(broker.bootstrap, "small-memory") == {0: table["value"].to_pylist()}
