"""A real ZooKeeper server for the session, a broker of ours on it for each module, topics and members."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ottla import EmbeddedBroker
from ottla.consumer.classic import ConsumerConnector
from ottla.zookeeper import paths
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.server import ZooKeeperServer
from tests.fetching.traffic import Writer
from tests.naming import name_after_test
from tests.waiting import wait_for

Connectors = Callable[..., ConsumerConnector]
_numbers = itertools.count()

QUICK = {
    "zookeeper_session_timeout_ms": 4000,
    "zookeeper_connection_timeout_ms": 30_000,
    "zookeeper_sync_time_ms": 1500,
    "auto_offset_reset": "smallest",
    "fetch_wait_max_ms": 50,
    "refresh_leader_backoff_ms": 50,
    "auto_commit_interval_ms": 500,
    "rebalance_watchdog_ms": 2000,
}


def registered_at(connect: str) -> dict[str, str]:
    """What makes a broker of ours register."""
    return {"zookeeper.connect": connect, "zookeeper.connection.timeout.ms": "30000"}


@pytest.fixture(scope="module")
def connect(zookeeper_server: ZooKeeperServer) -> str:
    """zookeeper.connect with a chroot of this module."""
    return f"{zookeeper_server.connect}/classic-{next(_numbers)}/kafka"


@pytest.fixture(scope="module")
def broker(connect: str) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties=registered_at(connect)) as one:
        yield one


@pytest.fixture
def zookeeper(connect: str, broker: EmbeddedBroker) -> Iterator[KazooZooKeeperSession]:
    """A session of the test's own, which sees what others see."""
    with KazooZooKeeperSession(KazooSettings(connect, connection_timeout_ms=30_000)) as session:
        yield session


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of the test, as topics and groups may be called."""
    return name_after_test(request)[:100]


@pytest.fixture
def topic(broker: EmbeddedBroker, name: str, zookeeper: KazooZooKeeperSession) -> str:
    """A new topic with four partitions, which is in ZooKeeper already."""
    broker.create_topic(name, 4)
    wait_for(lambda: zookeeper.exists(paths.topic(name)), "the topic is registered")
    return name


@pytest.fixture
def writer(broker: EmbeddedBroker) -> Iterator[Writer]:
    with Writer(broker.bootstrap) as one:
        yield one


@pytest.fixture
def connector(connect: str, broker: EmbeddedBroker, name: str) -> Iterator[Connectors]:
    """Makes members of the test's group; they end with the test."""
    with ExitStack() as stack:

        def make(**more: object) -> ConsumerConnector:
            given = {"group_id": name, "zookeeper_connect": connect, **QUICK, **more}
            return stack.enter_context(ConsumerConnector(given))

        yield make
