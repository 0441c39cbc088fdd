"""Groups that stop on one cluster and go on with the very next record on the other."""

from __future__ import annotations

from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker, Producer
from ottla.admin import NewTopic
from ottla.consumer.coordinated import GroupConsumer
from ottla.mirror import translate_group
from ottla.model.errors import ConfigError, NotTranslatable
from ottla.model.topic_partition import TopicAndPartition
from tests.mirror.clusters import running, write
from tests.mirror.conftest import Mirrors
from tests.waiting import wait_for


def at(broker: EmbeddedBroker) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap}


def read(broker: EmbeddedBroker, group: str, topic: str, most: int) -> dict[int, list[int]]:
    """Times of the next records that a group gets, by partition; they are committed."""
    found: dict[int, list[int]] = {}
    settings = {**at(broker), "auto_offset_reset": "smallest", "enable_auto_commit": False}
    with GroupConsumer(topic, settings, group_id=group) as consumer:
        left = most
        for message in consumer.messages(60):
            found.setdefault(message.partition, []).append(message.timestamp_ms)
            left -= 1
            if not left:
                break
        consumer.commit()
    return found


def mirrored(source: EmbeddedBroker, group: str, records: int) -> bool:
    with Admin(at(source)) as admin:
        return sum(one.offset for one in admin.group_offsets(group).values()) == records


def test_a_group_goes_on_at_the_very_record(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    with Producer(at(target)) as producer, Admin(at(target)) as admin:
        admin.create_topics(NewTopic(topic, 3, 1))
        for number in range(100):  # so that offsets of the two are different
            producer.send(topic, b"other", partition=number % 2)
    write(at(source), topic, 3, range(900))
    with running(mirror()) as errors:
        wait_for(lambda: mirrored(source, f"group-of-{topic}", 900), "all is mirrored")
    assert not errors
    positions = {TopicAndPartition(topic, partition): at for partition, at in enumerate((123, 7, 300))}
    with Admin(at(source)) as admin:
        admin.alter_group_offsets("billing", positions)
    arguments: dict[str, Any] = {"source": at(source), "target": at(target)}
    shown = translate_group("billing", f"group-of-{topic}", **arguments, dry_run=True)
    with Admin(at(target)) as admin:
        assert not admin.group_offsets("billing")
    assert translate_group("billing", f"group-of-{topic}", **arguments) == shown
    assert [shown[TopicAndPartition(topic, partition)] for partition in range(3)] == [173, 57, 300]
    assert read(target, "billing", topic, 470) == read(source, "billing", topic, 470)


def test_what_cannot_be_translated(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    mirrors = f"group-of-{topic}"
    arguments: dict[str, Any] = {"source": at(source), "target": at(target)}
    write(at(source), topic, 3, range(30))
    with running(mirror()) as errors:
        wait_for(lambda: mirrored(source, mirrors, 30), "all is mirrored")
    assert not errors
    write(at(source), topic, 3, range(30, 60))
    with GroupConsumer(topic, group_id="ahead", auto_offset_reset="smallest", **at(source)) as consumer:
        wait_for(lambda: consumer.poll(0.1) is not None, "it reads")
        with pytest.raises(ConfigError, match="stop them first"):
            translate_group("ahead", mirrors, **arguments)
    with pytest.raises(NotTranslatable, match="mirrored up to 10"):
        translate_group("ahead", mirrors, **arguments)
    assert translate_group("ahead", "another mirror", **arguments) == {}
