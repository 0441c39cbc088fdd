"""Transactions of a Producer, on our broker and on Apache Kafka: what readers of committed records see.

Kafka 3.9 speaks the older protocol, Kafka 4 transaction.version 2, and our broker both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

from ottla import (
    Admin,
    ConfigError,
    EmbeddedBroker,
    GroupConsumer,
    GroupMetadata,
    KafkaError,
    OttlaError,
    Producer,
    ProducerFenced,
    TopicAndPartition,
    TransactionAborted,
    aio,
    replay,
)
from ottla.admin import NewTopic
from ottla.client.client_config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.producer import PreparedTransaction, TransactionEnder, transaction_link
from ottla.producer.intake import Intake
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from tests.both_faces import on_a_loop
from tests.naming import name_after_test
from tests.waiting import wait_for
from tools.peers import KAFKA_3, KAFKA_4, RealKafka

OURS, OURS_OLDER = "ours", "ours-older-protocol"
OURS_ASYNCIO, OURS_OLDER_ASYNCIO = "ours-asyncio", "ours-older-protocol-asyncio"
COMMITTED, ALL = "read_committed", "read_uncommitted"
LARGE = 5_000


@pytest.fixture(scope="module", params=[OURS, OURS_OLDER, OURS_ASYNCIO, OURS_OLDER_ASYNCIO, KAFKA_4, KAFKA_3])
def bootstrap(
    request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka], broker: EmbeddedBroker
) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        if request.param in {OURS_OLDER, OURS_OLDER_ASYNCIO}:
            patch.setattr(transaction_link, "IMPLICIT_SINCE", 1_000)
        if request.param in {OURS_ASYNCIO, OURS_OLDER_ASYNCIO}:
            stack.enter_context(on_a_loop(sys.modules[__name__], "Producer", aio.Producer))
        is_ours = request.param not in {KAFKA_3, KAFKA_4}
        yield broker.bootstrap if is_ours else real_kafka(request.param).bootstrap


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions that takes no large records."""
    name = name_after_test(request)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=2, configs={"max.message.bytes": "1000"}))
    return name


def transactional(bootstrap: str, topic: str, **settings: Any) -> Producer:
    return Producer(bootstrap_servers=bootstrap, transactional_id=f"id-{topic}", **settings)


def in_transaction(producer: Producer, *steps: Callable[[], object]) -> None:
    with producer.transaction():
        for step in steps:
            step()


class Trouble(Exception):
    """What a user's block raises."""


def trouble() -> None:
    raise Trouble


def expect(bootstrap: str, topic: str, values: list[bytes]) -> None:
    """Readers of committed records see these. They may wait: a commit is answered before its markers are
    written."""
    wait_for(lambda: seen(bootstrap, topic) == values, lambda: seen(bootstrap, topic))


def seen(bootstrap: str, topic: str, isolation_level: str = COMMITTED) -> list[bytes]:
    """The values that a reader sees, sorted."""
    table = replay(topic, bootstrap_servers=bootstrap, isolation_level=isolation_level).to_table()
    return sorted(table["value"].to_pylist())


def test_rows_and_columns_are_committed_together(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        for number in range(3):
            with producer.transaction():
                producer.send(topic, f"{number} row", partition=0)
                producer.send_batch(topic, pa.table({"value": [f"{number} a", f"{number} b"]}), partition=1)
    names = ("a", "b", "row")
    expect(bootstrap, topic, [f"{number} {name}".encode() for number in range(3) for name in names])


def test_an_aborted_transaction_is_not_seen(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        producer.begin()
        producer.send(topic, "aborted").result(60)
        late = producer.send(topic, "not sent")
        producer.abort()
        assert isinstance(late.exception(60), TransactionAborted | None)
        with producer.transaction():
            producer.send(topic, "committed")
        producer.begin()
        producer.send(topic, "open").result(60)
        assert b"open" not in seen(bootstrap, topic)
    expect(bootstrap, topic, [b"committed"])
    assert {b"aborted", b"committed", b"open"} <= set(seen(bootstrap, topic, ALL))


def test_a_block_that_raises_is_aborted(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        with pytest.raises(Trouble):
            in_transaction(producer, lambda: producer.send(topic, "aborted").result(60), trouble)
        with producer.transaction():
            producer.send(topic, "committed")
    expect(bootstrap, topic, [b"committed"])


def test_a_record_that_fails_aborts_the_transaction(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        with producer.transaction():
            producer.send(topic, "before", partition=0)
        with pytest.raises(TransactionAborted, match=r"can only be aborted.*MESSAGE_TOO_LARGE") as failure:
            in_transaction(
                producer,
                lambda: producer.send(topic, "beside", partition=0).result(60),
                lambda: producer.send(topic, bytes(LARGE), partition=0),
            )
        assert isinstance(failure.value.__cause__, KafkaError)
        with producer.transaction():
            producer.send(topic, "after", partition=0)
    expect(bootstrap, topic, [b"after", b"before"])


def test_a_failed_transaction_takes_nothing_until_it_is_aborted(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        producer.begin()
        with pytest.raises(KafkaError):
            producer.send(topic, bytes(LARGE)).result(60)
        for call in (producer.commit, lambda: producer.send(topic, "more")):
            with pytest.raises(TransactionAborted):
                call()
        producer.abort()
        producer.begin()
        producer.send(topic, "again")
        producer.commit()
    expect(bootstrap, topic, [b"again"])


def test_a_newer_producer_of_the_same_id_replaces_the_older(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as old, transactional(bootstrap, topic) as new:
        old.begin()
        old.send(topic, "old").result(60)
        new.init_transactions()
        with pytest.raises(ProducerFenced, match=f"id-{topic}"):
            old.commit()
        for call in (old.begin, old.commit, old.abort, old.init_transactions, lambda: old.send(topic, "x")):
            with pytest.raises(ProducerFenced):
                call()
        with new.transaction():
            new.send(topic, "new")
    expect(bootstrap, topic, [b"new"])


def test_a_producer_that_was_replaced_cannot_write(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as old, transactional(bootstrap, topic) as new:
        with old.transaction():
            old.send(topic, "first")
        with new.transaction():
            new.send(topic, "second")
        with pytest.raises((ProducerFenced, TransactionAborted)), old.transaction():
            old.send(topic, "third")
        with pytest.raises(ProducerFenced):
            old.begin()
    expect(bootstrap, topic, [b"first", b"second"])


def test_close_aborts_what_is_open(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic)
    producer.begin()
    producer.send(topic, "open").result(60)
    producer.close()
    with transactional(bootstrap, topic) as other, other.transaction():
        other.send(topic, "other")
    expect(bootstrap, topic, [b"other"])


def test_records_are_sent_in_transactions_only(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as producer:
        for call in (lambda: producer.send(topic, "x"), producer.commit, producer.abort):
            with pytest.raises(ConfigError, match="no transaction is open"):
                call()
        producer.begin()
        with pytest.raises(ConfigError, match="a transaction is open"):
            producer.begin()
        producer.commit()  # of nothing
        with producer.transaction():
            producer.send(topic, "kept")
            producer.commit()
        with pytest.raises(ConfigError, match="no transaction is open"):
            producer.send(topic, "x")
    expect(bootstrap, topic, [b"kept"])


def test_many_transactions_with_many_partitions(bootstrap: str, topic: str) -> None:
    rows = pa.table({"key": [f"{n}" for n in range(500)], "value": [f"{n}" for n in range(500)]})
    with transactional(bootstrap, topic, batch_size=900) as producer:
        for number in range(6):
            producer.begin()
            producer.send_batch(topic, rows)
            if number % 3:
                producer.commit()
            else:
                producer.abort()
    expect(bootstrap, topic, sorted(f"{n}".encode() for n in range(500) for _ in range(4)))


# ---- positions of groups


def consumer_of(bootstrap: str, topic: str, **settings: Any) -> GroupConsumer:
    return GroupConsumer(
        topic,
        group_id=f"group-{topic}",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level=COMMITTED,
        **settings,
    )


def test_positions_count_with_the_transaction(bootstrap: str, topic: str) -> None:
    place = TopicAndPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap) as plain:
        plain.send_batch(topic, pa.table({"value": ["a", "b", "c"]}), partition=0)
    with consumer_of(bootstrap, topic) as consumer, transactional(bootstrap, topic) as producer:
        chunk = consumer.poll(60)
        assert chunk is not None
        with pytest.raises(Trouble):
            in_transaction(
                producer,
                lambda: producer.send_batch(topic, chunk.batch.select(["value"]), partition=1),
                lambda: producer.send_offsets(chunk, consumer),
                trouble,
            )
        assert consumer.committed() == {}
        with producer.transaction():
            producer.send_batch(topic, chunk.batch.select(["value"]), partition=1)
            producer.send_offsets(chunk, consumer)
        assert consumer.committed()[place].offset == chunk.next_offset == 3
    expect(bootstrap, topic, [b"a", b"a", b"b", b"b", b"c", b"c"])


def test_positions_of_a_member_that_was_put_out_abort_the_transaction(bootstrap: str, topic: str) -> None:
    """Others may have read the same records by then."""
    with Producer(bootstrap_servers=bootstrap) as plain:
        plain.send(topic, "a", partition=0)
    with (
        consumer_of(bootstrap, topic, heartbeat_interval_ms=50) as consumer,
        transactional(bootstrap, topic) as producer,
    ):
        chunk = consumer.poll(60)
        assert chunk is not None
        put_out(bootstrap, f"group-{topic}", consumer.membership.member_id)
        wait_for(lambda: consumer.membership.generation < 0, "the member knows that it is out")
        with pytest.raises(TransactionAborted, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
            in_transaction(
                producer,
                lambda: producer.send(topic, "twice", partition=1),
                lambda: producer.send_offsets(chunk, consumer),
            )
        assert consumer.committed() == {}
    expect(bootstrap, topic, [b"a"])


def put_out(bootstrap: str, group: str, member_id: str) -> None:
    config = ClientConfig.from_properties({"bootstrap_servers": bootstrap})
    with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata) as pool:
        answer = pool.to_coordinator(group).call(
            LeaveGroupRequest(group_id=group, members=[LeavingMember(member_id=member_id)])
        )
    assert not answer.error_code


def test_positions_of_a_member_that_is_none_abort_the_transaction(bootstrap: str, topic: str) -> None:
    group = GroupMetadata(f"group-{topic}", "nobody", 7)
    place = TopicAndPartition(topic, 0)
    with transactional(bootstrap, topic) as producer:
        with pytest.raises(TransactionAborted, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
            in_transaction(
                producer,
                lambda: producer.send(topic, "aborted"),
                lambda: producer.send_offsets({place: 1}, group),
            )
        with producer.transaction():
            producer.send(topic, "committed")
            producer.send_offsets({place: 2}, GroupMetadata(f"group-{topic}"))
    with Admin(bootstrap_servers=bootstrap) as admin:
        wait_for(
            lambda: place in admin.group_offsets(f"group-{topic}"), "Kafka shows the commit a moment later"
        )
        assert admin.group_offsets(f"group-{topic}")[place].offset == 2
    expect(bootstrap, topic, [b"committed"])


def test_abort_gives_up_rows_that_are_being_queued(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The timer thread may move rows into the queues after those were emptied, and before the inbox is."""
    topic = name_after_test(request)
    broker.create_topic(topic, 1)
    fail_rows = Intake.fail_rows

    def queued_meanwhile(intake: Intake, error: OttlaError) -> None:
        for inbox in intake.inboxes:
            inbox.seal()
        fail_rows(intake, error)

    with transactional(broker.bootstrap, topic, linger_ms=60_000, max_block_ms=5_000) as producer:
        in_transaction(producer, lambda: producer.send(topic, b"first"))
        with monkeypatch.context() as patch:
            producer.begin()
            producer.send(topic, b"given up")
            patch.setattr(Intake, "fail_rows", queued_meanwhile)
            producer.abort()
        in_transaction(producer, lambda: producer.send(topic, b"second"))
    table = replay(topic, bootstrap_servers=broker.bootstrap, isolation_level=COMMITTED).to_table()
    assert table["value"].to_pylist() == [b"first", b"second"]


def test_positions_are_not_committed_in_two_ways(broker: EmbeddedBroker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "enable.auto.commit": True}
    with (
        GroupConsumer("read", settings, group_id="twice") as consumer,
        pytest.raises(ConfigError, match=r"set enable\.auto\.commit=false"),
    ):
        _ = consumer.group_metadata


def handed_over(bootstrap: str, topic: str) -> PreparedTransaction:
    """A transaction of a producer that is gone."""
    with transactional(bootstrap, topic) as producer:
        producer.begin()
        producer.send(topic, "prepared")
        prepared = producer.hand_over()
        with pytest.raises(ConfigError, match="begin one"):
            producer.send(topic, "late")
    assert prepared is not None
    return prepared


def test_a_transaction_is_handed_over_and_committed_by_another_process(bootstrap: str, topic: str) -> None:
    prepared = handed_over(bootstrap, topic)
    assert seen(bootstrap, topic) == []
    for _ in range(2):  # the second is recognised
        with TransactionEnder(bootstrap_servers=bootstrap) as ender:
            ender.end(prepared, is_commit=True)
    expect(bootstrap, topic, [b"prepared"])
    with TransactionEnder(bootstrap_servers=bootstrap) as ender, pytest.raises(OttlaError) as refused:
        ender.end(prepared, is_commit=False)
    assert isinstance(refused.value, ProducerFenced | TransactionAborted)


def test_a_transaction_is_handed_over_and_aborted(bootstrap: str, topic: str) -> None:
    prepared = handed_over(bootstrap, topic)
    with TransactionEnder(bootstrap_servers=bootstrap) as ender:
        ender.end(prepared, is_commit=False)
    with transactional(bootstrap, topic) as producer:
        producer.begin()
        assert producer.hand_over() is None  # nothing was sent
        with producer.transaction():
            producer.send(topic, "next")
    expect(bootstrap, topic, [b"next"])


def test_an_id_is_resumed_unless_somebody_has_taken_it_over(bootstrap: str, topic: str) -> None:
    with transactional(bootstrap, topic) as first:
        identity = first.init_transactions()
    with transactional(bootstrap, topic) as second:
        assert second.init_transactions(identity) > identity
    with TransactionEnder(bootstrap_servers=bootstrap) as ender:
        ender.take_over(f"id-{topic}")
    with transactional(bootstrap, topic) as third, pytest.raises(ProducerFenced):
        third.init_transactions(identity)
