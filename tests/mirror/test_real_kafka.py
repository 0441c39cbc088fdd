"""Apache Kafka on one side: 0.9 by classic and modern groups, and 4.x."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import confluent_kafka
import pytest

from ottla import Admin, EmbeddedBroker, TopicAndPartition
from ottla.admin import GroupKind, NewTopic
from ottla.consumer.classic import Whitelist
from ottla.mirror import Mirror
from ottla.model.errors import Unsupported
from tests.mirror.clusters import content, end_of, running, write
from tests.waiting import wait_for
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_4])
def kafka(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> RealKafka:
    return real_kafka(request.param)


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


either_way = pytest.mark.parametrize("whole_bytes", [1, 0], ids=["bytes", "columns"])


@either_way
def test_from_kafka_by_a_modern_group(
    kafka: RealKafka, target: EmbeddedBroker, name: str, whole_bytes: int
) -> None:
    with admin(kafka) as one:
        one.create_topics(NewTopic(name, 3, 1, configs={"segment.bytes": 1 << 20}))
    write(at(kafka), name, 3, range(3000), headers=not is_old(kafka))
    consumer = {**at(kafka), "group_id": name, "whole_batches_min_bytes": whole_bytes}
    mirror = Mirror(consumer, at(target), Whitelist(name), offset_commit_interval=0.2, streams=2)
    with running(mirror) as errors:
        wait_for(partial(is_committed, kafka, name, GroupKind.KAFKA, 3000), "all is committed")
    assert not errors
    expected = rows(content(at(kafka), name, headers=not is_old(kafka)), is_old=is_old(kafka))
    assert rows(content(at(target), name), is_old=is_old(kafka)) == expected


@either_way
def test_into_kafka(kafka: RealKafka, source: EmbeddedBroker, name: str, whole_bytes: int) -> None:
    """From two producers, whose numbers would make no sense to the broker."""
    source.create_topic(name, 3)
    for numbers, codec in ((range(1200), "gzip"), (range(1200, 3000), "zstd")):
        write(at(source), name, 3, numbers, headers=not is_old(kafka), compression_type=codec)
    producer = {**at(kafka), **({"zookeeper_connect": kafka.zookeeper} if is_old(kafka) else {})}
    consumer = {
        **at(source),
        "group_id": name,
        "fetch_wait_max_ms": 50,
        "whole_batches_min_bytes": whole_bytes,
    }
    with running(Mirror(consumer, producer, Whitelist(name), offset_commit_interval=0.2)) as errors:
        wait_for(partial(is_committed, source, name, GroupKind.KAFKA, 3000), "all is committed")
    assert not errors
    expected = rows(content(at(source), name), is_old=is_old(kafka))
    assert rows(content(at(kafka), name, headers=not is_old(kafka)), is_old=is_old(kafka)) == expected


def test_old_messages_into_old_kafka_are_not_decoded(
    kafka: RealKafka, source: EmbeddedBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_old(kafka):
        pytest.skip("it has no old formats")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a record was decoded or encoded")

    source.create_topic(name, 3, config={"message.format.version": "0.9.0"})  # keeps messages as they come
    write({**at(source), "broker_version": "0.9"}, name, 3, range(3000), headers=False)
    monkeypatch.setattr("ottla.fetching.collector.decode", refuse)
    monkeypatch.setattr("ottla.producer.whole_parts.decode", refuse)
    producer = {**at(kafka), "zookeeper_connect": kafka.zookeeper}
    consumer = {**at(source), "group_id": name, "fetch_wait_max_ms": 50}
    with running(Mirror(consumer, producer, Whitelist(name), offset_commit_interval=0.2)) as errors:
        wait_for(partial(is_committed, source, name, GroupKind.KAFKA, 3000), "all is committed")
    monkeypatch.undo()
    assert not errors
    assert content(at(kafka), name, headers=False) == content(at(source), name, headers=False)


@either_way
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions(
    kafka: RealKafka, target: EmbeddedBroker, name: str, whole_bytes: int, level: str
) -> None:
    """What was aborted is copied on request only, markers never, and into no transaction."""
    if is_old(kafka):
        pytest.skip("it has no transactions")
    with admin(kafka) as one:
        one.create_topics(NewTopic(name, 1, 1))
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name})
    producer.init_transactions()
    written: list[bytes] = []
    for number in range(6):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, row) for row in range(50)]
        for value in values:
            producer.produce(name, value, partition=0)
        producer.flush()
        if number % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
        if number % 3 != 1 or level == "read_uncommitted":
            written += values
    consumer = {
        **at(kafka),
        "group_id": name,
        "isolation_level": level,
        "whole_batches_min_bytes": whole_bytes,
    }
    with running(Mirror(consumer, at(target), Whitelist(name), offset_commit_interval=0.2)) as errors:
        wait_for(lambda: is_copied(target, name, len(written)), "all is copied")
        wait_for(partial(is_committed, kafka, name, GroupKind.KAFKA, 306), "all is committed")
    assert not errors
    assert [
        row[2] for row in content({**at(target), "isolation_level": "read_committed"}, name)[0]
    ] == written


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
    make = partial(Mirror, consumer, at(target), Whitelist(name), offset_commit_interval=60)
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


@either_way
def test_exactly_once_into_kafka(
    kafka: RealKafka, source: EmbeddedBroker, name: str, whole_bytes: int
) -> None:
    source.create_topic(name, 3)
    consumer = {
        **at(source),
        "group_id": name,
        "fetch_wait_max_ms": 50,
        "whole_batches_min_bytes": whole_bytes,
    }

    def mirror() -> Mirror:
        return Mirror(consumer, at(kafka), Whitelist(name), offset_commit_interval=0.2, exactly_once=True)

    if is_old(kafka):
        with pytest.raises(Unsupported, match="exactly_once: the target has no transactions"):
            mirror().run()
        return
    for numbers in (range(3000), range(3000, 6000)):
        write(at(source), name, 3, numbers)
        with running(mirror()) as errors:
            wait_for(partial(is_committed, source, name, GroupKind.KAFKA, numbers.stop), "all is committed")
        assert not errors
        with admin(source) as one:  # as if the mirror had died before it told the source
            one.alter_group_offsets(name, {TopicAndPartition(name, each): 5 for each in range(3)})
    committed = {**at(kafka), "isolation_level": "read_committed"}
    # Kafka answers a commit before its markers are in all partitions.
    wait_for(lambda: sum(map(len, content(committed, name).values())) >= 6000, "all markers are written")
    assert content(committed, name) == content(at(source), name)
