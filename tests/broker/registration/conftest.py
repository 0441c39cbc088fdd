"""A real ZooKeeper server; without Java or PySpark the tests that want one are skipped by name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.server import ZooKeeperServer

_numbers = itertools.count()


@pytest.fixture
def connect(zookeeper_server: ZooKeeperServer) -> str:
    """zookeeper.connect with a chroot of this test alone."""
    return f"{zookeeper_server.connect}/registration-{next(_numbers)}/kafka"


@pytest.fixture
def zookeeper(connect: str) -> Iterator[KazooZooKeeperSession]:
    """A session of its own, which sees what others see."""
    with KazooZooKeeperSession(KazooSettings(connect, connection_timeout_ms=20_000)) as session:
        session.ensure("/")
        yield session
