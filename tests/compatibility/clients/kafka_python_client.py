"""kafka-python: every step of the matrix."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic, OffsetSpec
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError
from kafka_python_transactions import KafkaPython
from steps import CODECS, PARTITIONS, Row, in_order, restart, run, same, sample, until
from transaction_steps import transaction_steps

BOOTSTRAP, PREFIX = sys.argv[1:3]
TOPIC, GROUP = f"{PREFIX}-topic", f"{PREFIX}-group"
# A poll that ends just as the group has settled loses its assignment, so a poll takes its time.
POLL_MS = 1000
logging.getLogger("kafka").setLevel(logging.ERROR)


class Admin:
    """An admin client for each call: one that has lost its broker does not find it again at once."""

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            client = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
            try:
                return getattr(client, name)(*arguments, **options)
            finally:
                client.close()

        return call


admin = Admin()


def producer(**settings: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=BOOTSTRAP, linger_ms=5, **settings)


def consumer(group: str | None, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=BOOTSTRAP,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
        fetch_max_wait_ms=100,
        # It may join before it knows the topic's partitions, and learns of them with the next metadata.
        metadata_max_age_ms=500,
        **settings,
    )


def send(to: KafkaProducer, topic: str, rows: list[Row]) -> None:
    sent = [
        to.send(
            topic,
            partition=row.partition,
            timestamp_ms=row.time_ms,
            key=row.key,
            value=row.value,
            headers=list(row.headers),
        )
        for row in rows
    ]
    to.flush(20)
    for each in sent:
        each.get(20)


def send_and_close(topic: str, rows: list[Row], **settings: Any) -> None:
    sender = producer(**settings)
    try:
        send(sender, topic, rows)
    finally:
        sender.close()


def read(member: KafkaConsumer, count: int) -> list[Row]:
    rows: list[Row] = []

    def enough() -> bool:
        for batch in member.poll(POLL_MS).values():
            for record in batch:
                headers = tuple(record.headers or ())
                rows.append(Row(record.partition, record.timestamp, record.key, record.value, headers))
        return len(rows) >= count

    until(enough, f"{count} records")
    return in_order(rows)


def read_all(topic: str, count: int) -> list[Row]:
    reader = consumer(None)
    partitions = [TopicPartition(topic, each) for each in range(PARTITIONS)]
    reader.assign(partitions)
    reader.seek_to_beginning(*partitions)
    try:
        return read(reader, count)
    finally:
        reader.close()


def create(topic: str, partitions: int = PARTITIONS, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])


def partition_count(topic: str) -> int:
    return len(admin.describe_topics([topic])[0]["partitions"])


def create_topic() -> None:
    create(TOPIC)
    until(lambda: TOPIC in admin.list_topics(), "the topic in the metadata")
    try:
        create(TOPIC)
    except TopicAlreadyExistsError:
        pass
    else:
        raise AssertionError("a second creation was accepted")


def auto_creation() -> None:
    topic = f"{PREFIX}-auto"
    send_and_close(topic, [Row(0, 1, b"k", b"v")])
    same(partition_count(topic), 1, "partitions")


def codec(name: str) -> None:
    topic = f"{PREFIX}-{name}"
    create(topic)
    send_and_close(topic, sample(), compression_type=None if name == "none" else name)
    same(read_all(topic, 30), in_order(sample()), "records")


def idempotent() -> None:
    topic = f"{PREFIX}-idempotent"
    create(topic)
    send_and_close(topic, sample(), enable_idempotence=True, acks="all")
    same(read_all(topic, 30), in_order(sample()), "records")


def too_large() -> None:
    topic = f"{PREFIX}-large"
    create(topic, max_message_bytes="2000")
    try:
        send_and_close(topic, [Row(0, 1, None, b"x" * 5000)])
    except MessageSizeTooLargeError:
        pass
    else:
        raise AssertionError("a record above max.message.bytes was accepted")


def offsets_for_times() -> None:
    rows = sample()
    reader = consumer(None)
    partitions = [TopicPartition(f"{PREFIX}-none", each) for each in range(PARTITIONS)]
    found = reader.offsets_for_times(dict.fromkeys(partitions, rows[15].time_ms))
    same([found[each].offset for each in partitions], [5, 5, 5], "offsets")
    same(reader.end_offsets(partitions), dict.fromkeys(partitions, 10), "end offsets")
    same(reader.beginning_offsets(partitions), dict.fromkeys(partitions, 0), "first offsets")
    reader.close()


def group_commit() -> None:
    send_and_close(TOPIC, sample())
    member = consumer(GROUP)
    member.subscribe([TOPIC])
    same(read(member, 30), in_order(sample()), "records")
    member.commit()
    committed = [member.committed(TopicPartition(TOPIC, each)) for each in range(PARTITIONS)]
    same(committed, [10, 10, 10], "committed")
    member.close()
    again = consumer(GROUP)
    again.subscribe([TOPIC])
    send_and_close(TOPIC, sample(3))
    same(read(again, 3), in_order(sample(3)), "records behind the commit")
    again.commit()
    again.close()


class Member:
    """A consumer that polls in a thread of its own, as its users run it."""

    def __init__(self, topic: str, group: str) -> None:
        self._consumer = consumer(group)
        self._consumer.subscribe([topic])
        self._is_leaving = False
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._is_leaving:
            self._consumer.poll(POLL_MS)
        self._consumer.close()

    def owned(self) -> list[int]:
        return sorted(each.partition for each in self._consumer.assignment())

    def leave(self) -> None:
        self._is_leaving = True
        self._thread.join()


def rebalance() -> None:
    topic, group = f"{PREFIX}-rebalance", f"{PREFIX}-rebalance"
    create(topic, 4)
    first = Member(topic, group)
    until(lambda: first.owned() == [0, 1, 2, 3], "all partitions with one member")
    second = Member(topic, group)
    until(lambda: [len(first.owned()), len(second.owned())] == [2, 2], "two partitions each")
    same(sorted(first.owned() + second.owned()), [0, 1, 2, 3], "partitions of both")
    second.leave()
    until(lambda: first.owned() == [0, 1, 2, 3], "all partitions with the one that stays")
    first.leave()


def go_on_after_restart() -> None:
    topic, group = f"{PREFIX}-restart", f"{PREFIX}-restart"
    create(topic)
    sender, member = producer(), consumer(group)
    send(sender, topic, sample())
    member.subscribe([topic])
    read(member, 30)
    member.commit()
    restart()
    send(sender, topic, sample(6))
    same(read(member, 6), in_order(sample(6)), "records behind the restart")
    member.commit()
    committed = [member.committed(TopicPartition(topic, each)) for each in range(PARTITIONS)]
    same(committed, [12, 12, 12], "committed")
    member.close()
    sender.close()


def describe_cluster() -> None:
    found = admin.describe_cluster()
    same([f"{node['host']}:{node['port']}" for node in found["brokers"]], [BOOTSTRAP], "nodes")
    same(found["controller_id"], found["brokers"][0]["broker_id"], "controller")


def describe_topic() -> None:
    found = admin.describe_topics([TOPIC])[0]
    same(sorted(part["partition_index"] for part in found["partitions"]), [0, 1, 2], "partitions")
    same([len(part["isr_nodes"]) for part in found["partitions"]], [1, 1, 1], "replicas in sync")


def configs(kind: ConfigResourceType, name: str) -> dict[str, Any]:
    found = admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
    return dict(found[kind.name.lower()][name])


def value(entry: Any) -> Any:
    return entry["value"] if isinstance(entry, dict) else entry


def describe_config() -> None:
    found = configs(ConfigResourceType.TOPIC, TOPIC)
    same(value(found["cleanup.policy"]), "delete", "cleanup.policy")
    node = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    same(value(configs(ConfigResourceType.BROKER, node)["num.partitions"]), "1", "num.partitions")


def alter_config() -> None:
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "12345678"})])
    until(
        lambda: value(configs(ConfigResourceType.TOPIC, TOPIC)["retention.ms"]) == "12345678", "the new value"
    )


def create_partitions() -> None:
    topic = f"{PREFIX}-more"
    create(topic, 1)
    admin.create_partitions({topic: NewPartitions(4)})
    until(lambda: partition_count(topic) == 4, "4 partitions")


def list_offsets() -> None:
    topic = f"{PREFIX}-none"
    asked = {
        TopicPartition(topic, 0): OffsetSpec.EARLIEST,
        TopicPartition(topic, 1): OffsetSpec.LATEST,
        TopicPartition(topic, 2): OffsetSpec.MAX_TIMESTAMP,
    }
    found = admin.list_partition_offsets(asked)
    same([found[each].offset for each in asked], [0, 10, 9], "offsets")


def delete_records() -> None:
    part = TopicPartition(f"{PREFIX}-gzip", 0)
    found = admin.delete_records({part: 4})
    same(found[part]["low_watermark"], 4, "low watermark")
    reader = consumer(None)
    same(reader.beginning_offsets([part]), {part: 4}, "first offset")
    reader.close()


def list_groups() -> None:
    same(GROUP in [each["group_id"] for each in admin.list_groups()], True, "listed")


def describe_group() -> None:
    group = f"{PREFIX}-described"
    member = consumer(group)
    member.subscribe([TOPIC])
    until(lambda: (member.poll(POLL_MS), len(member.assignment()))[1] == 3, "an assignment")
    found = admin.describe_groups([group])[group]
    same((found["group_state"], len(found["members"])), ("Stable", 1), "state and members")
    member.close()


def group_offsets() -> None:
    found = admin.list_group_offsets(GROUP)[GROUP]
    offsets = sorted((part.partition, each.offset) for part, each in found.items())
    same(offsets, [(0, 11), (1, 11), (2, 11)], "offsets")


def alter_group_offsets() -> None:
    part = TopicPartition(TOPIC, 1)
    admin.alter_group_offsets(GROUP, {part: OffsetAndMetadata(7, "", -1)})
    same(admin.list_group_offsets(GROUP)[GROUP][part].offset, 7, "offset")


def delete_group_offsets() -> None:
    part = TopicPartition(TOPIC, 2)
    admin.delete_group_offsets(GROUP, [part])
    found = admin.list_group_offsets(GROUP)[GROUP]
    same(part in found and found[part].offset >= 0, False, "offset still there")


def delete_group() -> None:
    admin.delete_groups([GROUP])
    same(GROUP in [each["group_id"] for each in admin.list_groups()], False, "still listed")


def delete_topic() -> None:
    admin.delete_topics([TOPIC])
    until(lambda: TOPIC not in admin.list_topics(), "the topic gone from the metadata")


if __name__ == "__main__":
    run(
        "kafka-python",
        kafka.__version__,
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
            *transaction_steps(KafkaPython(BOOTSTRAP, lambda topic: create(topic, 1)), PREFIX),
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
            ("delete a group's offsets", delete_group_offsets),
            ("delete a group", delete_group),
            ("delete a topic", delete_topic),
        ],
    )
