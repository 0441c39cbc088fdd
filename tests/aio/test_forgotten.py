"""A client that is dropped without `close()` warns, and ends its tasks and connections."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker, aio
from tests.aio.conftest import run

Used = Callable[[EmbeddedBroker], Awaitable[Any]]


async def group_consumer(broker: EmbeddedBroker) -> aio.GroupConsumer:
    consumer = aio.GroupConsumer("orders", group_id="readers", bootstrap_servers=broker.bootstrap)
    while not consumer.assignment:
        await consumer.poll(0.1)
    return consumer


async def group_consumer_with_callbacks(broker: EmbeddedBroker) -> aio.GroupConsumer:
    consumer = await group_consumer(broker)

    def look(*_: object) -> None:
        str(consumer)

    for topic_partition in consumer.assignment:
        consumer.commit_async({topic_partition: 0}, look)
    return consumer


async def share_consumer(broker: EmbeddedBroker) -> aio.ShareConsumer:
    consumer = aio.ShareConsumer("orders", group_id="sharers", bootstrap_servers=broker.bootstrap)
    await consumer.poll(0.01)
    return consumer


async def partition_consumer(broker: EmbeddedBroker) -> aio.PartitionConsumer:
    consumer = aio.PartitionConsumer(bootstrap_servers=broker.bootstrap)
    await consumer.consume_partition("orders", 0, "earliest")
    return consumer


async def producer(broker: EmbeddedBroker) -> aio.Producer:
    producer = aio.Producer(bootstrap_servers=broker.bootstrap)
    await (await producer.send("orders", b"tea"))
    return producer


async def admin(broker: EmbeddedBroker) -> aio.Admin:
    admin = aio.Admin(bootstrap_servers=broker.bootstrap)
    await admin.list_topics()
    return admin


USED: dict[Used, str] = {
    group_consumer: "GroupConsumer of group 'readers'",
    group_consumer_with_callbacks: "GroupConsumer of group 'readers'",
    share_consumer: "ShareConsumer of group 'sharers'",
    partition_consumer: "PartitionConsumer of 127.0.0.1",
    producer: "Producer 'ottla-producer'",
    admin: "Admin of 127.0.0.1",
}


async def forgotten(clients: list[Any], client: weakref.ref[Any]) -> None:
    """Wait until nothing refers to it; the present step of one of its tasks may."""
    clients.clear()
    while client() is not None:
        gc.collect()
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # its end begins


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders")
        yield broker


@pytest.mark.parametrize("used", USED, ids=lambda used: used.__name__)
def test_a_forgotten_client_warns_and_ends(broker: EmbeddedBroker, used: Used) -> None:
    async def forget() -> None:
        clients = [await used(broker)]
        client = weakref.ref(clients[0])
        with pytest.warns(ResourceWarning, match=f"aio.{USED[used]}.* was not closed"):
            await forgotten(clients, client)
        while left := [task for task in asyncio.all_tasks() if task.get_name().startswith("ottla")]:
            await asyncio.wait(left)

    run(forget)  # within limits, and checks that no task is left
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        for group in admin.list_groups():
            assert not admin.describe_groups(group.group_id).members


def test_every_client_that_can_be_closed_is_tested() -> None:
    closable = {name for name in aio.__all__ if hasattr(getattr(aio, name), "close")}
    assert closable - {"PartitionReader"} == {name.split()[0] for name in USED.values()}


def test_a_closed_client_does_not_warn(broker: EmbeddedBroker) -> None:
    async def forget() -> None:
        for used in USED:
            client = await used(broker)
            await client.close()
            del client
            gc.collect()

    run(forget)


def test_a_client_may_outlive_its_loop(broker: EmbeddedBroker) -> None:
    """The loop has ended its tasks."""
    clients: list[object] = []

    async def leave() -> None:
        clients.append(await partition_consumer(broker))

    asyncio.run(leave())
    clients.clear()
    gc.collect()
