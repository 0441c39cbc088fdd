"""A broker that the tests of a module share, and a topic for each test."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ottla import EmbeddedBroker
from ottla.simple import SimpleConsumer


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new topic with two partitions, named after the test."""
    name = re.sub(r"[^A-Za-z0-9-]+", "-", request.node.name).strip("-")
    broker.create_topic(name, 2)
    yield name
    broker.clear_faults()


@pytest.fixture
def consumer(broker: EmbeddedBroker) -> Iterator[SimpleConsumer]:
    with SimpleConsumer("127.0.0.1", broker.port, client_id="tests") as one:
        yield one
