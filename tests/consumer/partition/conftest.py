"""A broker that the tests of a module share, a topic for each test, a writer, consumers that end with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import cast

import pytest

from ottla import EmbeddedBroker, aio
from ottla.consumer.partition import PartitionConsumer
from tests.both_faces import FACES, Loop
from tests.fetching.conftest import broker, topic, writer

__all__ = ["broker", "consumers", "thread_consumers", "topic", "writer"]

Consumers = Callable[..., PartitionConsumer]


QUICK = {"fetch_wait_max_ms": 50, "refresh_leader_backoff_ms": 20, "consumer_timeout_ms": 60_000}


@pytest.fixture(params=FACES)
def consumers(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[Consumers]:
    """Makes consumers of both faces that do not wait long for brokers."""
    if request.param == "threads":
        yield request.getfixturevalue("thread_consumers")
        return
    with ExitStack() as stack:
        loop = Loop()
        stack.callback(loop.close)

        def make(bootstrap: str = "", **settings: object) -> PartitionConsumer:
            given = {"bootstrap_servers": bootstrap or broker.bootstrap, **QUICK, **settings}
            made = loop.face(loop.call(lambda: aio.PartitionConsumer(given)))
            return cast(PartitionConsumer, stack.enter_context(made))

        yield make


@pytest.fixture
def thread_consumers(broker: EmbeddedBroker) -> Iterator[Consumers]:
    """Makes blocking consumers: for tests of signals and threads."""
    with ExitStack() as stack:

        def make(bootstrap: str = "", **settings: object) -> PartitionConsumer:
            given = {"bootstrap_servers": bootstrap or broker.bootstrap, **QUICK, **settings}
            return stack.enter_context(PartitionConsumer(given))

        yield make
