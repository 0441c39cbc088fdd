"""confluent-kafka (librdkafka): every step of the matrix."""

from __future__ import annotations

import sys
from itertools import chain
from typing import Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from confluent_transactions import Confluent
from steps import CODECS, PARTITIONS, Row, in_order, restart, run, same, sample, until
from transaction_steps import transaction_steps

BOOTSTRAP, PREFIX = sys.argv[1:3]
TOPIC, GROUP = f"{PREFIX}-topic", f"{PREFIX}-group"
admin = AdminClient({"bootstrap.servers": BOOTSTRAP})


def producer(**settings: Any) -> Producer:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 5, **names})


def consumer(group: str, **settings: Any) -> Consumer:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "fetch.wait.max.ms": 100,
            **names,
        }
    )


def send(to: Producer, topic: str, rows: list[Row]) -> None:
    errors: list[KafkaError] = []
    for row in rows:
        to.produce(
            topic,
            partition=row.partition,
            timestamp=row.time_ms,
            key=row.key,
            value=row.value,
            headers=list(row.headers),
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    same(to.flush(20), 0, "records left in the queue")
    if errors:
        raise KafkaException(errors[0])


def read(member: Consumer, count: int) -> list[Row]:
    rows: list[Row] = []

    def enough() -> bool:
        for message in member.consume(100, 0.2):
            if message.error():
                raise KafkaException(message.error())
            headers = tuple(message.headers() or ())
            rows.append(
                Row(message.partition(), message.timestamp()[1], message.key(), message.value(), headers)
            )
        return len(rows) >= count

    until(enough, f"{count} records")
    return in_order(rows)


def read_all(topic: str, count: int) -> list[Row]:
    reader = consumer(f"{PREFIX}-reader")
    reader.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    try:
        return read(reader, count)
    finally:
        reader.close()


def create(topic: str, partitions: int = PARTITIONS, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings)
    admin.create_topics([new])[topic].result(20)


def create_topic() -> None:
    create(TOPIC)
    until(lambda: TOPIC in admin.list_topics(timeout=10).topics, "the topic in the metadata")
    try:
        create(TOPIC)
    except KafkaException as error:
        same(error.args[0].code(), KafkaError.TOPIC_ALREADY_EXISTS, "error of a second creation")
    else:
        raise AssertionError("a second creation was accepted")


def auto_creation() -> None:
    topic = f"{PREFIX}-auto"
    send(producer(), topic, [Row(0, 1, b"k", b"v")])
    same(len(admin.list_topics(topic, timeout=10).topics[topic].partitions), 1, "partitions")


def codec(name: str) -> None:
    topic = f"{PREFIX}-{name}"
    create(topic)
    send(producer(compression_type=name, linger_ms=50), topic, sample())
    same(read_all(topic, 30), in_order(sample()), "records")


def idempotent() -> None:
    topic = f"{PREFIX}-idempotent"
    create(topic)
    send(producer(enable_idempotence=True, acks="all"), topic, sample())
    same(read_all(topic, 30), in_order(sample()), "records")


def too_large() -> None:
    topic = f"{PREFIX}-large"
    create(topic, max_message_bytes="2000")
    try:
        send(producer(), topic, [Row(0, 1, None, b"x" * 5000)])
    except KafkaException as error:
        same(error.args[0].code(), KafkaError.MSG_SIZE_TOO_LARGE, "error")
    else:
        raise AssertionError("a record above max.message.bytes was accepted")


def offsets_for_times() -> None:
    rows = sample()
    reader = consumer(f"{PREFIX}-times")
    asked = [TopicPartition(f"{PREFIX}-none", each, rows[15].time_ms) for each in range(PARTITIONS)]
    same([found.offset for found in reader.offsets_for_times(asked, 10)], [5, 5, 5], "offsets")
    same(reader.get_watermark_offsets(TopicPartition(f"{PREFIX}-none", 0), 10), (0, 10), "watermarks")
    reader.close()


def group_commit() -> None:
    send(producer(), TOPIC, sample())
    member = consumer(GROUP)
    member.subscribe([TOPIC])
    same(read(member, 30), in_order(sample()), "records")
    member.commit(asynchronous=False)
    partitions = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
    same([found.offset for found in member.committed(partitions, 10)], [10, 10, 10], "committed")
    member.close()
    again = consumer(GROUP)
    again.subscribe([TOPIC])
    send(producer(), TOPIC, sample(3))
    same(read(again, 3), in_order(sample(3)), "records behind the commit")
    again.commit(asynchronous=False)
    again.close()


def rebalance() -> None:
    topic, group = f"{PREFIX}-rebalance", f"{PREFIX}-rebalance"
    create(topic, 4)
    first, second = consumer(group), consumer(group)

    def owned(*members: Consumer) -> list[list[int]]:
        for member in members:
            member.poll(0.05)
        return [sorted(each.partition for each in member.assignment()) for member in members]

    first.subscribe([topic])
    until(lambda: owned(first) == [[0, 1, 2, 3]], "all partitions with one member")
    second.subscribe([topic])
    until(lambda: [len(own) for own in owned(first, second)] == [2, 2], "two partitions each")
    same(sorted(chain(*owned(first, second))), [0, 1, 2, 3], "partitions of both")
    second.close()
    until(lambda: owned(first) == [[0, 1, 2, 3]], "all partitions with the one that stays")
    first.close()


def go_on_after_restart() -> None:
    topic, group = f"{PREFIX}-restart", f"{PREFIX}-restart"
    create(topic)
    sender, member = producer(), consumer(group)
    send(sender, topic, sample())
    member.subscribe([topic])
    read(member, 30)
    member.commit(asynchronous=False)
    restart()
    send(sender, topic, sample(6))
    same(read(member, 6), in_order(sample(6)), "records behind the restart")
    member.commit(asynchronous=False)
    committed = member.committed([TopicPartition(topic, each) for each in range(PARTITIONS)], 10)
    same([found.offset for found in committed], [12, 12, 12], "committed")
    member.close()


def describe_cluster() -> None:
    found = admin.describe_cluster().result(10)
    same([f"{node.host}:{node.port}" for node in found.nodes], [BOOTSTRAP], "nodes")
    same(found.controller.id, found.nodes[0].id, "controller")


def describe_topic() -> None:
    found = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(10)
    same([part.id for part in found.partitions], [0, 1, 2], "partitions")
    same([len(part.isr) for part in found.partitions], [1, 1, 1], "replicas in sync")


def configs(kind: ResourceType, name: str) -> dict[str, Any]:
    return dict(next(iter(admin.describe_configs([ConfigResource(kind, name)]).values())).result(10))


def describe_config() -> None:
    same(configs(ResourceType.TOPIC, TOPIC)["cleanup.policy"].value, "delete", "cleanup.policy")
    node = admin.describe_cluster().result(10).nodes[0]
    same(configs(ResourceType.BROKER, str(node.id))["num.partitions"].value, "1", "num.partitions")


def alter_config() -> None:
    entry = ConfigEntry("retention.ms", "12345678", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    next(iter(admin.incremental_alter_configs([resource]).values())).result(10)
    until(lambda: configs(ResourceType.TOPIC, TOPIC)["retention.ms"].value == "12345678", "the new value")


def create_partitions() -> None:
    topic = f"{PREFIX}-more"
    create(topic, 1)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(10)
    until(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4, "4 partitions")


def list_offsets() -> None:
    asked = {
        TopicPartition(f"{PREFIX}-none", 0): OffsetSpec.earliest(),
        TopicPartition(f"{PREFIX}-none", 1): OffsetSpec.latest(),
        TopicPartition(f"{PREFIX}-none", 2): OffsetSpec.max_timestamp(),
    }
    found = {asked.partition: got.result(10).offset for asked, got in admin.list_offsets(asked).items()}
    same(found, {0: 0, 1: 10, 2: 9}, "offsets")


def delete_records() -> None:
    topic = f"{PREFIX}-gzip"
    asked = TopicPartition(topic, 0, 4)
    same(admin.delete_records([asked])[asked].result(10).low_watermark, 4, "low watermark")
    reader = consumer(f"{PREFIX}-deleted")
    same(reader.get_watermark_offsets(TopicPartition(topic, 0), 10), (4, 10), "watermarks")
    reader.close()


def list_groups() -> None:
    same(GROUP in [each.group_id for each in admin.list_consumer_groups().result(10).valid], True, "listed")


def describe_group() -> None:
    member = consumer(f"{PREFIX}-described")
    member.subscribe([TOPIC])
    until(lambda: (member.poll(0.1), len(member.assignment()))[1] == 3, "an assignment")
    found = admin.describe_consumer_groups([f"{PREFIX}-described"])[f"{PREFIX}-described"].result(10)
    same((found.state.name, len(found.members)), ("STABLE", 1), "state and members")
    same(len(found.members[0].assignment.topic_partitions), 3, "assigned partitions")
    member.close()


def group_offsets() -> None:
    asked = ConsumerGroupTopicPartitions(GROUP)
    found = admin.list_consumer_group_offsets([asked])[GROUP].result(10).topic_partitions
    same(sorted((each.partition, each.offset) for each in found), [(0, 11), (1, 11), (2, 11)], "offsets")


def alter_group_offsets() -> None:
    asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 1, 7)])
    admin.alter_consumer_group_offsets([asked])[GROUP].result(10)
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP].result(10)
    same({each.partition: each.offset for each in found.topic_partitions}[1], 7, "offset")


def delete_group() -> None:
    admin.delete_consumer_groups([GROUP])[GROUP].result(10)
    listed = [each.group_id for each in admin.list_consumer_groups().result(10).valid]
    same(GROUP in listed, False, "still listed")


def delete_topic() -> None:
    admin.delete_topics([TOPIC])[TOPIC].result(10)
    until(lambda: TOPIC not in admin.list_topics(timeout=10).topics, "the topic gone from the metadata")


if __name__ == "__main__":
    run(
        "confluent-kafka",
        f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})",
        [
            ("create a topic", create_topic),
            ("create a topic by producing", auto_creation),
            *((f"produce and consume, {name}", lambda name=name: codec(name)) for name in CODECS),
            ("produce idempotently", idempotent),
            ("too large a record is refused", too_large),
            ("offsets for times", offsets_for_times),
            ("consume in a group and commit", group_commit),
            ("rebalance: one joins, one leaves", rebalance),
            ("go on after a restart of the broker", go_on_after_restart),
            *transaction_steps(Confluent(BOOTSTRAP, lambda topic: create(topic, 1)), PREFIX),
            ("describe the cluster", describe_cluster),
            ("describe a topic", describe_topic),
            ("describe configs", describe_config),
            ("alter a config", alter_config),
            ("create partitions", create_partitions),
            ("list offsets", list_offsets),
            ("delete records", delete_records),
            ("list groups", list_groups),
            ("describe a group", describe_group),
            ("list a group's offsets", group_offsets),
            ("alter a group's offsets", alter_group_offsets),
            ("delete a group", delete_group),
            ("delete a topic", delete_topic),
        ],
    )
