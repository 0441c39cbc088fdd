"""A coroutine may be cancelled at any await: no record is lost or repeated, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from ottla import EmbeddedBroker, Producer, aio
from ottla.aio.cluster import LoopMetadata
from ottla.aio.connection import LoopConnection
from ottla.aio.pool import LoopPool
from ottla.client.client_config import ClientConfig
from ottla.model.error_codes import Code
from ottla.model.errors import BrokerUnreachable, ConnectionLost
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from tests.aio.conftest import run

RECORDS = 3_000
Work = Callable[[LoopPool], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        one.create_topic("orders", partitions=2)
        with Producer(bootstrap_servers=one.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("orders", b"%d" % number, partition=number % 2)
        yield one


async def take(consumer: aio.PartitionConsumer, unit: str, seen: list[bytes], chance: random.Random) -> None:
    """Read until all is seen, with an await here and there."""
    if unit == "chunks":
        async for chunk in consumer.chunks():
            seen += chunk.batch["value"].to_pylist()
            if len(seen) >= RECORDS:
                return
    async for message in consumer:
        seen.append(message.value or b"")
        if chance.random() < 0.05:
            await asyncio.sleep(0)
        if len(seen) >= RECORDS:
            return


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("unit", ["rows", "chunks"])
def test_a_reader_that_is_cancelled_again_and_again_sees_each_record_once(
    broker: EmbeddedBroker, seed: int, unit: str
) -> None:
    chance = random.Random(seed)

    async def read() -> list[bytes]:
        seen: list[bytes] = []
        async with aio.PartitionConsumer(
            bootstrap_servers=broker.bootstrap, fetch_message_max_bytes=2_000, fetch_wait_max_ms=20
        ) as consumer:
            for partition in range(2):
                await consumer.consume_partition("orders", partition, "earliest")
            while len(seen) < RECORDS:
                task = asyncio.create_task(take(consumer, unit, seen, chance))
                await asyncio.sleep(chance.choice([0, 0, 0.0005, 0.002]))
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        return seen

    numbers = [int(value) for value in run(read)]
    assert sorted(numbers) == [*range(RECORDS)]
    for partition in range(2):
        own = [number for number in numbers if number % 2 == partition]
        assert own == sorted(own)


def test_a_cancelled_call_leaves_the_connection_in_order(broker: EmbeddedBroker) -> None:
    async def ask() -> list[int]:
        async with aio.PartitionConsumer(bootstrap_servers=broker.bootstrap) as consumer:
            await consumer.partitions("orders")
            broker.delay("ListOffsets", 0.05, times=2)
            for _ in range(2):
                reader = consumer.readers.get(("orders", 0)) or await consumer.consume_partition(  # type: ignore[call-overload]
                    "orders", 0, 0
                )
                task = asyncio.create_task(reader.tail(3))
                await asyncio.sleep(0.01)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await reader.tail(3)
            return [message.offset async for message in reader.messages(timeout=1)]

    assert run(ask) == [RECORDS // 2 - 3, RECORDS // 2 - 2, RECORDS // 2 - 1]
    broker.clear_faults()


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


@pytest.fixture
def asking(broker: EmbeddedBroker) -> Iterator[Callable[[Work], None]]:
    """Calls a coroutine function with connections to the broker."""

    async def ask(work: Work) -> None:
        config = ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap})
        metadata = LoopMetadata(config)
        await metadata.refresh(())
        pool = LoopPool(config, metadata)
        try:
            await work(pool)
        finally:
            await pool.close()
            await metadata.close()

    yield lambda work: run(partial(ask, work))
    broker.clear_faults()


def test_a_call_does_not_wait_for_the_answer_of_a_cancelled_one(
    broker: EmbeddedBroker, asking: Callable[[Work], None]
) -> None:
    """Who waits on the same connection for an earlier answer gets it."""

    async def ask(pool: LoopPool) -> None:
        first = await pool.to(0)
        broker.delay("ListGroups", 0.3)
        broker.delay("FindCoordinator", 3_600)
        waiting = asyncio.create_task(first.call(ListGroupsRequest()))
        cancelled = asyncio.create_task(first.call(FindCoordinatorRequest(coordinator_keys=["g"])))
        await until(lambda: first.in_flight_count == 2)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        second = await pool.to(0)
        assert (await second.call(ListGroupsRequest())).error_code == Code.NONE
        assert (await waiting).error_code == Code.NONE
        await until(lambda: not first.is_open)
        assert second is await pool.to(0)

    asking(ask)


def test_a_connection_is_used_again_when_the_answer_of_a_cancelled_call_has_come(
    broker: EmbeddedBroker, asking: Callable[[Work], None]
) -> None:
    async def ask(pool: LoopPool) -> None:
        connection = await pool.to(0)
        broker.delay("ListGroups", 0.2)
        cancelled = asyncio.create_task(connection.call(ListGroupsRequest()))
        await until(lambda: connection.in_flight_count)
        cancelled.cancel()
        await until(lambda: not connection.in_flight_count)
        assert connection is await pool.to(0)

    asking(ask)


def test_retired_connections_are_closed_with_their_pool(
    broker: EmbeddedBroker, asking: Callable[[Work], None]
) -> None:
    waiting: list[asyncio.Task[Any]] = []

    async def ask(pool: LoopPool) -> None:
        first = await pool.to(0)
        broker.delay("ListGroups", 3_600, times=2)
        waiting.extend(asyncio.create_task(first.call(ListGroupsRequest())) for _ in range(2))
        await until(lambda: first.in_flight_count == 2)
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        await pool.to(0)
        await pool.close()
        with pytest.raises(ConnectionLost):
            await waiting[1]

    asking(ask)


def test_an_end_that_is_cancelled_ends_all_the_same(broker: EmbeddedBroker) -> None:
    async def close() -> None:
        consumer = aio.PartitionConsumer(bootstrap_servers=broker.bootstrap)
        await consumer.consume_partition("orders", 0, 0)
        async for _ in consumer:
            break
        task = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert consumer.health.value == "closed"

    run(close)


def test_brokers_that_cannot_be_reached_are_named() -> None:
    async def ask() -> None:
        async with aio.PartitionConsumer(bootstrap_servers="127.0.0.1:1") as consumer:
            with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1 cannot be reached"):
                await consumer.check_brokers(timeout=2)

    run(ask)


def test_a_reader_that_waits_ends_its_fetch_session(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    send = LoopConnection.send

    def noted(connection: LoopConnection, request: Any, **more: Any) -> Any:
        sent.append(request)
        return send(connection, request, **more)

    monkeypatch.setattr(LoopConnection, "send", noted)

    async def read() -> None:
        settings = {"bootstrap.servers": broker.bootstrap, "fetch.wait.max.ms": 60_000}
        async with aio.PartitionConsumer(settings) as consumer:
            await consumer.consume_partition("orders", 0, "earliest")
            while not any(isinstance(one, FetchRequest) and one.session_epoch > 0 for one in sent):
                await asyncio.sleep(0.01)

    run(read)
    last = [one for one in sent if isinstance(one, FetchRequest)][-1]
    assert (last.session_epoch, bool(last.session_id)) == (-1, True)
