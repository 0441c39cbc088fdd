"""Real servers for tests, started when the first test needs them; what cannot run here skips the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.model.closing import Closing
from ottla.zookeeper.java_runtime import java_command, zookeeper_jars
from ottla.zookeeper.server import ServerSettings, ZooKeeperServer
from ottla.zookeeper.zookeeper_errors import ServerFailed
from tools.peers import RealKafka, Unavailable

FAST = ServerSettings(tick_ms=200, fsync=False)
PARTITIONS = 3
"""Of a topic that a shared Kafka makes because a client asks for it."""


def require_zookeeper() -> None:
    """Skip the test where no ZooKeeper server can run."""
    try:
        java_command()
        zookeeper_jars()
    except ServerFailed as missing:
        pytest.skip(f"needs a real ZooKeeper server: {missing}")


@contextmanager
def fast_zookeeper(data_dir: Path) -> Iterator[ZooKeeperServer]:
    """Run a ZooKeeper server with short ticks that does not wait for the disk. ann may log in by SASL."""
    require_zookeeper()
    data_dir.mkdir(parents=True, exist_ok=True)
    jaas = data_dir / "jaas.conf"
    jaas.write_text(
        'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="s3cret"; };\n'
    )
    with ZooKeeperServer(data_dir, settings=replace(FAST, jaas_file=jaas)) as server:
        yield server


class RealKafkas(Closing):
    """One Apache Kafka per version. A version that cannot run is tried once and skips all its tests."""

    def __init__(self) -> None:
        self._running: dict[str, RealKafka] = {}
        self._missing: dict[str, str] = {}
        self._stack = ExitStack()

    def running(self, version: str) -> RealKafka:
        """Return the server of this version; start it if necessary."""
        if version in self._missing:
            pytest.skip(self._missing[version])
        if version not in self._running:
            try:
                kafka = RealKafka(version, properties={"num.partitions": str(PARTITIONS)})
                self._running[version] = self._stack.enter_context(kafka)
            except Unavailable as error:
                self._missing[version] = f"Kafka {version} cannot be run here: {error}"
                pytest.skip(self._missing[version])
        kafka = self._running[version]
        if not kafka.pid:  # a test stopped it and failed before it started it again
            kafka.start()
        return kafka

    def close(self) -> None:
        """Stop all clusters."""
        self._stack.close()
