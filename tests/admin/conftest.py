"""Three embedded brokers that the tests of a module share, an Admin of them, and a topic for each test."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.admin import Admin, NewTopic
from ottla.broker.embedded import EmbeddedBroker

PATIENCE_S = 60.0


def until(is_so: Callable[[], bool]) -> None:
    """Wait for another process or thread to make it so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def shared_brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3, properties={"offsets.topic.num.partitions": "3"}) as three:
        yield three


@pytest.fixture
def brokers(shared_brokers: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    """All of them running and without faults, at the start and at the end."""
    yield shared_brokers
    shared_brokers.heal()


@pytest.fixture
def admin(brokers: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=brokers.bootstrap) as one:
        yield one


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """What a test may call its topic or group."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", request.node.name).strip("-")


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    """Three partitions on two brokers each."""
    admin.create_topics(NewTopic(name, partitions=3, replication_factor=2))
    return name
