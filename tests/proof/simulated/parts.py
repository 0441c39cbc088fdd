"""The processes of the simulated system. Each notes in the account what it does and what it is told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from ottla import KafkaError, TopicAndPartition, aio
from ottla.admin import NewTopic
from ottla.testing.simulation import Simulation
from tests.proof.checker import Outcome, Placed, Transaction
from tests.proof.simulated.account import Account, Places

PLAIN, EXACT, COPIERS = "plain", "exact", "copiers"
PARTITIONS = 2
PLACES = tuple(TopicAndPartition(topic, at) for topic in (PLAIN, EXACT) for at in range(PARTITIONS))
MADE = tuple(f"made-{number}" for number in range(3))
SETTINGS = {"fetch_max_wait_ms": 15_000, "request_timeout_ms": 20_000}

Main = Callable[[], Coroutine[Any, Any, None]]


def writer(sim: Simulation, account: Account, name: str, is_over: asyncio.Event, pause_s: float) -> Main:
    """Sends records one by one or some at once, with a pause between."""

    async def send(producer: aio.Producer, life: str, number: int) -> None:
        place = TopicAndPartition(PLAIN, random.randrange(PARTITIONS))
        value = f"{life}.{number}"
        account.sent(life, place, value)
        delivery = await producer.send(PLAIN, value, partition=place.partition)
        account.acked(value, (await delivery).offset)

    async def main() -> None:
        life = f"{name}.{account.new_life(name)}"
        number = 0
        async with aio.Producer(bootstrap_servers=sim.bootstrap, delivery_timeout_ms=60_000) as producer:
            while not is_over.is_set():
                count = random.choice((1, 1, 1, 5))
                # Tasks begin in order, so the sends are in order too.
                await asyncio.gather(*(send(producer, life, number + each) for each in range(count)))
                number += count
                await asyncio.sleep(random.expovariate(1 / pause_s))

    return main


class _Watched(aio.RebalanceListener):
    """Begins a new list of what is seen with each assignment."""

    def __init__(self, account: Account, group: str, life: str) -> None:
        self.seen: Places = {}
        self.consumer: aio.GroupConsumer | None = None
        self._account = account
        self._group = group
        self._life = life

    async def on_assigned(self, partitions: frozenset[TopicAndPartition]) -> None:
        assert self.consumer is not None
        generation = self.consumer.membership.generation
        self.seen |= self._account.assigned(self._group, self._life, generation, partitions)


def member(sim: Simulation, account: Account, group: str, name: str, **settings: object) -> Main:
    """A member of a group of any protocol: works on each record, then commits."""

    async def main() -> None:
        life = f"{name}.{account.new_life(name)}"
        listener = _Watched(account, group, life)
        async with aio.GroupConsumer(
            PLAIN,
            {**SETTINGS, **settings},
            group_id=group,
            bootstrap_servers=sim.bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            listener=listener,
        ) as consumer:
            listener.consumer = consumer
            async for message in consumer:
                place = TopicAndPartition(message.topic, message.partition)
                value = (message.value or b"").decode()
                listener.seen[place].append(Placed(message.offset, value))
                await asyncio.sleep(random.expovariate(20))
                account.worked(group, value)
                number = account.ordered((group, place), message.offset + 1)
                await consumer.commit(message)
                account.done(number)

    return main


def sharer(sim: Simulation, account: Account, group: str, name: str) -> Main:
    """A member of a share group: accepts most records, releases some."""

    async def main() -> None:
        account.new_life(name)
        async with aio.ShareConsumer(
            PLAIN,
            {**SETTINGS, "share_acknowledgement_mode": "explicit"},
            group_id=group,
            bootstrap_servers=sim.bootstrap,
        ) as consumer:
            rows, asked_at = aiter(consumer), account.step()
            while True:
                began_at, before_s = account.step(), sim.now_s
                message = await anext(rows)
                if sim.now_s > before_s:  # else it came with the last answer
                    asked_at = began_at
                place = TopicAndPartition(message.topic, message.partition)
                value = (message.value or b"").decode()
                account.delivered(group, place, value, asked_at)
                await asyncio.sleep(random.expovariate(20))
                if random.random() < 0.1:
                    consumer.release(message)
                    continue
                account.worked(group, value)
                consumer.accept(message)
                await consumer.commit()
                account.confirmed(group, place, value)

    return main


def copier(sim: Simulation, account: Account, name: str) -> Main:
    """Reads records, and writes one for each with the position, in transactions."""

    async def copy(consumer: aio.GroupConsumer, producer: aio.Producer, life: int) -> None:
        chunk = await consumer.poll(10)
        if chunk is None:
            return
        place = chunk.topic_partition
        offsets = chunk.batch.column("offset").to_pylist()
        number = account.step()
        target = TopicAndPartition(EXACT, place.partition)
        values = [f"{number}.{offset}" for offset in offsets]
        transaction = Transaction(
            name, life, number, {target: values}, {place: (offsets[0], chunk.next_offset)}
        )
        account.transactions.append(transaction)
        await producer.begin()
        for value in values:
            await producer.send(EXACT, value, partition=target.partition)
        await producer.send_offsets(chunk, consumer)
        if random.random() < 0.1:
            await producer.abort()
            transaction.outcome = Outcome.ABORTED
            await consumer.seek(place, offsets[0])
        else:
            await producer.commit()
            transaction.outcome = Outcome.COMMITTED

    async def main() -> None:
        life = account.new_life(name)
        began = account.step()
        async with (
            aio.GroupConsumer(
                PLAIN,
                SETTINGS,
                group_id=COPIERS,
                bootstrap_servers=sim.bootstrap,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            ) as consumer,
            aio.Producer(
                bootstrap_servers=sim.bootstrap, transactional_id=name, transaction_timeout_ms=30_000
            ) as producer,
        ):
            await producer.init_transactions()
            account.takeovers[name, life] = began, account.step()
            while True:
                await copy(consumer, producer, life)

    return main


def administrator(sim: Simulation, account: Account, is_over: asyncio.Event, pause_s: float) -> Main:
    """Makes and deletes topics; names come again."""

    async def main() -> None:
        async with aio.Admin(bootstrap_servers=sim.bootstrap) as admin:
            while not is_over.is_set():
                name = random.choice(MADE)
                count = random.randint(1, 3)
                is_there = name in await admin.list_topics()
                number = account.ordered(("topic", name), None if is_there else count)
                try:
                    await (
                        admin.delete_topics(name) if is_there else admin.create_topics(NewTopic(name, count))
                    )
                except KafkaError:
                    pass  # a try before it, whose answer was lost, has done it
                else:
                    account.done(number)
                await asyncio.sleep(random.expovariate(1 / pause_s))

    return main
