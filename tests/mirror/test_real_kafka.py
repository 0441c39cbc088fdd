"""Apache Kafka on one side: 0.9 by classic and modern groups, and 4.x."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker
from ottla.admin import GroupKind, NewTopic
from ottla.classic import Whitelist
from ottla.mirror import Mirror
from tests.mirror.clusters import content, end_of, running, wait_for, write
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka, Unavailable


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_4])
def kafka(request: pytest.FixtureRequest) -> Iterator[RealKafka]:
    try:
        with RealKafka(request.param) as one:
            yield one
    except Unavailable as missing:
        pytest.skip(f"Kafka {request.param}: {missing}")


def is_old(kafka: RealKafka) -> bool:
    return kafka.version == KAFKA_0_9


def at(broker: EmbeddedBroker | RealKafka) -> dict[str, Any]:
    """Where it is, for clients; 0.9 cannot tell what it speaks."""
    is_old = isinstance(broker, RealKafka) and broker.version == KAFKA_0_9
    return {"bootstrap_servers": broker.bootstrap, **({"broker_version": "0.9"} if is_old else {})}


def admin(broker: EmbeddedBroker | RealKafka) -> Admin:
    zookeeper = {"zookeeper_connect": broker.zookeeper} if isinstance(broker, RealKafka) else {}
    return Admin({**at(broker), **{name: value for name, value in zookeeper.items() if value}})


def is_committed(broker: EmbeddedBroker | RealKafka, group: str, kind: GroupKind, records: int) -> bool:
    with admin(broker) as one:
        return sum(each.offset for each in one.group_offsets(group, kind=kind).values()) == records


def rows(found: dict[int, list[Any]], *, is_old: bool) -> dict[int, list[Any]]:
    """What both formats have: format 0 has neither times nor headers."""
    return {at: [row[1:3] if is_old else row for row in some] for at, some in found.items()}


def test_from_kafka_by_a_modern_group(kafka: RealKafka, target: EmbeddedBroker, name: str) -> None:
    with admin(kafka) as one:
        one.create_topics(NewTopic(name, 3, 1, configs={"segment.bytes": 1 << 20}))
    write(at(kafka), name, 3, range(3000), headers=not is_old(kafka))
    consumer = {**at(kafka), "group_id": name}
    mirror = Mirror(consumer, at(target), Whitelist(name), commit_interval_ms=200, streams=2)
    with running(mirror) as errors:
        wait_for(partial(is_committed, kafka, name, GroupKind.KAFKA, 3000), "all is committed")
    assert not errors
    expected = rows(content(at(kafka), name, headers=not is_old(kafka)), is_old=is_old(kafka))
    assert rows(content(at(target), name), is_old=is_old(kafka)) == expected


def test_into_kafka(kafka: RealKafka, source: EmbeddedBroker, name: str) -> None:
    source.create_topic(name, 3)
    write(at(source), name, 3, range(3000), headers=not is_old(kafka), compression_type="gzip")
    producer = {**at(kafka), **({"zookeeper_connect": kafka.zookeeper} if is_old(kafka) else {})}
    consumer = {**at(source), "group_id": name, "fetch_wait_max_ms": 50}
    with running(Mirror(consumer, producer, Whitelist(name), commit_interval_ms=200)) as errors:
        wait_for(partial(is_committed, source, name, GroupKind.KAFKA, 3000), "all is committed")
    assert not errors
    expected = rows(content(at(source), name), is_old=is_old(kafka))
    assert rows(content(at(kafka), name, headers=not is_old(kafka)), is_old=is_old(kafka)) == expected


def test_from_kafka_by_a_classic_group_whose_members_come_and_go(
    kafka: RealKafka, target: EmbeddedBroker, name: str
) -> None:
    """A rebalance makes no duplicates: who gives partitions up has flushed and committed before."""
    if not is_old(kafka):
        pytest.skip("it has no ZooKeeper")
    with admin(kafka) as one:
        one.create_topics(NewTopic(name, 3, 1))
    consumer = {
        "zookeeper.connect": kafka.zookeeper,
        "group.id": name,
        "broker.version": "0.9",
        "zookeeper.session.timeout.ms": 6000,
        "zookeeper.sync.time.ms": 2000,
        "auto.offset.reset": "smallest",
    }
    make = partial(Mirror, consumer, at(target), Whitelist(name), commit_interval_ms=60_000)
    with running(make()) as first:
        for written in range(0, 1800, 600):
            with running(make(streams=2)) as second:
                write(at(kafka), name, 3, range(written, written + 600), headers=False)
                wait_for(lambda written=written: is_copied(target, name, written + 600), "all is copied")
            assert not second
    assert not first
    assert is_committed(kafka, name, GroupKind.ZOOKEEPER, 1800)
    expected = rows(content(at(kafka), name, headers=False), is_old=True)
    assert rows(content(at(target), name), is_old=True) == expected


def is_copied(broker: EmbeddedBroker, topic: str, records: int) -> bool:
    with admin(broker) as one:
        if topic not in one.list_topics():
            return False
    return end_of(at(broker), topic) >= records
