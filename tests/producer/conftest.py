"""A broker that the tests of a module share, and a topic of three partitions for each test."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ottla.broker.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """A new topic, named after the test."""
    name = re.sub(r"[^A-Za-z0-9-]+", "-", request.node.name).strip("-")
    broker.create_topic(name, 3)
    return name
