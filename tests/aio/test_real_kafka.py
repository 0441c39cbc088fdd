"""The asyncio clients on Apache Kafka 4: records, groups of both protocols, positions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla import aio
from tests.aio.conftest import run
from tools.peers import KAFKA_4, RealKafka

COUNT = 1_000


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_records_go_through_a_real_broker(real_kafka: Callable[[str], RealKafka], protocol: str) -> None:
    bootstrap, topic = real_kafka(KAFKA_4).bootstrap, f"aio-{protocol}"

    async def exchange() -> tuple[list[int], list[int], int]:
        async with aio.Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(COUNT):
                delivery = await producer.send(topic, str(number), partition=0)
            assert (await delivery).offset == COUNT - 1
        seen: list[int] = []
        async with aio.GroupConsumer(
            topic,
            group_id=topic,
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_protocol=protocol,
        ) as consumer:
            async for message in consumer:
                seen.append(int(message.value or b""))
                if len(seen) == COUNT:
                    await consumer.commit()
                    break
            stored = sum(position.offset for position in (await consumer.committed()).values())
        async with aio.PartitionConsumer(bootstrap_servers=bootstrap) as reading:
            reader = await reading.consume_partition(topic, 0, "earliest")
            await reader.tail(3)
            last = [message.offset async for message in reader.messages(timeout=2)]
        return seen, last, stored

    seen, last, stored = run(exchange)
    assert seen == [*range(COUNT)]
    assert last == [COUNT - 3, COUNT - 2, COUNT - 1]
    assert stored == COUNT
