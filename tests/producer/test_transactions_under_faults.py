"""Transactions while answers are lost, coordinators move and brokers restart: all or nothing, and once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from ottla import (
    Admin,
    Code,
    EmbeddedBroker,
    GroupMetadata,
    KafkaError,
    OttlaError,
    Producer,
    ProducerClosed,
    ProducerFenced,
    TopicAndPartition,
    TransactionAborted,
    replay,
)
from ottla.producer import transaction_link
from tests.scale import seeded, sized
from tests.waiting import wait_for

QUICK = {"request_timeout_ms": 5_000, "retry_backoff_ms": 10, "reconnect_backoff_ms": 10}
RETRIED = [
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.CONCURRENT_TRANSACTIONS,
]

REFUSED = [Code.INVALID_TXN_STATE, Code.TRANSACTION_ABORTABLE, Code.UNKNOWN_PRODUCER_ID]


@pytest.fixture(autouse=True)
def _healed(broker: EmbeddedBroker) -> Iterator[None]:
    yield
    broker.heal()


@pytest.fixture(params=["newer", "older"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which protocol the producer speaks."""
    if request.param == "older":
        monkeypatch.setattr(transaction_link, "IMPLICIT_SINCE", 1_000)
    name: str = request.param
    return name


def transactional(broker: EmbeddedBroker, topic: str, **settings: Any) -> Producer:
    quick: dict[str, Any] = {**QUICK, **settings}
    return Producer(bootstrap_servers=broker.bootstrap, transactional_id=f"id-{topic}", **quick)


def expect(broker: EmbeddedBroker, topic: str, values: list[str]) -> None:
    """Readers see these, when the markers are written."""
    wait_for(lambda: seen(broker, topic) == values, lambda: seen(broker, topic))


def seen(broker: EmbeddedBroker, topic: str) -> list[str]:
    """What readers of committed records see."""
    table = replay(topic, bootstrap_servers=broker.bootstrap, isolation_level="read_committed").to_table()
    return [value.decode() for value in table["value"].to_pylist()]


def commit_one(producer: Producer, topic: str, value: str) -> None:
    with producer.transaction():
        producer.send(topic, value, partition=0)


# ---- answers


@pytest.mark.usefixtures("protocol")
@pytest.mark.parametrize("code", RETRIED, ids=lambda code: code.name)
@pytest.mark.parametrize("call", ["InitProducerId", "EndTxn", "FindCoordinator", "TxnOffsetCommit"])
def test_what_passes_is_tried_again(broker: EmbeddedBroker, topic: str, call: str, code: Code) -> None:
    place = TopicAndPartition(topic, 0)
    broker.fail(call, code, times=2)
    with transactional(broker, topic) as producer, producer.transaction():
        producer.send(topic, "once", partition=0)
        producer.send_offsets({place: 5}, GroupMetadata(f"group-{topic}"))
    expect(broker, topic, ["once"])
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert admin.group_offsets(f"group-{topic}")[place].offset == 5


@pytest.mark.usefixtures("protocol")
@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize("call", ["InitProducerId", "Produce", "EndTxn"])
def test_a_lost_answer_changes_nothing(broker: EmbeddedBroker, topic: str, call: str, handled: bool) -> None:
    with transactional(broker, topic) as producer:
        broker.drop(call, handled=handled)
        commit_one(producer, topic, "first")
        broker.drop(call, handled=handled)
        commit_one(producer, topic, "second")
    expect(broker, topic, ["first", "second"])


@pytest.mark.parametrize("code", [Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH], ids=lambda c: c.name)
def test_a_producer_that_is_refused_is_dead(broker: EmbeddedBroker, topic: str, code: Code) -> None:
    with transactional(broker, topic) as producer:
        broker.fail("EndTxn", code)
        with pytest.raises(ProducerFenced, match=code.name):
            commit_one(producer, topic, "never")
        with pytest.raises(ProducerFenced):
            producer.begin()
    with transactional(broker, topic) as next_one:
        commit_one(next_one, topic, "next")
    expect(broker, topic, ["next"])


@pytest.mark.usefixtures("protocol")
@pytest.mark.parametrize(
    "code",
    [Code.INVALID_TXN_STATE, Code.TRANSACTION_ABORTABLE, Code.UNKNOWN_PRODUCER_ID],
    ids=lambda c: c.name,
)
@pytest.mark.parametrize("call", ["Produce", "EndTxn"])
def test_a_transaction_that_is_refused_is_aborted_and_the_next_is_not(
    broker: EmbeddedBroker, topic: str, call: str, code: Code
) -> None:
    with transactional(broker, topic) as producer:
        commit_one(producer, topic, "before")
        broker.fail(call, code)
        with pytest.raises(TransactionAborted, match=code.name):
            commit_one(producer, topic, "refused")
        commit_one(producer, topic, "after")
    expect(broker, topic, ["before", "after"])


@pytest.mark.usefixtures("protocol")
def test_a_block_whose_producer_was_replaced_is_not_committed(broker: EmbeddedBroker, topic: str) -> None:
    """Also if nothing in the block was told so."""
    with transactional(broker, topic) as producer, transactional(broker, topic) as other:
        producer.init_transactions()

        def replaced_inside() -> None:
            with producer.transaction():
                other.init_transactions()
                assert producer.send(topic, "never", partition=0).exception(60) is not None

        with pytest.raises((ProducerFenced, TransactionAborted)):
            replaced_inside()
        commit_one(other, topic, "other")
    expect(broker, topic, ["other"])


def test_no_rights_are_told_when_the_producer_begins(broker: EmbeddedBroker, topic: str) -> None:
    with transactional(broker, topic) as producer:
        broker.fail("InitProducerId", Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            producer.begin()
        commit_one(producer, topic, "allowed")
    expect(broker, topic, ["allowed"])


# ---- the producer


def test_a_closed_producer_begins_nothing(broker: EmbeddedBroker, topic: str) -> None:
    for is_used in (False, True):
        producer = transactional(broker, topic)
        if is_used:
            commit_one(producer, topic, "before")
        producer.close()
        for call in (producer.init_transactions, producer.begin, producer.commit, producer.abort):
            with pytest.raises(ProducerClosed):
                call()


def test_deliveries_do_not_wait_for_transactions(broker: EmbeddedBroker, topic: str) -> None:
    """They run in the thread that a commit waits for."""
    told: list[Exception] = []

    def delivered(_: object) -> None:
        for call in (producer.begin, producer.commit, producer.abort, producer.init_transactions):
            try:
                call()
            except RuntimeError as error:
                told.append(error)

    with transactional(broker, topic) as producer, producer.transaction():
        producer.send(topic, "kept", on_delivery=delivered)
    assert len(told) == 4
    expect(broker, topic, ["kept"])


# ---- brokers


@pytest.mark.usefixtures("protocol")
def test_a_transaction_outlives_a_restart_of_the_broker(broker: EmbeddedBroker, topic: str) -> None:
    with transactional(broker, topic) as producer:
        producer.begin()
        producer.send(topic, "before", partition=0).result(60)
        broker.stop()
        broker.start()
        producer.send(topic, "after", partition=0)
        producer.commit()
        commit_one(producer, topic, "next")
    expect(broker, topic, ["before", "after", "next"])


@pytest.mark.usefixtures("protocol")
def test_a_commit_without_an_answer_is_repeated(broker: EmbeddedBroker, topic: str) -> None:
    with transactional(broker, topic, max_block_ms=300) as producer:
        producer.begin()
        producer.send(topic, "once", partition=0).result(60)
        broker.fail("EndTxn", Code.COORDINATOR_NOT_AVAILABLE, times=-1)
        with pytest.raises(OttlaError) as failure:
            producer.commit()
        assert not isinstance(failure.value, TransactionAborted | ProducerFenced)
        broker.clear_faults()
        repeat(producer.commit)
        wait_for(lambda: began(producer))
        producer.abort()
    expect(broker, topic, ["once"])


def repeat(call: Callable[[], None]) -> None:
    """Until it is answered: with a short max.block.ms on a busy machine."""

    def is_answered() -> bool:
        try:
            call()
        except KafkaError:
            return False
        return True

    wait_for(is_answered)


def began(producer: Producer) -> bool:
    producer.begin()
    return True


def test_a_transaction_that_takes_too_long_is_aborted(topic: str, protocol: str) -> None:
    """By the newer protocol the producer may go on, by the older one it is fenced."""
    refusal = TransactionAborted if protocol == "newer" else ProducerFenced
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
    with EmbeddedBroker(properties=settings) as quick:
        quick.create_topic(topic)
        with transactional(quick, topic, transaction_timeout_ms=100) as producer:
            producer.begin()
            producer.send(topic, "late").result(60)
            with Admin(bootstrap_servers=quick.bootstrap) as admin:
                wait_for(lambda: admin.describe_transactions(f"id-{topic}").state == "CompleteAbort")
            with pytest.raises(refusal, match=r"took longer than transaction\.timeout\.ms=100"):
                producer.commit()
            if protocol == "newer":
                producer.abort()
                with producer.transaction():
                    producer.send(topic, "in time")
        expect(quick, topic, ["in time"] if protocol == "newer" else [])


@pytest.mark.usefixtures("protocol")
def test_leaders_and_coordinators_may_move(topic: str) -> None:
    with EmbeddedBroker(brokers=3) as brokers:
        brokers.create_topic(topic, 3, replication_factor=3)
        with transactional(brokers, topic) as producer:
            expected = []
            for number in range(6):
                with producer.transaction():
                    for partition in range(3):
                        producer.send(topic, f"{number}-{partition}a", partition=partition).result(60)
                    brokers.stop_broker(number % 3)
                    for partition in range(3):
                        producer.send(topic, f"{number}-{partition}b", partition=partition)
                    expected += [f"{number}-{partition}{part}" for partition in range(3) for part in "ab"]
                brokers.start_broker(number % 3)
        wait_for(lambda: sorted(seen(brokers, topic)) == sorted(expected), lambda: seen(brokers, topic))


# ---- from one protocol to the other


def epoch(broker: EmbeddedBroker, topic: str) -> int:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        return admin.describe_transactions(f"id-{topic}").producer_epoch


@pytest.mark.parametrize("losses", [1, 2])
def test_a_coordinator_that_closes_when_it_is_asked_for_versions_changes_no_protocol(
    broker: EmbeddedBroker, topic: str, losses: int
) -> None:
    """As one that is restarted. It is asked in other ways then, whose answers do not tell the protocol."""
    with transactional(broker, topic) as producer:
        first = producer.init_transactions().epoch
        broker.drop("EndTxn", handled=True)
        questions = count()  # the first is of the connection that asks who the coordinator is
        asked = broker.drop("ApiVersions", times=losses, when=lambda _: next(questions) > 0)
        for value in ("one", "two", "three"):
            commit_one(producer, topic, value)
    assert asked.struck == losses
    assert epoch(broker, topic) == first + 3  # by the newer one each end has an epoch
    expect(broker, topic, ["one", "two", "three"])


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_first_transaction_by_the_newer_protocol_has_an_epoch_of_its_own(
    broker: EmbeddedBroker, topic: str, is_committed: bool
) -> None:
    """Or a partition takes it for a part of the one before, whose marker is not written yet."""
    with transactional(broker, topic) as producer:
        with pytest.MonkeyPatch.context() as older:
            older.setattr(transaction_link, "IMPLICIT_SINCE", 1_000)
            commit_one(producer, topic, "older")
            older_epoch = epoch(broker, topic)
            producer.begin()
            producer.send(topic, "last", partition=0).result(60)
            older.undo()  # the cluster is upgraded
            (producer.commit if is_committed else producer.abort)()
        assert epoch(broker, topic) == older_epoch
        producer.begin()
        producer.send(topic, "newer", partition=0).result(60)
        assert epoch(broker, topic) == older_epoch + 1
        producer.commit()
        commit_one(producer, topic, "next")
        assert epoch(broker, topic) == older_epoch + 3
    expect(broker, topic, ["older", *(["last"] if is_committed else []), "newer", "next"])


def test_an_upgraded_producer_that_was_replaced_is_dead(
    broker: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with transactional(broker, topic) as producer:
        monkeypatch.setattr(transaction_link, "IMPLICIT_SINCE", 1_000)
        producer.begin()
        producer.send(topic, "older", partition=0)
        monkeypatch.undo()
        producer.commit()
        with transactional(broker, topic) as other:
            other.init_transactions()
            for _ in range(2):
                with pytest.raises(ProducerFenced):
                    producer.begin()
            commit_one(other, topic, "other")
    expect(broker, topic, ["older", "other"])


# ---- at random

LOST = ["Produce", "EndTxn", "InitProducerId", "FindCoordinator", "Metadata"]


@pytest.mark.usefixtures("protocol")
@pytest.mark.parametrize("run", range(sized(3, 40)))
def test_random_faults_tear_no_transaction(broker: EmbeddedBroker, topic: str, run: int) -> None:
    chance = seeded(topic)
    committed: list[list[str]] = [[], [], []]
    with transactional(broker, topic, batch_size=200) as producer:
        for number in range(25):
            for _ in range(chance.randrange(3)):
                broker.drop(chance.choice(LOST), handled=chance.random() < 0.5)
            records = [(chance.randrange(3), f"{number}-{row}") for row in range(chance.randrange(1, 9))]
            producer.begin()
            for partition, value in records:
                producer.send(topic, value, partition=partition)
            if chance.random() < 0.4:
                producer.abort()
                continue
            producer.commit()
            for partition, value in records:
                committed[partition].append(value)

    def found() -> list[list[str]]:
        settings = {"bootstrap.servers": broker.bootstrap, "isolation.level": "read_committed"}
        tables = [replay(topic, [partition], properties=settings).to_table() for partition in range(3)]
        return [[value.decode() for value in table["value"].to_pylist()] for table in tables]

    wait_for(lambda: found() == committed, found)
