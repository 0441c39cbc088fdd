"""Cancelled at each await in turn: nothing is lost, nothing comes twice, nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from ottla import EmbeddedBroker, KafkaError, ProducerClosed, aio
from ottla.admin import NewTopic
from tests.aio.conftest import run, values
from tests.broker.real_clients import send
from tests.broker.share_groups.share_member import configure_group
from tests.naming import name_after_test

RECORDS = 5
AWAITS_MAX = 400


@types.coroutine
def _cancelled_at(work: Coroutine[Any, Any, Any], number: int) -> Generator[Any, Any, bool]:
    """Run it; when it waits for the `number`th time, its task is cancelled. Whether it came that far."""
    waits = 0
    sent: Any = None
    error: BaseException | None = None
    while True:
        try:
            awaited = work.send(sent) if error is None else work.throw(error)
        except StopIteration:
            return waits >= number
        waits += 1
        if waits == number:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        sent, error = None, None
        try:
            sent = yield awaited
        except BaseException as thrown:  # noqa: BLE001 - handed to the work
            error = thrown


async def _cancelled(work: Coroutine[Any, Any, Any], number: int) -> bool:
    """Whether the work waited for the `number`th time; then it was cancelled there."""
    task = asyncio.create_task(_as_coroutine(work, number))
    with contextlib.suppress(asyncio.CancelledError):
        return await task
    return True


async def _as_coroutine(work: Coroutine[Any, Any, Any], number: int) -> bool:
    return await _cancelled_at(work, number)


def at_each_await(attempt: Callable[[int], Coroutine[Any, Any, bool]], least: int) -> None:
    """Call `attempt` with 1, 2, 3, … until it is not cancelled any more; it must have been, `least` times."""
    for number in range(1, AWAITS_MAX):
        if not run(lambda number=number: attempt(number)):
            assert number > least
            return
    pytest.fail(f"there are more than {AWAITS_MAX} awaits")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"group.initial.rebalance.delay.ms": 0}) as one:
        yield one


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return name_after_test(request)


ALL = [b"%d" % record for record in range(RECORDS)]


def fill(broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic)
    send(broker.bootstrap, topic, ALL)


def test_a_producer(broker: EmbeddedBroker, name: str) -> None:
    """What was accepted is written once, in order, and so is what a cancelled flush was to wait for."""

    async def attempt(number: int) -> bool:
        accepted: list[bytes] = []
        topic = f"{name}-{number}"

        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:

            async def send() -> None:
                for record in range(RECORDS):
                    delivery = await producer.send(topic, b"%d" % record, partition=0)
                    accepted.append(b"%d" % record)
                    if record == 2:
                        await delivery
                await producer.flush()

            was_cancelled = await _cancelled(send(), number)
        written = values(broker, topic, 0)
        assert written == accepted or (not accepted and not written)
        return was_cancelled

    at_each_await(attempt, least=2)


def test_a_producer_that_is_closed(broker: EmbeddedBroker, name: str) -> None:
    """A record is acknowledged, or given up and its delivery says so; no task is left."""
    broker.create_topic(name)

    async def attempt(number: int) -> bool:
        before = len(values(broker, name, 0))
        producer = aio.Producer(bootstrap_servers=broker.bootstrap)
        delivery = await producer.send(name, b"v", partition=0)
        was_cancelled = await _cancelled(producer.close(), number)
        with contextlib.suppress(ProducerClosed):
            assert (await delivery).offset == before
            assert len(values(broker, name, 0)) == before + 1
        await producer.close()
        return was_cancelled

    at_each_await(attempt, least=1)


def test_an_admin(broker: EmbeddedBroker, name: str) -> None:
    """A call that is cancelled may have been carried out; the next ones work on the same connections."""

    async def attempt(number: int) -> bool:
        topic = f"{name}-{number}"
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            was_cancelled = await _cancelled(admin.create_topics(NewTopic(topic, partitions=2)), number)
            with contextlib.suppress(KafkaError):  # it may exist
                await admin.create_topics(NewTopic(topic, partitions=2))
            assert len((await admin.describe_topics(topic)).partitions) == 2
        return was_cancelled

    at_each_await(attempt, least=4)


def test_a_group(broker: EmbeddedBroker, name: str) -> None:
    """Each record is handed out once, and what was committed is where the next member goes on."""
    fill(broker, name)

    async def attempt(number: int) -> bool:
        seen: list[bytes | None] = []
        settings = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}
        async with aio.GroupConsumer(
            name, settings, group_id=f"{name}-{number}", enable_auto_commit=False, max_poll_records=2
        ) as consumer:

            async def read() -> None:
                async for message in consumer:
                    seen.append(message.value)
                    await consumer.commit(message)
                    if len(seen) == RECORDS:
                        return

            was_cancelled = await _cancelled(read(), number)
            if len(seen) < RECORDS:
                await read()
            assert seen == ALL
            await consumer.commit()  # a commit that was cancelled may be under way
            committed = await consumer.committed()
            assert [position.offset for position in committed.values() if position] == [RECORDS]
        return was_cancelled

    at_each_await(attempt, least=4)


def test_partitions(broker: EmbeddedBroker, name: str) -> None:
    """Each record is handed out once, in order, and a seek has been done or has not."""
    fill(broker, name)

    async def attempt(number: int) -> bool:
        seen: list[bytes | None] = []
        async with aio.PartitionConsumer(
            bootstrap_servers=broker.bootstrap, fetch_message_max_bytes=100, fetch_wait_max_ms=10
        ) as consumer:

            async def read() -> None:
                if not consumer.readers:
                    await consumer.consume_partition(name, 0, timedelta(days=1))
                async for message in consumer:
                    seen.append(message.value)
                    if len(seen) >= RECORDS:
                        break
                await consumer.tail(RECORDS)

            was_cancelled = await _cancelled(read(), number)
            if len(seen) < RECORDS:
                await read()
            assert seen == ALL
            await consumer.tail(1)
            async for message in consumer:
                assert message.value == ALL[-1]
                break
        return was_cancelled

    at_each_await(attempt, least=4)


def test_the_end_of_partitions(broker: EmbeddedBroker, name: str) -> None:
    """No task and no connection is left, and a second close has nothing to do."""
    fill(broker, name)

    async def attempt(number: int) -> bool:
        consumer = aio.PartitionConsumer(bootstrap_servers=broker.bootstrap)
        await consumer.consume_partition(name, 0, "earliest")
        async for _ in consumer:
            break
        was_cancelled = await _cancelled(consumer.close(), number)
        await consumer.close()
        return was_cancelled

    at_each_await(attempt, least=1)


def test_a_share_group(broker: EmbeddedBroker, name: str) -> None:
    """Each record is delivered once and accepted: nobody gets it again."""
    fill(broker, name)

    async def attempt(number: int) -> bool:
        group = f"{name}-{number}"
        configure_group(broker.bootstrap, group)
        seen: list[bytes | None] = []
        async with _sharing(broker, name, group) as consumer:

            async def read() -> None:
                async for message in consumer:
                    seen.append(message.value)
                    assert consumer.delivery_count(message) == 1
                    consumer.accept(message)
                    if len(seen) % 2:
                        await consumer.commit()
                    if len(seen) == RECORDS:
                        return

            was_cancelled = await _cancelled(read(), number)
            if len(seen) < RECORDS:
                await read()
            assert seen == ALL
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            starts = await admin.share_group_offsets(group)
        assert [start.start for start in starts.values()] == [RECORDS]
        return was_cancelled

    at_each_await(attempt, least=4)


def test_the_end_of_a_share_consumer(broker: EmbeddedBroker, name: str) -> None:
    """What was accepted stays so, and what was not read is free for others at once."""
    fill(broker, name)

    async def attempt(number: int) -> bool:
        group = f"{name}-{number}"
        configure_group(broker.bootstrap, group)
        first = _sharing(broker, name, group)
        async for message in first:
            first.accept(message)
            break
        was_cancelled = await _cancelled(first.close(), number)
        async with _sharing(broker, name, group) as second:
            async for message in second:
                second.accept(message)
                assert message.value != ALL[0]
                if message.value == ALL[-1]:
                    break
        return was_cancelled

    at_each_await(attempt, least=1)


def _sharing(broker: EmbeddedBroker, topic: str, group: str) -> aio.ShareConsumer:
    return aio.ShareConsumer(
        topic,
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        share_acknowledgement_mode="explicit",
        max_poll_records=2,
        fetch_max_wait_ms=20,
    )
