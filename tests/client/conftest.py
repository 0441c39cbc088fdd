"""Brokers that the tests of a module share, and clients of them that the tests need not close."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from tests.naming import name_after_test


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture(scope="module")
def shared_brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3, properties={"offsets.topic.num.partitions": "3"}) as three:
        yield three


@pytest.fixture
def brokers(shared_brokers: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    """Three, all of them running and without faults at the start."""
    shared_brokers.heal()
    yield shared_brokers
    shared_brokers.heal()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return name_after_test(request)


class Clients:
    """Makes clients and closes them."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def config(self, bootstrap: str, **properties: object) -> ClientConfig:
        return ClientConfig.from_properties({"bootstrap.servers": bootstrap, **properties})

    def connection(self, bootstrap: str, **properties: object) -> Connection:
        config = self.config(bootstrap, **properties)
        return self._stack.enter_context(Connection.open(config.bootstrap[0], config))

    def metadata(self, bootstrap: str, **properties: object) -> ClusterMetadata:
        return self._stack.enter_context(ClusterMetadata(self.config(bootstrap, **properties)))

    def pool(self, bootstrap: str, **properties: object) -> tuple[ConnectionPool, ClusterMetadata]:
        metadata = self.metadata(bootstrap, **properties)
        pool = ConnectionPool(self.config(bootstrap, **properties), metadata)
        return self._stack.enter_context(pool), metadata


@pytest.fixture
def clients() -> Iterator[Clients]:
    with ExitStack() as stack:
        yield Clients(stack)
