"""A broker that the tests of a module share, and stores that end with each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ottla import EmbeddedBroker
from ottla.client.client_config import ClientConfig
from ottla.offsets import KafkaOffsets

Stores = Callable[..., KafkaOffsets]


@pytest.fixture(scope="module")
def shared_brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3, properties={"offsets.topic.num.partitions": "3"}) as three:
        three.create_topic("t", 3)
        yield three


@pytest.fixture
def brokers(shared_brokers: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    shared_brokers.heal()
    yield shared_brokers
    shared_brokers.heal()


@pytest.fixture
def store(brokers: EmbeddedBroker) -> Iterator[Stores]:
    """Makes stores that retry quickly."""
    with ExitStack() as stack:

        def make(timeout: float = 30, **properties: object) -> KafkaOffsets:
            quick = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 20, "reconnect.backoff.ms": 5}
            given = {"bootstrap.servers": brokers.bootstrap, **quick, **properties}
            return stack.enter_context(KafkaOffsets(ClientConfig.from_properties(given), timeout=timeout))

        yield make
