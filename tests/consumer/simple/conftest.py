"""A broker that the tests of a module share, and a topic for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla import EmbeddedBroker
from ottla.consumer.simple import SimpleConsumer
from tests.naming import new_topic


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new topic with two partitions, named after the test."""
    yield new_topic(broker, request, 2)
    broker.clear_faults()


@pytest.fixture
def consumer(broker: EmbeddedBroker) -> Iterator[SimpleConsumer]:
    with SimpleConsumer("127.0.0.1", broker.port, client_id="tests") as one:
        yield one
