"""One real ZooKeeper server for all tests that want one; without Java or PySpark they are skipped by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.zookeeper.errors import ServerFailed
from ottla.zookeeper.java_runtime import java_command, zookeeper_jars
from ottla.zookeeper.server import ServerSettings, ZooKeeperServer

FAST = ServerSettings(tick_ms=200, fsync=False)


def require_server() -> None:
    try:
        java_command()
        zookeeper_jars()
    except ServerFailed as missing:
        pytest.skip(f"needs a real ZooKeeper server: {missing}")


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """Shared: a test may restart it, but leaves it running."""
    require_server()
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), settings=FAST) as server:
        yield server
