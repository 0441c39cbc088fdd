"""The brokers that clients are run against: ours, a real Kafka as the oracle, or any address."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ottla.broker.embedded import EmbeddedBroker
from ottla.zookeeper.server import ServerSettings, ZooKeeperServer
from ottla.zookeeper.zookeeper_errors import ServerFailed
from tools.peers import RealKafka, Unavailable

FAST_ZOOKEEPER = ServerSettings(tick_ms=500, fsync=False)
TIMEOUTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
"""Kafka looks every 10 s for transactions that have timed out."""
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5", **TIMEOUTS}
"""Kafka's wait for more members of a new group would be most of the matrix's time."""


class Target(Protocol):
    """A running broker."""

    bootstrap: str
    zookeeper: str
    """Where the broker is registered; empty without ZooKeeper."""

    def restart(self) -> bool:
        """Restart on the same port and data; False where that cannot be done."""


@dataclass
class Address:
    """A broker that somebody else runs."""

    bootstrap: str
    zookeeper: str = ""

    def restart(self) -> bool:
        return False


class _Kafka:
    def __init__(self, kafka: RealKafka) -> None:
        self._kafka = kafka
        self.bootstrap, self.zookeeper = kafka.bootstrap, kafka.zookeeper

    def restart(self) -> bool:
        self._kafka.restart()
        return True


class _Ottla:
    def __init__(self, broker: EmbeddedBroker, zookeeper: str) -> None:
        self._broker = broker
        self.bootstrap, self.zookeeper = broker.bootstrap, zookeeper

    def restart(self) -> bool:
        self._broker.stop()
        self._broker.start()
        return True


@contextmanager
def ottla(*, with_zookeeper: bool = False) -> Iterator[Target]:
    """Our broker, and a real ZooKeeper where clients need one; Unavailable where that cannot be run."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-matrix-")))
        properties, connect = dict(SETTINGS), ""
        if with_zookeeper:
            try:
                server = stack.enter_context(ZooKeeperServer(place / "zookeeper", settings=FAST_ZOOKEEPER))
            except ServerFailed as error:
                raise Unavailable(f"ZooKeeper cannot be run here: {error}") from None
            connect = server.connect
            properties |= {"zookeeper.connect": connect}
        broker = stack.enter_context(EmbeddedBroker(place / "data", properties=properties))
        yield _Ottla(broker, connect)


@contextmanager
def real_kafka(version: str) -> Iterator[Target]:
    """Apache Kafka itself, to prove the scripts."""
    with RealKafka(version, properties={"delete.topic.enable": "true", **TIMEOUTS}) as kafka:
        yield _Kafka(kafka)
