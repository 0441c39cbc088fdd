"""aiokafka: transactions. All of it runs on one event loop, since a producer outlives a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

SECONDS = 30


class _Session:
    def __init__(self, loop: asyncio.Runner, producer: AIOKafkaProducer) -> None:
        self._loop = loop
        self._producer = producer

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes) -> None:
        self._loop.run(self._producer.send_and_wait(topic, value))

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        positions = {TopicPartition(topic, 0): offset}
        self._loop.run(self._producer.send_offsets_to_transaction(positions, group))

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run(self._producer.stop())


class Aiokafka:
    """See transaction_steps.Library."""

    def __init__(self, bootstrap: str, create: Callable[[str], Awaitable[None]]) -> None:
        self._bootstrap = bootstrap
        self._create = create
        self._loop = asyncio.Runner()

    def create(self, topic: str) -> None:
        async def made() -> None:
            await self._create(topic)

        self._loop.run(made())

    def open(self, transactional_id: str, timeout_ms: int = 60_000) -> _Session:
        async def started() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await producer.start()
            return producer

        return _Session(self._loop, self._loop.run(started()))

    def write(self, topic: str, value: bytes) -> None:
        async def sent() -> None:
            async with AIOKafkaProducer(bootstrap_servers=self._bootstrap) as producer:
                await producer.send_and_wait(topic, value)

        self._loop.run(sent())

    def read(self, topic: str, count: int) -> list[bytes]:
        async def values() -> list[bytes]:
            async with self._consumer(None) as reader:
                reader.assign([TopicPartition(topic, 0)])
                async with asyncio.timeout(SECONDS):
                    return [(await reader.getone()).value for _ in range(count)]

        return self._loop.run(values())

    def position(self, group: str, topic: str) -> int:
        async def found() -> int:
            async with self._consumer(group) as reader:
                return int(await reader.committed(TopicPartition(topic, 0)) or -1)

        return self._loop.run(found())

    def _consumer(self, group: str | None) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )
