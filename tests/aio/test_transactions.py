"""Transactions of the asyncio producer that are cancelled; the rest is in tests/producer, over both faces."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from ottla import EmbeddedBroker, aio, replay
from ottla.producer import transaction_link
from tests.aio.conftest import run
from tests.naming import new_topic
from tests.waiting import wait_for

ROUNDS = 30


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture(params=["implicit", "older"])
def bootstrap(request: pytest.FixtureRequest, broker: EmbeddedBroker) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "older":
            patch.setattr(transaction_link, "IMPLICIT_SINCE", 1_000)
        yield broker.bootstrap


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    return new_topic(broker, request, 2)


def committed(bootstrap: str, topic: str) -> list[bytes]:
    table = replay(topic, bootstrap_servers=bootstrap, isolation_level="read_committed").to_table()
    values: list[bytes] = table["value"].to_pylist()
    return values


def test_a_transaction_that_is_cancelled_anywhere_is_whole_or_not_there(bootstrap: str, topic: str) -> None:
    """Each has two records, in two partitions. One that is cancelled may be committed; never half of it."""
    chance = random.Random(20)

    async def one(producer: aio.Producer, number: int) -> None:
        async with producer.transaction():
            for partition in range(2):
                await producer.send(topic, f"{number}", partition=partition)

    async def work() -> set[int]:
        done = set()
        async with aio.Producer(bootstrap_servers=bootstrap, transactional_id=f"id-{topic}") as producer:
            for number in range(ROUNDS):
                task = asyncio.create_task(one(producer, number))
                await asyncio.sleep(chance.choice([0, 0.001, 0.004, 0.02]))
                task.cancel()
                try:
                    await task
                    done.add(number)
                except asyncio.CancelledError:
                    pass
            await one(producer, ROUNDS)
        return done | {ROUNDS}

    done = run(work)
    wait_for(lambda: committed(bootstrap, topic).count(f"{ROUNDS}".encode()) == 2)
    values = committed(bootstrap, topic)
    assert all(values.count(value) == 2 for value in values), values
    assert done <= {int(value) for value in values}
