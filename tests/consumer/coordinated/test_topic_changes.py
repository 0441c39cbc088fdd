"""Topics that come, go and grow while a group reads them."""

from __future__ import annotations

import re

from ottla import Admin, EmbeddedBroker
from ottla.admin import NewPartitions
from ottla.model.topic_partition import TopicAndPartition
from tests.consumer.coordinated.conftest import Consumers
from tests.consumer.coordinated.polling import fill, offsets_of, partitions_of, poll_until, shared_out
from tests.fetching.traffic import Writer


def test_a_pattern_finds_topics_that_come_later(
    broker: EmbeddedBroker, consumer: Consumers, topic: str
) -> None:
    one = consumer(re.compile(f"{topic}(-later)?"), metadata_max_age_ms=100)
    poll_until(lambda: len(one.assignment) == 4, one)
    broker.create_topic(f"{topic}-later", 2)
    broker.create_topic(f"{topic}-later-not", 2)
    poll_until(lambda: len(one.assignment) == 6, one)
    assert {place.topic for place in one.assignment} == {topic, f"{topic}-later"}


def test_a_pattern_that_nothing_matches_yet_waits(
    broker: EmbeddedBroker, consumer: Consumers, topic: str, writer: Writer
) -> None:
    one = consumer(re.compile(f"{topic}-[0-9]"), metadata_max_age_ms=100)
    assert one.poll(0.3) is None
    assert one.assignment == set()
    broker.create_topic(f"{topic}-1", 1)
    writer.write(TopicAndPartition(f"{topic}-1", 0), 10)
    chunks = poll_until(lambda: len(one.assignment) == 1 and one.position(*one.assignment) == 10, one)
    assert sum(chunk.batch.num_rows for chunk in chunks) == 10


def test_a_topic_that_is_made_later_is_found(broker: EmbeddedBroker, consumer: Consumers, topic: str) -> None:
    one = consumer([topic, f"{topic}-later"], allow_auto_create_topics=False)
    poll_until(lambda: len(one.assignment) == 4, one)
    broker.create_topic(f"{topic}-later", 1)
    poll_until(lambda: len(one.assignment) == 5, one)


def test_a_topic_that_is_deleted_leaves_the_assignment_and_the_others_are_read(
    broker: EmbeddedBroker, consumer: Consumers, topic: str, writer: Writer
) -> None:
    broker.create_topic(f"{topic}-gone", 2)
    one = consumer(re.compile(f"{topic}.*"), metadata_max_age_ms=100, allow_auto_create_topics=False)
    poll_until(lambda: len(one.assignment) == 6, one)
    broker.delete_topic(f"{topic}-gone")
    poll_until(lambda: one.assignment == set(partitions_of(topic)), one)
    fill(writer, topic)
    chunks = poll_until(lambda: all(one.position(place) == 100 for place in partitions_of(topic)), one)
    assert len(offsets_of(chunks)) == 400


def test_partitions_that_are_added_are_shared_out(
    broker: EmbeddedBroker, consumer: Consumers, topic: str, writer: Writer
) -> None:
    one, other = (consumer(metadata_max_age_ms=100) for _ in range(2))
    poll_until(shared_out(topic, one, other), one, other)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_partitions(NewPartitions(topic, 6))
    poll_until(lambda: len(one.assignment) == len(other.assignment) == 3, one, other)
    writer.write(TopicAndPartition(topic, 5), 10)
    (owner,) = [member for member in (one, other) if TopicAndPartition(topic, 5) in member.assignment]
    chunks = poll_until(lambda: owner.position(TopicAndPartition(topic, 5)) == 10, one, other)
    assert sum(chunk.batch.num_rows for chunk in chunks) == 10
