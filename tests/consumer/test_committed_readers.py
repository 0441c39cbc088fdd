"""Every reader, told to read what is committed, hands out no record of an aborted or open transaction.

And it does not wait at a transaction that is decided. Spark, mirrors and `scan` have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker, GroupConsumer, PartitionConsumer, Producer, ShareConsumer, replay
from ottla.admin import group_resource
from ottla.consumer.classic import ConsumerConnector
from ottla.zookeeper.server import ZooKeeperServer
from tests.consumer.classic.conftest import QUICK, registered_at
from tests.waiting import PATIENCE_S

COMMITTED = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
EXPECTED = [b"plain", b"committed", b"behind"]
QUIET_S = 0.3
"""After what is expected nothing comes for so long."""


@dataclass(frozen=True)
class World:
    """A topic with a committed, an aborted and an open transaction, and where it is."""

    bootstrap: str
    connect: str

    @property
    def at(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.bootstrap}


@pytest.fixture(scope="module")
def world(zookeeper_server: ZooKeeperServer) -> Iterator[World]:
    connect = f"{zookeeper_server.connect}/committed"
    with EmbeddedBroker(properties=registered_at(connect)) as broker:
        broker.create_topic("orders")
        at: dict[str, Any] = {"bootstrap_servers": broker.bootstrap}
        with (
            Producer(**at) as plain,
            Producer(transactional_id="decided", **at) as decided,
            Producer(transactional_id="open", **at) as left,
        ):

            def write(producer: Producer, value: str) -> None:
                producer.send("orders", value).result(PATIENCE_S)

            write(plain, "plain")
            with decided.transaction():
                write(decided, "committed")
            decided.begin()
            write(decided, "aborted")
            decided.abort()
            write(plain, "behind")
            left.begin()
            write(left, "open")
            write(plain, "behind what is open")
            yield World(broker.bootstrap, connect)


def read(reader: Any) -> list[bytes]:
    """As many values as are expected, and what comes behind them within a moment."""
    first = [message.value for message in islice(reader.messages(timeout=PATIENCE_S), len(EXPECTED))]
    return first + [message.value for message in reader.messages(timeout=QUIET_S)]


def by_group(world: World, protocol: str) -> list[bytes]:
    settings = {**COMMITTED, "group.protocol": protocol}
    with GroupConsumer("orders", settings, group_id=protocol, **world.at) as consumer:
        return read(consumer)


def by_share_group(world: World) -> list[bytes]:
    settings = {"share.isolation.level": "read_committed", "share.auto.offset.reset": "earliest"}
    with Admin(**world.at) as admin:
        admin.alter_configs(group_resource("share"), settings)
    with ShareConsumer("orders", group_id="share", **world.at) as consumer:
        return read(consumer)


def by_connector(world: World) -> list[bytes]:
    settings = {**QUICK, "isolation.level": "read_committed", "group.id": "zookeeper"}
    with ConsumerConnector({**settings, "zookeeper.connect": world.connect}) as connector:
        (stream,) = connector.create_message_streams({"orders": 1})["orders"]
        return read(stream)


def by_partition_consumer(world: World) -> list[bytes]:
    with PartitionConsumer(isolation_level="read_committed", **world.at) as consumer:
        consumer.consume_partition("orders", 0, "earliest")
        return read(consumer)


def by_replay(world: World) -> list[bytes]:
    """It ends where a transaction is open."""
    table = replay("orders", isolation_level="read_committed", **world.at).to_table()
    values: list[bytes] = table["value"].to_pylist()
    return values


READERS: dict[str, Callable[[World], list[bytes]]] = {
    "classic group": partial(by_group, protocol="classic"),
    "consumer group": partial(by_group, protocol="consumer"),
    "share group": by_share_group,
    "ConsumerConnector": by_connector,
    "PartitionConsumer": by_partition_consumer,
    "replay": by_replay,
}


@pytest.mark.parametrize("name", READERS)
def test_only_what_is_committed_is_handed_out(world: World, name: str) -> None:
    assert READERS[name](world) == EXPECTED
