"""Transactions of our broker as an administrator sees them, and one that hangs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla import (
    Admin,
    ConfigError,
    EmbeddedBroker,
    KafkaError,
    Producer,
    ProducerFenced,
    TopicAndPartition,
    aio,
    replay,
)
from ottla.producer import transaction_link
from ottla.producer.transaction_state import PartitionGate
from tests.both_faces import FACES, opened
from tests.broker.scraping import fetched, free_port, samples
from tests.waiting import wait_for

PLACE = TopicAndPartition("orders", 0)
METRICS = free_port()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """It takes records of transactions that its coordinator does not know, as Kafka before 3.6 does."""
    properties = {"transaction.partition.verification.enable": "false", "ottla.metrics.port": str(METRICS)}
    with EmbeddedBroker(properties=properties) as broker:
        broker.create_topic("orders")
        yield broker


@pytest.fixture(params=FACES)
def admin(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[Admin]:
    with opened(request.param, Admin, aio.Admin, bootstrap_servers=broker.bootstrap) as admin:
        yield admin


def committed(broker: EmbeddedBroker) -> list[bytes]:
    settings = {"bootstrap.servers": broker.bootstrap, "isolation.level": "read_committed"}
    values: list[bytes] = replay("orders", properties=settings).to_table()["value"].to_pylist()
    return values


def hanging_count() -> float:
    """What the broker's metrics tell."""
    return samples(fetched(METRICS)[1])["ottla_transactions_hanging", ()]


def test_an_open_transaction_is_listed_and_described(broker: EmbeddedBroker, admin: Admin) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, transactional_id="open-1") as producer:
        producer.begin()
        first = producer.send("orders", "open").result(60).offset
        (listed,) = admin.list_transactions(states=["Ongoing"], pattern="open-.*")
        described = admin.describe_transactions("open-1")
        assert (listed.transactional_id, listed.state) == ("open-1", "Ongoing")
        assert (described.producer_id, described.partitions) == (listed.producer_id, (PLACE,))
        (known,) = [one for one in admin.describe_producers(PLACE) if one.start_offset is not None]
        assert (known.producer_id, known.start_offset) == (listed.producer_id, first)
        assert admin.list_transactions(longer_than=3600) == ()
        assert admin.find_hanging_transactions("orders", longer_than=0) == ()
        producer.commit()
    wait_for(lambda: admin.describe_transactions(["open-1"])["open-1"].state == "CompleteCommit")
    assert admin.list_transactions(states=["Ongoing"]) == ()
    with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_NOT_FOUND"):
        admin.describe_transactions("nobody")
    with pytest.raises(ConfigError, match="Nonsense"):
        admin.list_transactions(states=["Nonsense"])


def test_a_transaction_that_hangs_is_found_and_aborted(
    broker: EmbeddedBroker, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A producer that does not tell the coordinator where it writes.
    monkeypatch.setattr(transaction_link, "IMPLICIT_SINCE", 1_000)
    monkeypatch.setattr(PartitionGate, "admits", lambda gate, _: gate.is_open)
    monkeypatch.setattr(PartitionGate, "wants", lambda *_: False)
    before = committed(broker)
    with Producer(bootstrap_servers=broker.bootstrap, transactional_id="hanging-1") as producer:
        producer.begin()
        first = producer.send("orders", "hangs").result(60).offset
        with Producer(bootstrap_servers=broker.bootstrap) as other:
            other.send("orders", "behind").result(60)
        assert committed(broker) == before
        (found,) = admin.find_hanging_transactions("orders", longer_than=-60)
        assert (found.topic_partition, found.producer.start_offset) == (PLACE, first)
        assert hanging_count() == 1
        admin.abort_transaction(PLACE, first)
        assert admin.find_hanging_transactions("orders", longer_than=-60) == ()
        assert hanging_count() == 0
    wait_for(lambda: committed(broker) == [*before, b"behind"])


def test_a_producer_is_fenced_by_an_administrator(broker: EmbeddedBroker, admin: Admin) -> None:
    before = committed(broker)
    with Producer(bootstrap_servers=broker.bootstrap, transactional_id="stuck-1") as producer:
        producer.begin()
        producer.send("orders", "stuck").result(60)
        admin.terminate_transaction("stuck-1")
        with pytest.raises(ProducerFenced):
            producer.commit()
    assert committed(broker) == before
    assert admin.describe_transactions("stuck-1").state == "Empty"
