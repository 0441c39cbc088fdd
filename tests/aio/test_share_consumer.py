"""Polls of a share group that are cancelled; the rest is in tests/consumer/share, over both faces."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from ottla import EmbeddedBroker, aio
from tests.aio.conftest import run
from tests.broker.real_clients import send
from tests.broker.share_groups.share_member import configure_group


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders")
        configure_group(broker.bootstrap, "orders")
        send(broker.bootstrap, "orders", [b"%d" % number for number in range(10)])
        yield broker.bootstrap


def test_polls_that_are_cancelled_again_and_again_get_each_record_once(bootstrap: str) -> None:
    chance = random.Random(20)
    counts: Counter[int] = Counter()

    async def take(consumer: aio.ShareConsumer) -> None:
        async for message in consumer:
            counts[message.offset] += 1
            assert consumer.delivery_count(message) == 1
            consumer.accept(message)
            if chance.random() < 0.3:
                await asyncio.sleep(0)

    async def work() -> None:
        async with aio.ShareConsumer(
            "orders",
            group_id="orders",
            bootstrap_servers=bootstrap,
            share_acknowledgement_mode="explicit",
            max_poll_records=3,
            fetch_max_wait_ms=20,
        ) as consumer:
            while len(counts) < 10:
                task = asyncio.create_task(take(consumer))
                await asyncio.sleep(chance.choice([0, 0.0005, 0.002, 0.02]))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await consumer.commit()

    run(work)
    assert counts == dict.fromkeys(range(10), 1)
