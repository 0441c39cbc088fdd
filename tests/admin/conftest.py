"""Three embedded brokers that the tests of a module share, an Admin of them, and a topic for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla import aio
from ottla.admin import Admin, NewTopic
from ottla.broker.embedded import EmbeddedBroker
from tests.both_faces import FACES, opened
from tests.naming import name_after_test


@pytest.fixture(scope="module")
def shared_brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3, properties={"offsets.topic.num.partitions": "3"}) as three:
        yield three


@pytest.fixture
def brokers(shared_brokers: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    """All of them running and without faults, at the start and at the end."""
    yield shared_brokers
    shared_brokers.heal()


@pytest.fixture(params=FACES)
def admin(brokers: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[Admin]:
    with opened(request.param, Admin, aio.Admin, bootstrap_servers=brokers.bootstrap) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """What a test may call its topic or group."""
    return name_after_test(request)


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    """Three partitions on two brokers each."""
    admin.create_topics(NewTopic(name, partitions=3, replication_factor=2))
    return name
