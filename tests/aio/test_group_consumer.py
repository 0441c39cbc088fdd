"""Members of groups on an event loop: cancellation, async listeners, both protocols."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator

import pytest

from ottla import ConfigError, EmbeddedBroker, Producer, TopicAndPartition, aio
from ottla.aio import group_consumer
from tests.aio.conftest import run
from tests.waiting import PATIENCE_S

RECORDS = 2_000


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        one.create_topic("orders", partitions=2)
        with Producer(bootstrap_servers=one.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("orders", b"%d" % number, partition=number % 2)
        yield one


def member(broker: EmbeddedBroker, group: str, **settings: object) -> aio.GroupConsumer:
    quick = {"fetch_wait_max_ms": 20, "heartbeat_interval_ms": 50, "auto_offset_reset": "earliest"}
    if settings.get("group_protocol") == "consumer":
        del quick["heartbeat_interval_ms"]
    return aio.GroupConsumer(
        "orders",
        group_id=group,
        bootstrap_servers=broker.bootstrap,
        **{"enable_auto_commit": False, **quick, **settings},  # type: ignore[arg-type]
    )


def test_the_group_is_a_keyword(broker: EmbeddedBroker) -> None:
    async def make() -> None:
        with pytest.raises(ConfigError, match="'billing': the group is a keyword"):
            aio.GroupConsumer("orders", "billing", bootstrap_servers=broker.bootstrap)  # type: ignore[arg-type]

    run(make)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_is_cancelled_again_and_again_sees_each_record_once(
    broker: EmbeddedBroker, protocol: str
) -> None:
    chance = random.Random(7)

    async def take(consumer: aio.GroupConsumer, seen: list[int]) -> None:
        async for message in consumer:
            seen.append(int(message.value or b""))
            if not len(seen) % 100:
                await consumer.commit(message)

    async def read() -> list[int]:
        seen: list[int] = []
        async with member(
            broker, f"cancelled-{protocol}", group_protocol=protocol, fetch_message_max_bytes=2_000
        ) as consumer:
            while len(seen) < RECORDS:
                task = asyncio.create_task(take(consumer, seen))
                await asyncio.sleep(chance.choice([0, 0.001, 0.01]))
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        return seen

    assert sorted(run(read)) == [*range(RECORDS)]


def test_a_listener_commits_before_its_partitions_go(broker: EmbeddedBroker) -> None:
    class Committing(aio.RebalanceListener):
        consumer: aio.GroupConsumer
        told: list[str]

        async def on_assigned(self, partitions: frozenset[TopicAndPartition]) -> None:
            for partition in partitions:
                await self.consumer.seek(partition, 500)
            self.told.append("assigned")

        async def on_revoked(self, partitions: frozenset[TopicAndPartition]) -> None:
            await self.consumer.commit()
            self.told.append(f"{len(partitions)} revoked")

    async def read() -> tuple[list[str], dict[TopicAndPartition, int]]:
        listener = Committing()
        listener.told = []
        listener.consumer = member(broker, "listening", listener=listener)
        offsets = set()
        async with listener.consumer as consumer:
            async for message in consumer.messages(timeout=2):
                offsets.add(message.offset)
                if len(offsets) == 500:  # the second half of both partitions
                    break
        assert min(offsets) == 500
        async with member(broker, "listening") as other:
            places = [TopicAndPartition("orders", number) for number in range(2)]
            stored = await other.committed(places)
        return listener.told, {place: position.offset for place, position in stored.items()}

    told, stored = run(read)
    assert told == ["assigned", "2 revoked"]
    assert sum(stored.values()) >= 1_500


def test_a_callback_of_a_commit_is_called_while_a_poll_waits(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_consumer, "IDLE_MS", 1e9)

    async def commit() -> None:
        called = asyncio.Event()
        async with member(broker, "called back", max_poll_interval_ms=3_600_000) as consumer:
            while (chunk := await consumer.poll(PATIENCE_S)) is not None:
                if sum(consumer.position(place) for place in consumer.assignment) == RECORDS:
                    break
            assert chunk is not None
            waiting = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0)
            consumer.commit_async(chunk, lambda *_: called.set())
            async with asyncio.timeout(PATIENCE_S):
                await called.wait()
            waiting.cancel()

    run(commit)


def test_an_end_that_is_cancelled_commits_and_leaves(broker: EmbeddedBroker) -> None:
    async def close() -> int:
        consumer = member(broker, "ended", enable_auto_commit=True)
        chunk = await consumer.poll(10)
        assert chunk is not None
        task = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with member(broker, "ended") as other:  # at once: the first has left
            again = await other.poll(10)
            assert again is not None
            stored = await other.committed()
        return stored[chunk.topic_partition].offset - chunk.next_offset

    assert run(close) == 0
