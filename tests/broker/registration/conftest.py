"""A real ZooKeeper server; without Java or PySpark the tests that want one are skipped by name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from ottla.zookeeper.errors import ServerFailed
from ottla.zookeeper.java_runtime import java_command, zookeeper_jars
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.server import ServerSettings, ZooKeeperServer

_numbers = itertools.count()


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """Shared: a test may stop it, but leaves it running."""
    try:
        java_command()
        zookeeper_jars()
    except ServerFailed as missing:
        pytest.skip(f"needs a real ZooKeeper server: {missing}")
    settings = ServerSettings(tick_ms=200, fsync=False)
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), settings=settings) as server:
        yield server


@pytest.fixture
def connect(zookeeper_server: ZooKeeperServer) -> str:
    """zookeeper.connect with a chroot of this test alone."""
    return f"{zookeeper_server.connect}/test-{next(_numbers)}/kafka"


@pytest.fixture
def zookeeper(connect: str) -> Iterator[KazooZooKeeperSession]:
    """A session of its own, which sees what others see."""
    with KazooZooKeeperSession(KazooSettings(connect, connection_timeout_ms=20_000)) as session:
        session.ensure("/")
        yield session
