"""A mirror that copies in transactions: nothing is missing, nothing comes twice, whatever is killed."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker, Producer, TopicAndPartition, replay
from ottla.mirror import translate_group
from ottla.mirror.exactly_once import transactional_id
from ottla.mirror.offset_runs import translated
from ottla.mirror.translation import read_runs
from ottla.model.errors import ConfigError, MirrorFailed, Unsupported
from tests.committed_reader import committed_seen
from tests.mirror.clusters import end_of, running, write
from tests.mirror.conftest import Mirrors
from tests.mirror.killing import PARTITIONS, Worker, at, committed, copied, positions, seen, steady_writes
from tests.proof.checker import anomalies
from tests.scale import REPLAY, kills, seeded
from tests.waiting import wait_for

KILLS = kills(20, 500)


def count(broker: EmbeddedBroker, topic: str) -> int:
    return sum(map(len, committed(broker, topic).values()))


@pytest.mark.timeout(300 + 20 * KILLS)
def test_killed_at_random(source: EmbeddedBroker, target: EmbeddedBroker, name: str) -> None:
    chance = seeded(name)
    source.create_topic(name, PARTITIONS)
    target.create_topic(name, PARTITIONS)
    group, there = f"group-of-{name}", {**at(target), "isolation_level": "read_committed"}
    worker = Worker(source.bootstrap, target.bootstrap, name, "exactly-once")
    try:
        with (
            committed_seen(target.bootstrap, name, PARTITIONS) as read,
            steady_writes(source.bootstrap, name) as counts,
        ):
            for number in range(KILLS):
                worker.start(chance.choice((1, 1, 1000, 0)))
                if number % 4:  # most are killed at work, some while they join
                    before = end_of(there, name)
                    wait_for(lambda before=before: end_of(there, name) > before, "it mirrors")
                time.sleep(chance.uniform(0, 0.1))
                assert worker.end(signal.SIGKILL) == -signal.SIGKILL
        worker.start(1)
        wait_for(lambda: set(positions(source, group).values()) == {counts[0]}, "all is mirrored")
        assert worker.end(signal.SIGTERM) == 0
    finally:
        worker.close()
    assert anomalies(copied(name, counts[0], seen(target, name), read)) == [], REPLAY
    assert positions(target, transactional_id(group)) == positions(source, group)
    runs = read_runs(at(target), group)
    for partition, rows in committed(target, name).items():
        known = runs[TopicAndPartition(name, partition)]
        assert [translated(known, offset) for offset in range(counts[0])] == [offset for offset, _ in rows]
        after = translated(known, counts[0])
        assert after is not None
        assert after > rows[-1][0]


@pytest.mark.parametrize("whole_bytes", [1, 0])
def test_transactions_of_the_source(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors, whole_bytes: int
) -> None:
    expected: dict[int, list[bytes]] = {partition: [] for partition in range(3)}
    settings = {**at(source), "transactional_id": topic, "compression_type": "lz4"}
    with running(mirror({"whole.batches.min.bytes": whole_bytes}, exactly_once=True)) as errors:
        with Producer(settings) as producer:
            for number in range(20):
                producer.begin()
                for partition in range(3):
                    for _ in range(10):
                        producer.send(topic, b"%d" % number, partition=partition)
                producer.flush()
                if number % 2:
                    producer.abort()
                else:
                    producer.commit()
                    for values in expected.values():
                        values.extend([b"%d" % number] * 10)
        wait_for(lambda: count(target, topic) >= 300, "all is mirrored")
    assert not errors
    assert seen(target, topic) == expected
    # Not even for readers of uncommitted records: what was aborted in the source was never sent.
    assert {message.raw_value for message in replay(topic, **at(target)).messages()} == set(expected[0])


def test_restarts_go_on_where_the_target_is(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    group = f"group-of-{topic}"
    for numbers in (range(300), range(300, 600)):
        write(at(source), topic, 3, numbers)
        with running(mirror(exactly_once=True)) as errors:
            wait_for(lambda numbers=numbers: count(target, topic) == numbers.stop, "all is mirrored")
        assert not errors
        with Admin(at(source)) as admin:  # as if the mirror had died before it told the source
            assert set(positions(source, group).values()) == {numbers.stop // 3}
            admin.alter_group_offsets(group, {TopicAndPartition(topic, each): 5 for each in range(3)})
    with running(mirror(exactly_once=True)):
        wait_for(lambda: set(positions(source, group).values()) == {200}, "the source is told")
    assert seen(target, topic) == seen(source, topic)
    with Admin(at(source)) as admin:
        admin.alter_group_offsets(f"billing-{topic}", {TopicAndPartition(topic, 1): 150})
    moved = translate_group(f"billing-{topic}", group, source=at(source), target=at(target))
    assert moved == {TopicAndPartition(topic, 1): committed(target, topic)[1][150][0]}


def test_a_group_that_has_mirrored_without_transactions_goes_on(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    for number, exactly_once in enumerate((True, False, True)):
        write(at(source), topic, 3, range(number * 300, number * 300 + 300))
        with running(mirror(exactly_once=exactly_once)) as errors:
            wait_for(lambda number=number: count(target, topic) == (number + 1) * 300, "all is mirrored")
        assert not errors
    assert seen(target, topic) == seen(source, topic)


def test_a_newer_mirror_replaces_an_older_one(
    source: EmbeddedBroker, target: EmbeddedBroker, topic: str, mirror: Mirrors
) -> None:
    write(at(source), topic, 3, range(300))
    with running(mirror(exactly_once=True)) as older:
        wait_for(lambda: count(target, topic) == 300, "the older one mirrors")
        with running(mirror(exactly_once=True)) as newer:
            written = 300
            while not older:  # both are members of the source's group until the older one writes
                write(at(source), topic, 3, range(written, written + 30))
                written += 30
                time.sleep(0.1)
            wait_for(lambda: count(target, topic) == written, "the newer one goes on")
        assert not newer
    (error,) = older
    assert isinstance(error, MirrorFailed)
    assert "this mirror has been replaced. A newer mirror of the same group" in str(error)
    assert seen(target, topic) == seen(source, topic)


def test_a_target_without_transactions(mirror: Mirrors) -> None:
    one = mirror(exactly_once=True, producer={"broker.version": "0.9"}, follows_topics=False)
    with pytest.raises(Unsupported, match="exactly_once: the target has no transactions"):
        one.run()


@pytest.mark.parametrize(
    ("consumer", "more", "text"),
    [
        ({}, {"streams": 2}, "streams=1, not 2"),
        ({}, {"aborts_on_failure": False}, "aborts_on_failure=True"),
        ({}, {"offset_commit_interval": 30}, "a quarter of transaction.timeout.ms=60000, not 30000 ms"),
        ({}, {"producer": {"transactional.id": "mine"}}, "no transactional.id"),
        ({"isolation.level": "read_uncommitted"}, {}, "read_committed, not read_uncommitted"),
        ({"zookeeper.connect": "127.0.0.1:1"}, {}, "not zookeeper.connect"),
    ],
)
def test_settings_that_contradict(
    mirror: Mirrors, consumer: dict[str, Any], more: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        mirror(consumer, exactly_once=True, **more)
