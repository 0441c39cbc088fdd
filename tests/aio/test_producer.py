"""The asyncio producer: records arrive once and in order, through faults, full memory and cancellations."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from ottla import BufferFull, ConfigError, EmbeddedBroker, ProducerClosed, RecordTooLarge, aio
from tests.aio.conftest import run, values


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(num_partitions=2) as one:
        yield one


def test_a_delivery_is_awaited(broker: EmbeddedBroker) -> None:
    async def send() -> tuple[aio.Delivery, int]:
        async with aio.Producer(bootstrap_servers=broker.bootstrap, value_serializer=str.encode) as producer:
            delivery = await producer.send("one", "tea", key="k", headers={"h": b"1"}, partition=1)
            metadata = await delivery
            assert (metadata.topic, metadata.partition, metadata.offset) == ("one", 1, 0)
            seen: list[int] = []
            await producer.send(
                "one", "cake", partition=1, on_delivery=lambda one: seen.append(one.result().offset)
            )
            await producer.flush()
            assert seen == [1]
            last = await producer.send("one", "milk", partition=1)
        return last, (await last).offset  # `close` has sent it

    last, offset = run(send)
    assert last.done()
    assert offset == 2
    assert values(broker, "one", 1) == [b"tea", b"cake", b"milk"]


def test_after_the_end_of_its_loop_a_producer_takes_nothing(broker: EmbeddedBroker) -> None:
    """Before, a send on another loop was accepted, and nothing sent it."""

    async def begin() -> aio.Producer:
        producer = aio.Producer(bootstrap_servers=broker.bootstrap)
        await (await producer.send("loops", "tea"))
        return producer

    producer = asyncio.run(begin())

    async def go_on() -> None:
        with pytest.raises(ProducerClosed, match="the event loop of this producer has ended"):
            await producer.send("loops", "cake")

    asyncio.run(go_on())


def test_rows_and_columns_of_one_topic_keep_their_order(broker: EmbeddedBroker) -> None:
    broker.create_topic("mixed")

    async def send() -> None:
        async with aio.Producer(bootstrap_servers=broker.bootstrap, linger_ms=50) as producer:
            for number in range(0, 300, 3):
                await producer.send("mixed", str(number))
                batch = await producer.send_batch(
                    "mixed", pa.table({"value": [str(number + 1), str(number + 2)]})
                )
                assert len(batch) == 2
            offsets = await batch
            assert offsets["offset"].to_pylist() == [298, 299]

    run(send)
    assert [int(value) for value in values(broker, "mixed", 0)] == [*range(300)]


def test_lists_are_sent_in_order(broker: EmbeddedBroker) -> None:
    async def send() -> None:
        async with aio.Producer(bootstrap_servers=broker.bootstrap, value_serializer=str) as producer:
            delivery = await producer.send_many("lists", range(100), [b"k"] * 100, partition=1)
            assert (await delivery)["offset"].to_pylist() == [*range(100)]

    run(send)
    assert [int(value) for value in values(broker, "lists", 1)] == [*range(100)]


@pytest.mark.parametrize("seed", range(2))
def test_through_faults_each_record_is_stored_once_and_in_order(broker: EmbeddedBroker, seed: int) -> None:
    topic, count, chance = f"faults-{seed}", 2_000, random.Random(seed)
    broker.create_topic(topic)

    async def send() -> None:
        async with aio.Producer(
            bootstrap_servers=broker.bootstrap,
            linger_ms=1,
            retry_backoff_max_ms=10,
            reconnect_backoff_max_ms=10,
        ) as producer:
            for number in range(count):
                await producer.send(topic, str(number))
                if not number % 250:
                    await asyncio.sleep(0.01)
                    broker.drop("Produce", handled=chance.random() < 0.5)
                    broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER")

    run(send)
    broker.clear_faults()
    assert [int(value) for value in values(broker, topic, 0)] == [*range(count)]


def test_a_full_memory_holds_the_sender_back_and_nobody_else(broker: EmbeddedBroker) -> None:
    broker.create_topic("full")

    async def send() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        async with aio.Producer(
            bootstrap_servers=broker.bootstrap, buffer_memory=200_000, batch_size=50_000
        ) as producer:
            broker.delay("Produce", 0.1, times=3)
            for number in range(300):
                await producer.send("full", b"%05d" % number + b"x" * 10_000)
            before = ticks
        ticking.cancel()
        return before

    assert run(send) > 20
    assert [int(value[:5]) for value in values(broker, "full", 0)] == [*range(300)]


def test_memory_that_stays_full_and_records_too_large_are_refused(broker: EmbeddedBroker) -> None:
    broker.create_topic("refused")

    async def send() -> None:
        async with aio.Producer(
            bootstrap_servers=broker.bootstrap, buffer_memory=100_000, max_block_ms=100, batch_size=20_000
        ) as producer:
            await (await producer.send("refused", b"first"))
            broker.delay("Produce", 1.0, times=-1)
            with pytest.raises(RecordTooLarge):
                await producer.send("refused", b"x" * 200_000)
            with pytest.raises(BufferFull, match=r"buffer\.memory"):
                await asyncio.gather(*(producer.send("refused", b"x" * 10_000) for _ in range(100)))
            broker.clear_faults()
        with pytest.raises(ProducerClosed):
            await producer.send("refused", b"late")

    run(send)


def test_a_cancelled_send_is_accepted_or_not_and_nothing_is_left(broker: EmbeddedBroker) -> None:
    broker.create_topic("cancelled")

    async def send() -> list[bytes]:
        chance, accepted = random.Random(1), []
        async with aio.Producer(
            bootstrap_servers=broker.bootstrap, buffer_memory=60_000, batch_size=10_000
        ) as producer:
            broker.delay("Produce", 0.02, times=10)

            async def one(number: int) -> None:
                value = b"%04d" % number + b"x" * 5_000
                await producer.send("cancelled", value)
                accepted.append(value[:4])

            for number in range(150):
                task = asyncio.create_task(one(number))
                await asyncio.sleep(chance.choice([0, 0, 0.002]))
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        return accepted

    accepted = run(send)
    assert [value[:4] for value in values(broker, "cancelled", 0)] == accepted
    assert accepted


def test_an_end_that_is_cancelled_gives_up_and_leaves_nothing(broker: EmbeddedBroker) -> None:
    async def close() -> None:
        producer = aio.Producer(bootstrap_servers=broker.bootstrap)
        broker.delay("Produce", 5.0)
        delivery = await producer.send("given-up", b"1")
        task = asyncio.create_task(producer.close())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert isinstance(await delivery.exception(), ProducerClosed)

    run(close)
    broker.clear_faults()


def test_settings_that_are_not_served_are_refused() -> None:
    async def make() -> None:
        async with aio.Producer(bootstrap_servers="127.0.0.1:1") as producer:
            with pytest.raises(ConfigError, match=r"transactional\.id"):
                await producer.begin()
        with pytest.raises(ConfigError, match="key_serializer"):
            aio.Producer(bootstrap_servers="127.0.0.1:1", key_serializer=1)  # type: ignore[arg-type]

    run(make)


def test_rows_survive_faults_in_order_and_once(broker: EmbeddedBroker) -> None:
    topic = "rows-and-faults"
    broker.create_topic(topic)
    sent = [b"%d" % number for number in range(200)]

    async def send() -> None:
        async with aio.Producer(
            bootstrap_servers=broker.bootstrap, batch_size=200, retry_backoff_ms=5, reconnect_backoff_ms=5
        ) as producer:
            for number, value in enumerate(sent):
                if number == 50:
                    broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
                elif number == 100:
                    broker.drop("Produce", times=2, handled=True)
                elif number == 150:
                    broker.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2)
                delivery = await producer.send(topic, value, partition=0)
                if number % 50 == 49:
                    await delivery

    run(send)
    assert values(broker, topic, 0) == sent
