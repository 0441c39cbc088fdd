"""Admin on an event loop. What its calls do is tested in tests/admin, over both faces."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterator

import pytest

import ottla
from ottla import EmbeddedBroker, aio
from ottla.admin import NewTopic
from ottla.model.errors import BrokerUnreachable, ConnectionLost
from tests.aio.conftest import run


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        one.create_topic("orders", partitions=3)
        yield one


def test_both_faces_have_the_same_calls() -> None:
    """Names, arguments and results; those of asyncio are coroutines."""
    blocking = {name: call for name, call in inspect.getmembers(ottla.Admin, callable) if name[0] != "_"}
    awaited = {name: call for name, call in inspect.getmembers(aio.Admin, callable) if name[0] != "_"}
    assert blocking.keys() == awaited.keys()
    for name, call in awaited.items():
        assert inspect.iscoroutinefunction(call)
        assert not inspect.iscoroutinefunction(blocking[name])
        assert inspect.signature(call) == inspect.signature(blocking[name])
        assert name == "close" or call.__doc__ == blocking[name].__doc__


def test_tasks_use_it_at_once(broker: EmbeddedBroker) -> None:
    async def ask() -> None:
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            describing = [asyncio.create_task(admin.describe_topics("orders")) for _ in range(10)]
            made, offsets, described = await asyncio.gather(
                admin.create_topics([NewTopic(f"made-{number}", partitions=2) for number in range(3)]),
                admin.list_offsets("orders"),
                asyncio.gather(*describing),
            )
            assert set(made) == {"made-0", "made-1", "made-2"}
            assert len(offsets) == 3
            assert {len(topic.partitions) for topic in described} == {3}
            assert "connected" in repr(admin)
        assert "closed" in repr(admin)
        with pytest.raises(ConnectionLost, match="closed"):
            await admin.list_topics()

    run(ask)


def test_the_loop_runs_while_a_call_waits(broker: EmbeddedBroker) -> None:
    async def ask() -> None:
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.describe_cluster()
            broker.delay("ListOffsets", 0.3)
            call = asyncio.create_task(admin.list_offsets("orders"))
            turns = 0
            while not call.done():
                await asyncio.sleep(0.01)
                turns += 1
            assert turns > 3

    run(ask)


def test_a_close_ends_calls_that_wait(broker: EmbeddedBroker) -> None:
    async def ask() -> None:
        admin = aio.Admin(bootstrap_servers=broker.bootstrap)
        await admin.describe_cluster()
        delay = broker.delay("ListOffsets", 30)
        call = asyncio.create_task(admin.list_offsets("orders"))
        while not delay.struck:
            await asyncio.sleep(0.01)
        await admin.close()
        with pytest.raises(ConnectionLost, match="this Admin is closed"):
            await call

    run(ask)


def test_brokers_that_cannot_be_reached_are_named() -> None:
    async def ask() -> None:
        began = time.monotonic()
        async with aio.Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=500) as admin:
            with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1"):
                await admin.list_topics()
        assert time.monotonic() - began < 5

    run(ask)
