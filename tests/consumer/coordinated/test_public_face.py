"""What applications rely on beside reading: arguments, positions, iteration, repr, dropped consumers."""

from __future__ import annotations

import gc
import weakref
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker, GroupConsumer, OffsetAndMetadata
from ottla.consumer.coordinated import RebalanceListener
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from tests.consumer.coordinated.conftest import Consumers
from tests.consumer.coordinated.polling import fill, partitions_of, poll_until, read_all
from tests.fetching.traffic import Writer
from tests.waiting import PATIENCE_S, wait_for


def test_the_group_is_a_keyword(broker: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match="'billing': the group is a keyword"):
        GroupConsumer("orders", "billing", bootstrap_servers=broker.bootstrap)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"group\.id is empty: give"):
        GroupConsumer("orders", bootstrap_servers=broker.bootstrap)
    with GroupConsumer("orders", {"group.id": "g", "bootstrap.servers": broker.bootstrap}) as consumer:
        assert repr(consumer) == "<GroupConsumer of group 'g', topics orders: not joined yet>"


def test_a_consumer_is_iterable_and_commits_a_message(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    writer.write(TopicAndPartition(topic, 0), 10)
    reader = consumer(value_deserializer=len)
    for message in reader:
        assert message.value == len(message.raw_value or b"")
        if message.offset == 3:
            reader.commit(message)
            break
    assert {place.partition: stored.offset for place, stored in reader.committed().items()} == {0: 4}
    with pytest.raises(ConfigError, match=r"commit\(7\): give a message, a chunk, a mapping or nothing"):
        reader.commit(7)  # type: ignore[arg-type]
    shown = repr(reader)
    assert f"topics {topic}: member 'ottla" in shown
    assert f"generation 1, stable, assigned {topic}-0, {topic}-1" in shown
    reader.close()
    assert repr(reader).endswith(": closed>")


def test_a_message_a_chunk_a_mapping_or_nothing_is_committed(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    first, second = partitions_of(topic)[:2]
    writer.write(first, 30, at_once=10)
    reader = consumer(topics=topic, fetch_message_max_bytes=500)

    def committed() -> dict[int, int]:
        return {place.partition: stored.offset for place, stored in reader.committed().items()}

    message = next(message for message in reader if message.offset == 3)
    reader.commit(message)
    assert committed() == {0: 4}
    chunk = next(reader.chunks(PATIENCE_S))
    reader.commit(chunk)
    assert committed() == {0: chunk.next_offset}
    reader.commit({first: 5, second: OffsetAndMetadata(7, "a note")})
    assert committed() == {0: 5, 1: 7}
    reader.commit()
    assert committed()[0] == chunk.next_offset


def test_positions_are_given_by_words_times_and_counts(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    fill(writer, topic)
    reader = consumer()
    with pytest.raises(ConfigError, match="no partition is assigned yet"):
        reader.tail(1)
    read_all(reader, topic)
    first = TopicAndPartition(topic, 0)
    reader.tail(2)
    assert [reader.position(place) for place in partitions_of(topic)] == [98] * 4
    assert [next(reader.messages(PATIENCE_S)).offset for _ in range(2)] == [98, 99]
    reader.seek(first, "earliest")
    assert next(message.offset for message in reader.messages(PATIENCE_S) if message.partition == 0) == 0
    reader.seek(first, datetime(1980, 1, 1, tzinfo=UTC))
    assert next(message.offset for message in reader.messages(PATIENCE_S) if message.partition == 0) == 0
    for wrong, text in (
        (-5, "from 0 on"),
        ("soon", "neither 'earliest'"),
        (datetime.fromisoformat("2026-01-01"), "time zone"),
    ):
        with pytest.raises(ConfigError, match=text):
            reader.seek(first, wrong)
    soon = datetime.now(UTC) + timedelta(days=1)
    assert reader.offsets_for_times({first: soon}) == {first: None}
    assert reader.offsets_for_times({first: datetime(1980, 1, 1, tzinfo=UTC)}) == {first: 0}


def test_a_bad_seek_in_a_listener_is_said_and_stops_no_partition(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    class Seeking(RebalanceListener):
        def on_assigned(self, partitions: Any) -> None:
            reader.seek(min(partitions), -7)

    fill(writer, topic)
    reader = consumer(listener=Seeking())
    with pytest.raises(ConfigError, match="offset=-7: give a number from 0 on"):
        poll_until(lambda: False, reader)
    assert {chunk.topic_partition for chunk in read_all(reader, topic)} == set(partitions_of(topic))


def test_topics_can_be_changed(
    consumer: Consumers, broker: EmbeddedBroker, writer: Writer, topic: str
) -> None:
    broker.create_topic(f"{topic}-other", 1)
    reader = consumer()
    poll_until(lambda: bool(reader.assignment), reader)
    reader.subscribe([f"{topic}-other"])
    other = TopicAndPartition(f"{topic}-other", 0)
    poll_until(lambda: reader.assignment == {other}, reader)
    writer.write(other, 1)
    assert next(iter(reader)).topic == f"{topic}-other"


def test_a_dropped_consumer_warns_and_leaves_the_group(broker: EmbeddedBroker, topic: str) -> None:
    class Referring(RebalanceListener):
        consumer: GroupConsumer

    def join_and_drop() -> weakref.ref[GroupConsumer]:
        listener = Referring()
        reader = listener.consumer = GroupConsumer(
            topic,
            group_id=topic,
            listener=listener,
            bootstrap_servers=broker.bootstrap,
            heartbeat_interval_ms=50,
        )
        poll_until(lambda: bool(reader.assignment), reader)
        reader.commit_async(on_commit=lambda *_: listener.on_revoked(frozenset()))
        assert len(admin.describe_groups(topic).members) == 1
        return weakref.ref(reader)

    def is_collected(reader: weakref.ref[GroupConsumer]) -> bool:
        gc.collect()
        return reader() is None

    def forget_one() -> None:
        reader = join_and_drop()
        # A commit that is under way refers to the listener, and so to the consumer.
        wait_for(lambda: is_collected(reader), "the consumer is collected")

    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        with pytest.warns(ResourceWarning, match=f"GroupConsumer of group '{topic}' was not closed"):
            forget_one()
        wait_for(lambda: not admin.describe_groups(topic).members, "the group is left")
