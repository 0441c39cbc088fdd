"""A cluster of three brokers that the tests of a module share, and a connection to each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.broker.wire_client import Client

BROKERS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=BROKERS, properties={"offsets.topic.num.partitions": "4"}) as broker:
        yield broker


@pytest.fixture
def clients(cluster: EmbeddedBroker) -> Iterator[list[Client]]:
    """One for each broker, in the order of their ids."""
    made = [Client.of(address) for address in cluster.bootstrap.split(",")]
    yield made
    for client in made:
        client.close()


@pytest.fixture
def client(clients: list[Client]) -> Client:
    return clients[0]
