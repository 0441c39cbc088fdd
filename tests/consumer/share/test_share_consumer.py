"""ShareConsumer on our broker and on Apache Kafka: answers, deliveries, locks, and groups with others."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ShareConsumer as ForeignShareConsumer

from ottla import (
    Admin,
    Code,
    ConfigError,
    ConsumerClosed,
    EmbeddedBroker,
    Health,
    KafkaError,
    ShareConsumer,
    aio,
)
from ottla.admin import NewTopic
from tests.both_faces import on_a_loop
from tests.broker.real_clients import send
from tests.broker.share_groups.share_member import configure_group
from tests.waiting import PATIENCE_S, wait_for
from tools.peers import KAFKA_4, RealKafka


@pytest.fixture(scope="module")
def ours() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(params=["ottla", "ottla-asyncio", KAFKA_4])
def bootstrap(
    request: pytest.FixtureRequest, ours: EmbeddedBroker, real_kafka: Callable[[str], RealKafka]
) -> Iterator[str]:
    """Where the brokers are that a test runs on."""
    with ExitStack() as stack:
        if request.param == "ottla-asyncio":
            stack.enter_context(on_a_loop(sys.modules[__name__], "ShareConsumer", aio.ShareConsumer))
        yield real_kafka(request.param).bootstrap if request.param == KAFKA_4 else ours.bootstrap


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic with ten records, and a share group of the same name that begins at the first."""
    name = f"share-{request.node.name}".translate(str.maketrans("[]", "--"))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, 1, 1))
    configure_group(bootstrap, name)
    send(bootstrap, name, [b"%d" % number for number in range(10)])
    return name


def consumer_of(bootstrap: str, topic: str, mode: str = "explicit", **settings: Any) -> ShareConsumer:
    return ShareConsumer(
        topic, group_id=topic, bootstrap_servers=bootstrap, share_acknowledgement_mode=mode, **settings
    )


def test_each_record_gets_its_answer(bootstrap: str, topic: str) -> None:
    deliveries: Counter[int] = Counter()
    with consumer_of(bootstrap, topic, value_deserializer=bytes.decode) as consumer:
        for message in consumer.messages(PATIENCE_S):
            deliveries[message.offset] += 1
            assert consumer.delivery_count(message) == deliveries[message.offset]
            assert message.value == str(message.offset)
            if message.offset == 3 and deliveries[3] == 1:
                consumer.release(message)
            elif message.offset == 4:
                consumer.reject(message)
            elif message.offset == 5:
                consumer.renew(message)
                consumer.commit()
                consumer.accept(message)
            else:
                consumer.accept(message)
            if len(deliveries) == 10 and deliveries[3] == 2:
                break
        consumer.commit()
        assert consumer.health is Health.STABLE
        assert {str(partition) for partition in consumer.assignment} == {f"{topic}-0"}
    assert deliveries == Counter({offset: 2 if offset == 3 else 1 for offset in range(10)})
    with consumer_of(bootstrap, topic) as consumer:
        assert consumer.poll(2) is None, "all are done"
    with pytest.raises(ConsumerClosed):
        consumer.poll(0)


def test_columns_are_answered_for_as_a_whole(bootstrap: str, topic: str) -> None:
    with consumer_of(bootstrap, topic) as consumer:
        first = next(consumer.chunks(PATIENCE_S))
        assert first.batch.column("offset").to_pylist() == list(range(10))
        assert first.batch.column("delivery_count").to_pylist() == [1] * 10
        consumer.release(first)
        again = next(consumer.chunks(PATIENCE_S))
        assert again.batch.column("delivery_count").to_pylist() == [2] * 10
        consumer.accept(again)
        consumer.commit()
        assert consumer.poll(1) is None


def test_without_answers_what_was_handed_out_is_accepted(bootstrap: str, topic: str) -> None:
    with consumer_of(bootstrap, topic, "implicit") as consumer:
        seen = []
        for message in consumer:
            seen.append(message.offset)
            if len(seen) == 4:
                break
    with consumer_of(bootstrap, topic, "implicit") as consumer:
        while len(seen) < 10:
            chunk = consumer.poll(PATIENCE_S)
            assert chunk is not None
            seen += chunk.batch.column("offset").to_pylist()
    assert seen == list(range(10)), "the six that nobody had seen came to the next one"
    with consumer_of(bootstrap, topic, "implicit") as consumer:
        assert consumer.poll(2) is None


def test_a_member_without_partitions_waits_and_does_not_spin(bootstrap: str, topic: str) -> None:
    with consumer_of(bootstrap, f"{topic}-that-does-not-exist") as consumer:
        assert consumer.poll(0.5) is None
        began_s = time.process_time()
        assert consumer.poll(1) is None
        assert time.process_time() - began_s < 0.6, "a second without partitions took CPU time all along"


def test_a_limit_is_kept_where_it_is_strict(bootstrap: str, topic: str) -> None:
    strict: dict[str, Any] = {"max_poll_records": 3, "share_acquire_mode": "record_limit"}
    with consumer_of(bootstrap, topic, **strict) as consumer:
        chunk = consumer.poll(PATIENCE_S)
        assert chunk is not None
        assert chunk.batch.num_rows == 3


def test_misuse_is_told(bootstrap: str, topic: str) -> None:
    with consumer_of(bootstrap, topic) as consumer:
        message = next(consumer.messages(PATIENCE_S))
        rest = consumer.poll(0)
        assert rest is not None
        with pytest.raises(ConfigError, match="10 records of the last poll have no answer"):
            consumer.poll(0)
        consumer.accept(message)
        consumer.accept(rest)
        consumer.commit()
        with pytest.raises(ConfigError, match="is not held"):
            consumer.accept(message)
        with pytest.raises(ConfigError, match="neither a message nor a chunk"):
            consumer.accept(message.offset)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"group\.id is missing"):
        ShareConsumer("orders", bootstrap_servers=bootstrap)
    with pytest.raises(ConfigError, match="by their names"):
        ShareConsumer([], group_id="a", bootstrap_servers=bootstrap)


def test_an_answer_after_the_lock_is_refused() -> None:
    with EmbeddedBroker(properties={"group.share.record.lock.duration.ms": "1000"}) as broker:
        broker.create_topic("orders", 1)
        configure_group(broker.bootstrap, "orders")
        send(broker.bootstrap, "orders", [b"only"])
        slow, quick = (consumer_of(broker.bootstrap, "orders") for _ in range(2))
        with slow, quick:
            held, taken = slow.poll(PATIENCE_S), quick.poll(PATIENCE_S)
            assert held is not None
            assert taken is not None, "when the lock of the first had run out"
            slow.accept(held)
            with pytest.raises(KafkaError, match=r"orders-0: this member lost the locks") as caught:
                slow.commit()
            assert caught.value.code == Code.INVALID_RECORD_STATE


@pytest.mark.parametrize("bootstrap", ["ottla"], indirect=True)
def test_members_of_ours_and_of_librdkafka_share_a_partition(bootstrap: str, topic: str) -> None:
    configure_group(bootstrap, topic, share_record_lock_duration_ms="60000")
    seen: Counter[bytes | None] = Counter()
    by_kind: Counter[str] = Counter()
    foreign = ForeignShareConsumer({"bootstrap.servers": bootstrap, "group.id": topic})
    with ExitStack() as stack:
        stack.callback(foreign.close)
        foreign.subscribe([topic])
        ours = stack.enter_context(consumer_of(bootstrap, topic, "implicit", max_poll_records=20))
        for round_number in range(10):
            send(bootstrap, topic, [b"%d-%d" % (round_number, number) for number in range(100)])

        def all_read() -> bool:
            chunk = ours.poll(0.2)
            values = chunk.batch.column("value").to_pylist() if chunk is not None else []
            others = [message.value() for message in foreign.poll(0.2) if message.error() is None]
            by_kind.update({"ours": len(values), "theirs": len(others)})
            seen.update(values)
            seen.update(others)
            return len(seen) == 1010

        wait_for(all_read)
    assert set(seen.values()) == {1}, "each record came once"
    assert min(by_kind.values()) > 0, by_kind


def test_a_restart_of_the_broker_loses_nothing(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    broker.start()
    try:
        broker.create_topic("orders", 1)
        configure_group(broker.bootstrap, "orders")
        send(broker.bootstrap, "orders", [b"%d" % number for number in range(10)])
        with consumer_of(broker.bootstrap, "orders") as consumer:
            first = consumer.poll(PATIENCE_S)
            assert first is not None
            consumer.accept(first)
            consumer.commit()
            broker.stop()
            broker.start()
            send(broker.bootstrap, "orders", [b"later"])
            chunk = consumer.poll(PATIENCE_S)
            assert chunk is not None
            assert chunk.batch.column("value").to_pylist() == [b"later"]
            consumer.accept(chunk)
            consumer.commit()
    finally:
        broker.stop()


@pytest.mark.parametrize("bootstrap", ["ottla", "ottla-asyncio"], indirect=True)
def test_a_member_leaves_though_its_join_was_never_answered(
    bootstrap: str, topic: str, ours: EmbeddedBroker
) -> None:
    ours.drop("ShareGroupHeartbeat", handled=True)
    never_again = {"retry.backoff.ms": 600_000, "retry.backoff.max.ms": 600_000}
    with Admin(bootstrap_servers=bootstrap) as admin:
        consumer = ShareConsumer(topic, never_again, group_id=topic, bootstrap_servers=bootstrap)
        consumer.poll(0)
        wait_for(lambda: topic in {group.group_id for group in admin.list_groups()}, "it has joined")
        consumer.close()
        assert not admin.describe_groups(topic).members
