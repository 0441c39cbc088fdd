"""Two brokers that the tests of a module share, a topic for each test, and mirrors between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import EmbeddedBroker
from ottla.consumer.classic import Whitelist
from ottla.mirror import Mirror
from tests.naming import name_after_test

Mirrors = Callable[..., Mirror]


@pytest.fixture(scope="module")
def source() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture(scope="module")
def target() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"auto.create.topics.enable": "false"}) as one:
        yield one


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of the test, as topics and groups may be called."""
    return name_after_test(request)[:100]


@pytest.fixture
def topic(source: EmbeddedBroker, name: str) -> str:
    """A new topic of the source with three partitions, named after the test."""
    source.create_topic(name, 3)
    return name


@pytest.fixture
def mirror(source: EmbeddedBroker, target: EmbeddedBroker, name: str) -> Mirrors:
    """Makes mirrors of the test's topics, in a group named after it."""

    def make(consumer: dict[str, Any] | None = None, **more: Any) -> Mirror:
        consumer = {
            "bootstrap.servers": source.bootstrap,
            "group.id": f"group-of-{name}",
            "fetch.wait.max.ms": 50,
            "heartbeat.interval.ms": 100,
            **(consumer or {}),
        }
        producer = {"bootstrap.servers": target.bootstrap, **more.pop("producer", {})}
        filter_ = more.pop("topics", Whitelist(name))
        return Mirror(consumer, producer, filter_, **{"offset_commit_interval": 0.2, **more})

    return make
