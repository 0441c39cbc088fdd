"""A broker that the tests of a module share, a topic and a group for each test, members that end with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, cast

import pytest

from ottla import EmbeddedBroker, aio
from ottla.consumer.coordinated import GroupConsumer
from tests.both_faces import Loop
from tests.fetching.traffic import Writer
from tests.naming import new_topic

Consumers = Callable[..., GroupConsumer]


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"group.min.session.timeout.ms": "100"}) as one:
        yield one


@pytest.fixture
def broker(shared_broker: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    yield shared_broker
    shared_broker.clear_faults()


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """A new topic with four partitions, named after the test."""
    return new_topic(broker, request, 4)


@pytest.fixture
def writer(broker: EmbeddedBroker) -> Iterator[Writer]:
    with Writer(broker.bootstrap) as one:
        yield one


@pytest.fixture
def face() -> str:
    """Which consumers are made; a module of tests for both faces overrides it."""
    return "threads"


@pytest.fixture
def consumer(broker: EmbeddedBroker, topic: str, face: str) -> Iterator[Consumers]:
    """Makes members of a group named after the topic, which read from its beginning."""
    with ExitStack() as stack:
        loop = Loop() if face == "asyncio" else None
        if loop is not None:
            stack.callback(loop.close)

        def make(topics: Any = None, **more: Any) -> GroupConsumer:
            group = more.pop("group_id", f"group-of-{topic}")
            settings: dict[str, Any] = {
                "bootstrap_servers": broker.bootstrap,
                "auto_offset_reset": "smallest",
                "heartbeat_interval_ms": 50,
                "fetch_wait_max_ms": 50,
                "retry_backoff_ms": 10,
                "enable_auto_commit": False,
            }
            wanted = topic if topics is None else topics
            if loop is None:
                return stack.enter_context(GroupConsumer(wanted, group_id=group, **(settings | more)))
            made = loop.call(lambda: aio.GroupConsumer(wanted, group_id=group, **(settings | more)))
            return cast(GroupConsumer, stack.enter_context(loop.face(made)))

        yield make
