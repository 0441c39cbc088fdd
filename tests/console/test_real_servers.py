"""The console on a real ZooKeeper, on Apache Kafka 4, on a secured broker, and on transactions that hang."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ottla import Admin, BrokerSecurity, EmbeddedBroker, GroupConsumer, Producer, TopicAndPartition
from ottla.admin import Acl, Operation, PatternType, Permission, QuotaEntity, ResourceType
from ottla.console.server import ConsoleServer
from ottla.consumer.classic import ConsumerConnector
from ottla.producer import transaction_link
from ottla.producer.transaction_state import PartitionGate
from ottla.zookeeper.server import ZooKeeperServer
from tests.console.conftest import ATTACK
from tests.console.visitor import Visitor
from tests.waiting import wait_for
from tools.peers import RealKafka

KAFKA = "4.3.1"
ESCAPED = "&lt;img src=x"


@contextmanager
def shown(settings: dict[str, object]) -> Iterator[tuple[ConsoleServer, Visitor]]:
    """A console that has looked at the cluster once."""
    with ConsoleServer(settings, every_s=0.2) as console:
        console.start()
        wait_for(lambda: console.snapshot.at, "the first look")
        yield console, Visitor(console.url)


def page(visitor: Visitor, path: str) -> str:
    status, text, *_ = visitor.ask("GET", path)
    assert status == 200, text
    assert "not everything is known" not in text.lower(), text
    return str(text)


def test_the_tree_of_a_real_zookeeper_and_a_group_in_it(zookeeper_server: ZooKeeperServer) -> None:
    connect = f"{zookeeper_server.connect}/console"
    with EmbeddedBroker(properties={"zookeeper.connect": connect}) as broker:
        broker.create_topic("ads", 2)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(10):
                producer.send("ads", f"ad {number}", partition=number % 2)
        member = ConsumerConnector(
            zookeeper_connect=connect,
            group_id="old-readers",
            consumer_id="first",
            auto_offset_reset="smallest",
        )
        settings: dict[str, object] = {
            "bootstrap.servers": broker.bootstrap,
            "zookeeper.connect": connect,
        }
        with member, shown(settings) as (console, visitor):
            streams = member.create_message_streams({"ads": 1})["ads"]
            next(iter(streams[0]))
            member.commit_offsets()
            wait_for(lambda: "old-readers" in console.snapshot.lags, lambda: console.snapshot)
            assert "<td>ZooKeeper</td>" in page(visitor, "/groups")
            group = page(visitor, "/groups/old-readers")
            assert "old-readers_first-0" in group, "the stream that reads a partition"
            assert "ads-0" in group
            root = page(visitor, "/zookeeper")
            for name in ("brokers", "consumers", "controller"):
                assert f">{name}</a>" in root
            ids = page(visitor, "/zookeeper?path=/consumers/old-readers/ids/old-readers_first")
            assert "&#34;subscription&#34;" in ids
            assert "lives as long as session 0x" in ids
            assert visitor.ask("GET", "/zookeeper?path=/nothing")[0] in (404, 502)
            assert visitor.ask("GET", "/zookeeper?path=consumers")[0] == 400


def test_every_page_on_apache_kafka_4(real_kafka: Callable[[str], RealKafka]) -> None:
    kafka = real_kafka(KAFKA)
    settings: dict[str, object] = {"bootstrap.servers": kafka.bootstrap}
    topic, group = "console-orders", "console-kitchen"
    with Producer(settings) as producer:
        producer.send(topic, '{"item": "coffee"}', key="table 4", partition=0).result(60)
    with (
        GroupConsumer(
            topic, settings, group_id=group, group_protocol="consumer", auto_offset_reset="earliest"
        ) as reader,
        shown(settings) as (console, visitor),
    ):
        assert reader.poll(60) is not None
        reader.commit()
        wait_for(lambda: group in console.snapshot.lags, lambda: console.snapshot)
        pages = {
            "/": "healthy",
            "/topics": topic,
            f"/topics/{topic}": "retention.ms",
            f"/topics/{topic}/messages?partition=0": "coffee",
            f"/topics/{topic}/messages/0/0": "table 4",
            f"/topics/{topic}/search?contains=coffee&plain=1": "1 hits",
            "/groups": "consumer (KIP-848)",
            f"/groups/{group}": "Stable",
            "/brokers": "controller",
            f"/brokers/{next(iter(console.snapshot.cluster.brokers)).broker_id}": "log.dirs",  # type: ignore[union-attr]
            "/transactions": "All transactional ids",
            "/quotas": "Quotas",
        }
        for path, expected in pages.items():
            assert expected in page(visitor, path), path
        assert "has no authorizer" in page(visitor, "/acls")


def test_acls_and_quotas_are_shown() -> None:
    with EmbeddedBroker(security=BrokerSecurity(acls=("client READ,WRITE topic orders*",))) as broker:
        settings: dict[str, object] = {**broker.client_settings("admin")}
        rule = Acl(
            ResourceType.GROUP,
            ATTACK,
            PatternType.LITERAL,
            f"User:{ATTACK}",
            "*",
            Operation.READ,
            Permission.DENY,
        )
        with Admin(settings) as admin:
            admin.create_acls(rule)
            admin.alter_client_quotas(
                {
                    QuotaEntity(user="client"): {"producer_byte_rate": 1_048_576.0},
                    QuotaEntity(client_id=""): {"request_percentage": 12.5},
                    QuotaEntity(client_id=ATTACK): {"consumer_byte_rate": 7.0},
                }
            )
        with shown(settings) as (_, visitor):
            acls = page(visitor, "/acls")
            for part in ("User:client", "orders", "prefixed", ">deny<", ESCAPED):
                assert part in acls
            assert "<img" not in acls
            assert "User:client" not in page(visitor, "/acls?q=deny")
            assert "No rule fits" in page(visitor, "/acls?q=nobody")
            quotas = page(visitor, "/quotas")
            for part in ("user client", "1,048,576", "client-id (all others)", "12.5", ESCAPED):
                assert part in quotas
            assert "<img" not in quotas


def test_open_and_hanging_transactions_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """One producer does not tell the coordinator where it writes."""
    hour_ago_ms = int(time.time() * 1000) - 3_600_000
    with EmbeddedBroker(properties={"transaction.partition.verification.enable": "false"}) as broker:
        settings: dict[str, object] = {"bootstrap.servers": broker.bootstrap}
        broker.create_topic("orders", 1)
        with Producer(settings, transactional_id="billing") as billing, shown(settings) as (_, visitor):
            billing.begin()
            billing.send("orders", "open", timestamp_ms=hour_ago_ms).result(60)
            with monkeypatch.context() as patched:
                patched.setattr(transaction_link, "IMPLICIT_SINCE", 1_000)
                patched.setattr(PartitionGate, "admits", lambda gate, _: gate.is_open)
                patched.setattr(PartitionGate, "wants", lambda *_: False)
                with Producer(settings, transactional_id="lost") as lost:
                    lost.begin()
                    at = lost.send("orders", "hangs", timestamp_ms=hour_ago_ms).result(60).offset
                    text = page(visitor, "/transactions")
                    assert f'messages?partition=0&amp;offset={at}">orders-0</a>' in text
                    assert "billing" in text.split("<h2>Open</h2>")[1]
                    assert "None was found in 1 topics" in page(visitor, "/transactions?minutes=120")
                    assert visitor.ask("GET", "/transactions?minutes=x")[0] == 400
                    with Admin(settings) as admin:
                        admin.abort_transaction(TopicAndPartition("orders", 0), at)
                    assert "None was found" in page(visitor, "/transactions")
            billing.abort()
