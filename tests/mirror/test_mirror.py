"""Mirrors between two embedded brokers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker, Producer, Schema
from ottla.admin import NewPartitions, NewTopic, topic_resource
from ottla.consumer.classic import Blacklist, Whitelist
from ottla.consumer.coordinated import RebalanceListener
from ottla.mirror import MirrorRecord, same_partition
from ottla.model.errors import ConfigError, MirrorFailed
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.hashes import key_partition
from ottla.schemas.framing import with_frame
from ottla.schemas.json_texts import json_texts_of
from tests.mirror.clusters import content, end_of, running, write
from tests.mirror.conftest import Mirrors
from tests.waiting import wait_for

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": "int"}],
}


def at(broker: EmbeddedBroker) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap}


def committed(broker: EmbeddedBroker, group: str) -> int:
    with Admin(at(broker)) as admin:
        return sum(one.offset for one in admin.group_offsets(group).values())


def is_copied(broker: EmbeddedBroker, topic: str, records: int) -> bool:
    return end_of(at(broker), topic) >= records


def test_records_are_copied_as_they_are(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    write(at(source), topic, 3, range(3000))
    one = mirror()
    with running(one) as errors:
        wait_for(lambda: committed(source, f"group-of-{topic}") == 3000, "all is committed")
    assert not errors
    assert content(at(target), topic) == content(at(source), topic)
    assert one.metrics().sent == 3000
    assert one.metrics().dropped == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_codecs_of_both_sides(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors, codec: str
) -> None:
    write(at(source), topic, 3, range(600), compression_type=codec)
    with running(mirror(producer={"compression.type": codec})) as errors:
        wait_for(lambda: committed(source, f"group-of-{topic}") == 600, "all is committed")
    assert not errors
    assert content(at(target), topic) == content(at(source), topic)


def test_several_streams_share_the_partitions(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    write(at(source), topic, 3, range(300))
    with running(mirror(streams=3)) as errors:
        wait_for(lambda: committed(source, f"group-of-{topic}") == 300, "all is committed")
        write(at(source), topic, 3, range(300, 900))
        wait_for(lambda: committed(source, f"group-of-{topic}") == 900, "all is committed")
    assert not errors
    assert content(at(target), topic) == content(at(source), topic)


def test_members_that_come_and_go_copy_everything_once(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    """Partitions are flushed and committed before they go: a rebalance makes no duplicates."""
    with running(mirror(offset_commit_interval=60)) as first:
        for written in range(0, 9000, 3000):
            with running(mirror(offset_commit_interval=60)) as second:
                write(at(source), topic, 3, range(written, written + 3000))
                wait_for(partial(is_copied, target, topic, written + 3000), "all is copied")
            assert not second
    assert not first
    assert content(at(target), topic) == content(at(source), topic)


def test_records_are_placed_by_their_keys_on_request(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    with Admin(at(target)) as admin:
        admin.create_topics(NewTopic(topic, 5, 1))
    write(at(source), topic, 3, range(1500))
    with running(mirror(placement="key")) as errors:
        wait_for(lambda: committed(source, f"group-of-{topic}") == 1500, "all is committed")
    assert not errors
    copied = content(at(target), topic)
    for partition, rows in copied.items():
        assert {key_partition(key, 5) for _, key, _, _ in rows if key is not None} <= {partition}
    flat = [row for rows in copied.values() for row in rows]
    assert sorted(row[0] for row in flat) == sorted(
        row[0] for rows in content(at(source), topic).values() for row in rows
    )
    # A key's records of one partition stay in their order.
    for rows in copied.values():
        for key in {row[1] for row in rows if row[1] is not None}:
            times = [row[0] for row in rows if row[1] == key]
            for partition in range(3):
                mine = [time for time in times if time % 3 == (partition + 2) % 3]
                assert mine == sorted(mine)


def test_a_handler_makes_records_of_records(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    def handler(message: Any) -> list[MirrorRecord]:
        if message.value is None:
            return []
        first = same_partition(message)[0]
        return [first, first._replace(value=b"again " + message.value, headers=(("copy", b"2"),))]

    write(at(source), topic, 3, range(300))
    with running(mirror(handler=handler)) as errors:
        wait_for(lambda: committed(source, f"group-of-{topic}") == 300, "all is committed")
    assert not errors
    expected = {
        partition: [
            row
            for time, key, value, headers in rows
            if value is not None
            for row in ((time, key, value, headers), (time, key, b"again " + value, (("copy", b"2"),)))
        ]
        for partition, rows in content(at(source), topic).items()
    }
    assert content(at(target), topic) == expected


def test_a_handler_gets_values_as_their_schema_says(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors, tmp_path: Path
) -> None:
    """As the command line decodes them: by the schema that each value's frame names."""
    (tmp_path / "7.avsc").write_text(json.dumps(ORDER))
    texts = json_texts_of(str(tmp_path))
    assert texts is not None
    tea = with_frame(7, Schema.avro(ORDER).value({"item": "tea", "count": 2}))
    plain = b"no frame"

    def handler(message: Any) -> list[MirrorRecord]:
        first = same_partition(message)[0]
        is_order = isinstance(message.value, dict)
        return [first._replace(headers=(("item", message.value["item"].encode()),))] if is_order else [first]

    with Producer(bootstrap_servers=source.bootstrap) as producer:
        for value in (tea, plain):
            producer.send(topic, value, partition=0)
    with running(mirror(handler=handler, value_deserializer=texts.row)) as errors:
        wait_for(lambda: committed(source, f"group-of-{topic}") == 2, "all is committed")
    assert not errors
    copied = [(value, headers) for _, _, value, headers in content(at(target), topic)[0]]
    assert copied == [(tea, (("item", b"tea"),)), (plain, ())]


def test_a_value_that_a_handler_cannot_have_names_its_frame(
    source: EmbeddedBroker, topic: str, mirror: Mirrors, tmp_path: Path
) -> None:
    texts = json_texts_of(str(tmp_path))
    assert texts is not None
    with Producer(bootstrap_servers=source.bootstrap) as producer:
        producer.send(topic, with_frame(9, b"?"), partition=0)
    with running(mirror(handler=lambda message: [message.value], value_deserializer=texts.row)) as errors:
        wait_for(lambda: errors, "the mirror ends")
    assert "framed with schema 9" in str(errors[0])


def test_a_handler_that_makes_something_else_ends_the_mirror(
    source: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    write(at(source), topic, 3, range(30))
    with running(mirror(handler=lambda message: [message.value])) as errors:
        wait_for(lambda: errors, "the mirror ends")
    assert "MirrorRecord" in str(errors[0])
    assert committed(source, f"group-of-{topic}") == 0


def test_topics_partitions_and_settings_are_followed(
    source: EmbeddedBroker,
    target: EmbeddedBroker,
    topic: str,
    mirror: Mirrors,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.mirror.mirror.FOLLOW_S", 0.1)
    with Admin(at(source)) as ours, Admin(at(target)) as theirs:
        ours.alter_configs(topic_resource(topic), {"segment.bytes": 1 << 20, "min.insync.replicas": 1})
        consumer = {"metadata.max.age.ms": 300}
        with running(mirror(consumer, producer={"metadata.max.age.ms": 300})) as errors:
            write(at(source), topic, 3, range(300))
            wait_for(lambda: committed(source, f"group-of-{topic}") == 300, "all is committed")
            ours.create_partitions(NewPartitions(topic, 5))
            ours.alter_configs(topic_resource(topic), {"segment.bytes": None, "retention.ms": 86400000000})
            write(at(source), topic, 5, range(300, 800))
            wait_for(lambda: committed(source, f"group-of-{topic}") == 800, "all is committed")
            wait_for(
                lambda: theirs.describe_configs(topic_resource(topic))["retention.ms"].value == "86400000000",
                "the setting is there",
            )
        settings = theirs.describe_configs(topic_resource(topic))
        assert settings["segment.bytes"].is_default
        assert settings["min.insync.replicas"].is_default
        assert len(theirs.describe_topics(topic).partitions) == 5
    assert not errors
    assert content(at(target), topic) == content(at(source), topic)


def test_topics_that_come_later_and_topics_that_are_left_out(
    source: EmbeddedBroker, target: EmbeddedBroker, name: str, mirror: Mirrors
) -> None:
    source.create_topic(f"{name}-left-out", 1)
    consumer = {"metadata.max.age.ms": 300}
    others = Blacklist(f"{name}-left-out,(?!{name}).*")
    with running(mirror(consumer, topics=others)) as errors:
        source.create_topic(f"{name}-new", 2)
        write(at(source), f"{name}-left-out", 1, range(10))
        write(at(source), f"{name}-new", 2, range(200))
        wait_for(lambda: committed(source, f"group-of-{name}") == 200, "all is committed")
    assert not errors
    assert content(at(target), f"{name}-new") == content(at(source), f"{name}-new")
    with Admin(at(target)) as admin:
        assert f"{name}-left-out" not in admin.list_topics()


def test_a_failure_ends_the_mirror_and_nothing_is_committed(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    with Admin(at(target)) as admin:
        admin.create_topics(NewTopic(topic, 3, 1, configs={"max.message.bytes": 70}))
    write(at(source), topic, 3, range(300))
    with running(mirror(follows_topics=False)) as errors:
        wait_for(lambda: errors, "the mirror ends")
    assert isinstance(errors[0], MirrorFailed)
    assert committed(source, f"group-of-{topic}") == 0


def test_failures_are_counted_if_they_do_not_end_the_mirror(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    with Admin(at(target)) as admin:
        admin.create_topics(NewTopic(topic, 3, 1, configs={"max.message.bytes": 1000}))
    with Producer(at(source)) as producer:
        for number in range(30):
            producer.send(topic, bytes(2000 if number % 3 == 0 else 10), partition=number % 3)
    one = mirror(follows_topics=False, aborts_on_failure=False)
    with running(one) as errors:
        wait_for(lambda: committed(source, f"group-of-{topic}") == 30, "all is committed")
    assert not errors
    assert (one.metrics().sent, one.metrics().dropped) == (20, 10)


def test_the_listener_is_told(source: EmbeddedBroker, topic: str, mirror: Mirrors) -> None:
    told: list[tuple[str, int]] = []

    class Told(RebalanceListener):
        def on_assigned(self, partitions: frozenset[TopicAndPartition]) -> None:
            told.append(("assigned", len(partitions)))

        def on_revoked(self, partitions: frozenset[TopicAndPartition]) -> None:
            told.append(("revoked", len(partitions)))

    with running(mirror(listener=Told())) as errors:
        wait_for(lambda: told, "it is assigned")
    assert not errors
    assert told == [("assigned", 3), ("revoked", 3)]


def test_arguments_that_make_no_sense(mirror: Mirrors) -> None:
    class Classic:
        def before_releasing_partitions(self, partition_ownership: object) -> None: ...

        def before_starting_fetchers(self, consumer_id: str, partition_assignment: object) -> None: ...

    with pytest.raises(ConfigError, match=r"group\.id"):
        mirror({"group.id": ""})
    with pytest.raises(ConfigError, match="streams=0"):
        mirror(streams=0)
    with pytest.raises(ConfigError, match="does not fit the group"):
        mirror(listener=Classic())
    with pytest.raises(ConfigError, match="does not fit the group"):
        mirror({"zookeeper.connect": "127.0.0.1:1"}, listener=RebalanceListener())
    with pytest.raises(ConfigError):
        mirror(topics=Whitelist("("))


def test_a_mirror_stops_while_the_target_is_away(
    source: EmbeddedBroker, topic: str, mirror: Mirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.mirror.mirror.STOP_S", 0.5)
    with EmbeddedBroker() as away:
        one = mirror(producer={"bootstrap.servers": away.bootstrap, "buffer.memory": 20_000})
        with running(one) as errors:
            write(at(source), topic, 3, range(30))
            wait_for(lambda: committed(source, f"group-of-{topic}") == 30, "all is committed")
            away.stop()
            write(at(source), topic, 3, range(30, 3000))
            one.stop()
            wait_for(lambda: errors, "the mirror ends")
        assert committed(source, f"group-of-{topic}") == 30
