"""A broker that the tests of a module share, and a topic of three partitions for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.naming import new_topic


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """A new topic with three partitions, named after the test."""
    return new_topic(broker, request, 3)
