"""A broker that the tests of a module share, a topic for each test, a writer, consumers that end with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ottla import EmbeddedBroker
from ottla.consumer.partition import PartitionConsumer
from tests.fetching.conftest import broker, topic, writer

__all__ = ["broker", "consumers", "topic", "writer"]

Consumers = Callable[..., PartitionConsumer]


@pytest.fixture
def consumers(broker: EmbeddedBroker) -> Iterator[Consumers]:
    """Makes consumers that do not wait long for brokers."""
    with ExitStack() as stack:

        def make(bootstrap: str = "", **settings: object) -> PartitionConsumer:
            quick = {"fetch_wait_max_ms": 50, "refresh_leader_backoff_ms": 20, "consumer_timeout_ms": 60_000}
            given = {"bootstrap_servers": bootstrap or broker.bootstrap, **quick, **settings}
            return stack.enter_context(PartitionConsumer(given))

        yield make
