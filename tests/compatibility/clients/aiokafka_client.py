"""aiokafka: every step of the matrix that it has calls for."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError
from aiokafka_transactions import Aiokafka
from steps import CODECS, PARTITIONS, Row, in_order, restart, run, same, sample
from transaction_steps import transaction_steps

BOOTSTRAP, PREFIX = sys.argv[1:3]
TOPIC, GROUP = f"{PREFIX}-topic", f"{PREFIX}-group"
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


@asynccontextmanager
async def producer(**settings: Any) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, linger_ms=5, **settings) as sender:
        yield sender


@asynccontextmanager
async def consumer(*topics: str, group: str | None = None) -> AsyncIterator[AIOKafkaConsumer]:
    async with AIOKafkaConsumer(
        *topics,
        bootstrap_servers=BOOTSTRAP,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
        fetch_max_wait_ms=100,
        retry_backoff_ms=50,
    ) as member:
        yield member


@asynccontextmanager
async def admin() -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def until(condition: Callable[[], Awaitable[Any]], what: str) -> None:
    deadline = time.monotonic() + 30
    while not await condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within 30 s")
        await asyncio.sleep(0.02)


async def send(to: AIOKafkaProducer, topic: str, rows: list[Row]) -> None:
    sent = [
        await to.send(
            topic,
            partition=row.partition,
            timestamp_ms=row.time_ms,
            key=row.key,
            value=row.value,
            headers=list(row.headers),
        )
        for row in rows
    ]
    await asyncio.wait_for(asyncio.gather(*sent), 20)


async def send_once(topic: str, rows: list[Row], **settings: Any) -> None:
    async with producer(**settings) as sender:
        await send(sender, topic, rows)


async def read(member: AIOKafkaConsumer, count: int) -> list[Row]:
    rows: list[Row] = []

    async def enough() -> bool:
        for batch in (await member.getmany(timeout_ms=200)).values():
            rows.extend(Row(got.partition, got.timestamp, got.key, got.value, got.headers) for got in batch)
        return len(rows) >= count

    await until(enough, f"{count} records")
    return in_order(rows)


async def read_all(topic: str, count: int) -> list[Row]:
    async with consumer() as reader:
        reader.assign([TopicPartition(topic, each) for each in range(PARTITIONS)])
        return await read(reader, count)


async def create(topic: str, partitions: int = PARTITIONS, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    async with admin() as client:
        answer = await client.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])
    if answer.topic_errors[0][1] == TopicAlreadyExistsError.errno:
        raise TopicAlreadyExistsError
    same(answer.topic_errors[0][1], 0, "error")


async def topics() -> list[str]:
    async with admin() as client:
        return list(await client.list_topics())


async def partition_count(topic: str) -> int:
    async with admin() as client:
        return len((await client.describe_topics([topic]))[0]["partitions"])


async def create_topic() -> None:
    await create(TOPIC)

    async def is_listed() -> bool:
        return TOPIC in await topics()

    await until(is_listed, "the topic in the metadata")
    try:
        await create(TOPIC)
    except TopicAlreadyExistsError:
        return
    raise AssertionError("a second creation was accepted")


async def auto_creation() -> None:
    await send_once(f"{PREFIX}-auto", [Row(0, 1, b"k", b"v")])
    same(await partition_count(f"{PREFIX}-auto"), 1, "partitions")


async def codec(name: str) -> None:
    topic = f"{PREFIX}-{name}"
    await create(topic)
    await send_once(topic, sample(), compression_type=None if name == "none" else name)
    same(await read_all(topic, 30), in_order(sample()), "records")


async def idempotent() -> None:
    topic = f"{PREFIX}-idempotent"
    await create(topic)
    await send_once(topic, sample(), enable_idempotence=True)
    same(await read_all(topic, 30), in_order(sample()), "records")


async def too_large() -> None:
    topic = f"{PREFIX}-large"
    await create(topic, max_message_bytes="2000")
    try:
        await send_once(topic, [Row(0, 1, None, b"x" * 5000)])
    except MessageSizeTooLargeError:
        return
    raise AssertionError("a record above max.message.bytes was accepted")


async def offsets_for_times() -> None:
    partitions = [TopicPartition(f"{PREFIX}-none", each) for each in range(PARTITIONS)]
    async with consumer() as reader:
        found = await reader.offsets_for_times(dict.fromkeys(partitions, sample()[15].time_ms))
        same([found[each].offset for each in partitions], [5, 5, 5], "offsets")
        same(await reader.end_offsets(partitions), dict.fromkeys(partitions, 10), "end offsets")
        same(await reader.beginning_offsets(partitions), dict.fromkeys(partitions, 0), "first offsets")


async def committed(member: AIOKafkaConsumer, topic: str) -> list[int | None]:
    return [await member.committed(TopicPartition(topic, each)) for each in range(PARTITIONS)]


async def group_commit() -> None:
    await send_once(TOPIC, sample())
    async with consumer(TOPIC, group=GROUP) as member:
        same(await read(member, 30), in_order(sample()), "records")
        await member.commit()
        same(await committed(member, TOPIC), [10, 10, 10], "committed")
    async with consumer(TOPIC, group=GROUP) as again:
        await send_once(TOPIC, sample(3))
        same(await read(again, 3), in_order(sample(3)), "records behind the commit")
        await again.commit()


async def rebalance() -> None:
    topic = f"{PREFIX}-rebalance"
    await create(topic, 4)

    def owned(*members: AIOKafkaConsumer) -> list[list[int]]:
        return [sorted(each.partition for each in member.assignment()) for member in members]

    async with consumer(topic, group=topic) as first:

        async def has_all() -> bool:
            return owned(first) == [[0, 1, 2, 3]]

        await until(has_all, "all partitions with one member")
        async with consumer(topic, group=topic) as second:

            async def is_shared() -> bool:
                return [len(own) for own in owned(first, second)] == [2, 2]

            await until(is_shared, "two partitions each")
            same(sorted(chain(*owned(first, second))), [0, 1, 2, 3], "partitions of both")
        await until(has_all, "all partitions with the one that stays")


async def go_on_after_restart() -> None:
    topic = f"{PREFIX}-restart"
    await create(topic)
    async with producer() as sender, consumer(topic, group=topic) as member:
        await send(sender, topic, sample())
        await read(member, 30)
        await member.commit()
        await asyncio.to_thread(restart)
        await send(sender, topic, sample(6))
        same(await read(member, 6), in_order(sample(6)), "records behind the restart")
        await member.commit()
        same(await committed(member, topic), [12, 12, 12], "committed")


async def describe_cluster() -> None:
    async with admin() as client:
        found = await client.describe_cluster()
    same([f"{node['host']}:{node['port']}" for node in found["brokers"]], [BOOTSTRAP], "nodes")
    same(found["controller_id"], found["brokers"][0]["node_id"], "controller")


async def describe_topic() -> None:
    async with admin() as client:
        found = (await client.describe_topics([TOPIC]))[0]
    same(sorted(part["partition"] for part in found["partitions"]), [0, 1, 2], "partitions")
    same([len(part["isr"]) for part in found["partitions"]], [1, 1, 1], "replicas in sync")


async def configs(kind: ConfigResourceType, name: str) -> dict[str, str]:
    async with admin() as client:
        answer = (await client.describe_configs([ConfigResource(kind, name)]))[0]
    same(answer.resources[0][0], 0, "error")
    return {entry[0]: entry[1] for entry in answer.resources[0][4]}


async def describe_config() -> None:
    same((await configs(ConfigResourceType.TOPIC, TOPIC))["cleanup.policy"], "delete", "cleanup.policy")
    async with admin() as client:
        node = str((await client.describe_cluster())["brokers"][0]["node_id"])
    same((await configs(ConfigResourceType.BROKER, node))["num.partitions"], "1", "num.partitions")


async def alter_config() -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "12345678"})
    async with admin() as client:
        answer = (await client.alter_configs([resource]))[0]
    same(answer.resources[0][0], 0, "error")

    async def is_set() -> bool:
        return (await configs(ConfigResourceType.TOPIC, TOPIC))["retention.ms"] == "12345678"

    await until(is_set, "the new value")


async def create_partitions() -> None:
    topic = f"{PREFIX}-more"
    await create(topic, 1)
    async with admin() as client:
        await client.create_partitions({topic: NewPartitions(4)})

    async def has_four() -> bool:
        return await partition_count(topic) == 4

    await until(has_four, "4 partitions")


async def delete_records() -> None:
    part = TopicPartition(f"{PREFIX}-gzip", 0)
    async with admin() as client:
        same(
            await client.delete_records({part: RecordsToDelete(before_offset=4)}), {part: 4}, "low watermark"
        )
    async with consumer() as reader:
        same(await reader.beginning_offsets([part]), {part: 4}, "first offset")


async def list_groups() -> None:
    async with admin() as client:
        same(GROUP in [each[0] for each in await client.list_consumer_groups()], True, "listed")


async def describe_group() -> None:
    group = f"{PREFIX}-described"
    async with consumer(TOPIC, group=group) as member, admin() as client:

        async def is_assigned() -> bool:
            return len(member.assignment()) == 3

        await until(is_assigned, "an assignment")
        answer = (await client.describe_consumer_groups([group]))[0].groups[0]
    same((answer[0], answer[1], answer[2], len(answer[5])), (0, group, "Stable", 1), "the group")


async def group_offsets() -> None:
    async with admin() as client:
        found = await client.list_consumer_group_offsets(GROUP)
    offsets = sorted((part.partition, each.offset) for part, each in found.items())
    same(offsets, [(0, 11), (1, 11), (2, 11)], "offsets")


async def delete_topic() -> None:
    async with admin() as client:
        await client.delete_topics([TOPIC])

    async def is_gone() -> bool:
        return TOPIC not in await topics()

    await until(is_gone, "the topic gone from the metadata")


STEPS: list[tuple[str, Callable[[], Awaitable[None]]]] = [
    ("create a topic", create_topic),
    ("create a topic by producing", auto_creation),
    *((f"produce and consume, {name}", lambda name=name: codec(name)) for name in CODECS),
    ("produce idempotently", idempotent),
    ("too large a record is refused", too_large),
    ("offsets for times", offsets_for_times),
    ("consume in a group and commit", group_commit),
    ("rebalance: one joins, one leaves", rebalance),
    ("go on after a restart of the broker", go_on_after_restart),
    ("describe the cluster", describe_cluster),
    ("describe a topic", describe_topic),
    ("describe configs", describe_config),
    ("alter a config", alter_config),
    ("create partitions", create_partitions),
    ("delete records", delete_records),
    ("list groups", list_groups),
    ("describe a group", describe_group),
    ("list a group's offsets", group_offsets),
    ("delete a topic", delete_topic),
]

if __name__ == "__main__":
    run(
        "aiokafka",
        aiokafka.__version__,
        [
            *((name, lambda action=action: asyncio.run(action())) for name, action in STEPS),
            *transaction_steps(Aiokafka(BOOTSTRAP, lambda topic: create(topic, 1)), PREFIX),
        ],
    )
