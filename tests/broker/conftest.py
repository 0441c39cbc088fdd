"""A broker that the tests of a module share, a connection to it, and a topic for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.broker.wire_client import Client
from tests.naming import new_topic


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"offsets.topic.num.partitions": "3"}) as one:
        yield one


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[Client]:
    with Client.of(broker.bootstrap) as one:
        yield one


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """A new topic with three partitions, named after the test."""
    return new_topic(broker, request, 3)
