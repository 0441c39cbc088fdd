"""A ZooKeeper session for the duration of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.session import ZooKeeperSession

TIMEOUT_MS = 30_000
"""How long Kafka's tools wait for ZooKeeper."""


@contextmanager
def zookeeper_session(connect: str) -> Iterator[ZooKeeperSession]:
    """A connected session. Raises ZooKeeperConnectionLost if ZooKeeper does not answer."""
    settings = KazooSettings(connect, session_timeout_ms=TIMEOUT_MS, connection_timeout_ms=TIMEOUT_MS)
    session = KazooZooKeeperSession(settings)
    try:
        session.connect()
        yield session
    finally:
        session.close()
