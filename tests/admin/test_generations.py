"""Brokers between 0.10 and 2.x: the embedded broker, asked in the versions that these have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pytest

from ottla import Producer
from ottla.admin import (
    Admin,
    ConfigKind,
    ConfigSource,
    NewPartitions,
    NewTopic,
    TopicAndPartition,
    TopicCreation,
    broker_logger_resource,
    broker_resource,
    client_metrics_resource,
    group_resource,
    topic_resource,
)
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.errors import KafkaError, Unsupported
from ottla.wire import versions
from ottla.wire.version_range import VersionRange
from ottla.wire.versions import GENERATIONS

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
DESCRIBE_GROUPS, LIST_GROUPS, CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS = 15, 16, 19, 20, 21
DESCRIBE_CONFIGS, ALTER_CONFIGS, CREATE_PARTITIONS, DELETE_GROUPS = 32, 33, 37, 42

OF_0_10_1 = {
    PRODUCE: 2,
    FETCH: 3,
    LIST_OFFSETS: 1,
    METADATA: 2,
    OFFSET_COMMIT: 2,
    OFFSET_FETCH: 1,
    FIND_COORDINATOR: 0,
    DESCRIBE_GROUPS: 0,
    LIST_GROUPS: 0,
    CREATE_TOPICS: 0,
    DELETE_TOPICS: 0,
}
OF_0_11 = {
    **OF_0_10_1,
    PRODUCE: 3,
    FETCH: 5,
    LIST_OFFSETS: 2,
    METADATA: 4,
    OFFSET_COMMIT: 3,
    OFFSET_FETCH: 3,
    FIND_COORDINATOR: 1,
    DESCRIBE_GROUPS: 1,
    LIST_GROUPS: 1,
    CREATE_TOPICS: 2,
    DELETE_TOPICS: 1,
    DELETE_RECORDS: 0,
    DESCRIBE_CONFIGS: 0,
    ALTER_CONFIGS: 0,
}
OF_1_1 = {**OF_0_11, METADATA: 5, DESCRIBE_CONFIGS: 1, CREATE_PARTITIONS: 0, DELETE_GROUPS: 0}
LIST_CONFIG_RESOURCES = 74
OF_3_7 = {**OF_1_1, DESCRIBE_CONFIGS: 4, LIST_CONFIG_RESOURCES: 0}
OLDER = {"0.10.1": OF_0_10_1, "0.11": OF_0_11, "1.1": OF_1_1}


@pytest.fixture(autouse=True)
def generations(monkeypatch: pytest.MonkeyPatch) -> None:
    def ranges(newest: Mapping[int, int]) -> dict[int, VersionRange]:
        return {key: VersionRange(0, version) for key, version in newest.items()}

    known = {**GENERATIONS, **{name: ranges(newest) for name, newest in {**OLDER, "3.7": OF_3_7}.items()}}
    monkeypatch.setattr(versions, "GENERATIONS", known)


@pytest.fixture(params=OLDER)
def older(request: pytest.FixtureRequest, brokers: EmbeddedBroker) -> Iterator[tuple[str, Admin]]:
    with Admin(bootstrap_servers=brokers.bootstrap, broker_version=request.param) as one:
        yield request.param, one


def test_topics(older: tuple[str, Admin], admin: Admin, name: str) -> None:
    version, old = older
    assert old.create_topics(NewTopic(name, 2, 3)) == TopicCreation(name, 2, 3)
    placed = f"{name}-placed"
    assert old.create_topics([NewTopic(placed, assignment={0: [1, 2]})]) == {
        placed: TopicCreation(placed, 1, 2)
    }
    with pytest.raises(Unsupported, match=r"before 2\.4 cannot be asked for their defaults"):
        old.create_topics(NewTopic("t", partitions=1))
    if version == "0.10.1":
        with pytest.raises(Unsupported, match="cannot only check"):
            old.create_topics(NewTopic("t", 1, 1), validate_only=True)
    assert old.describe_topics(name).partitions[0].leader is not None
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        old.describe_topics("not-to-be-made")
    if version == "1.1":
        old.create_partitions(NewPartitions(name, 3))
    else:
        with pytest.raises(Unsupported, match=r"no CreatePartitions call.*zookeeper_connect="):
            old.create_partitions(NewPartitions(name, 3))
    old.delete_topics([name, placed])
    assert not {name, placed, "not-to-be-made"} & set(admin.list_topics())


def test_settings_are_replaced_as_a_whole(older: tuple[str, Admin], admin: Admin, topic: str) -> None:
    version, old = older
    one = topic_resource(topic)
    if version == "0.10.1":
        with pytest.raises(Unsupported, match=r"no AlterConfigs call.*zookeeper_connect="):
            old.alter_configs(one, {"flush.ms": 3})
        return
    admin.alter_configs(one, {"flush.ms": 5, "retention.ms": 6})
    old.alter_configs([one], {"flush.ms": None, "segment.ms": 7})
    found = old.describe_configs(one)
    own = {key for key, entry in found.items() if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}
    assert own == {"retention.ms", "segment.ms"}
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        old.alter_configs(topic_resource("missing"), {"flush.ms": 3})


def test_offsets_and_groups(older: tuple[str, Admin], brokers: EmbeddedBroker, topic: str) -> None:
    version, old = older
    with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        producer.send(topic, b"x", partition=1, timestamp_ms=1_600_000_000_000)
    place = TopicAndPartition(topic, 1)
    assert old.list_offsets(place).offset == 1
    assert old.list_offsets(place, datetime(2017, 1, 1, tzinfo=UTC)).timestamp_ms == 1_600_000_000_000
    old.alter_group_offsets(topic, {place: 0})
    assert old.group_lag(topic).total == 1
    assert topic in {one.group_id for one in old.list_groups()}
    if version == "1.1":
        old.delete_groups(topic)
        assert old.group_offsets(topic) == {}
    else:
        with pytest.raises(Unsupported, match="no DeleteGroups call"):
            old.delete_groups(topic)
    if version != "0.10.1":
        assert old.delete_records({place: 1}) == {place: 1}


def test_what_has_settings_is_listed_or_looked_up(brokers: EmbeddedBroker, admin: Admin, name: str) -> None:
    admin.create_topics(NewTopic(name, 1, 1))
    metrics = client_metrics_resource(name)
    admin.alter_configs(metrics, {"interval.ms": 500})
    everywhere = {topic_resource(name), broker_resource(0), broker_logger_resource(2)}
    with Admin(bootstrap_servers=brokers.bootstrap, broker_version="3.7") as old:
        assert {*everywhere, metrics} <= set(old.list_config_resources())
        assert old.list_config_resources([ConfigKind.CLIENT_METRICS]) == (metrics,)
        with pytest.raises(Unsupported, match=r"groups cannot be listed here.*since 4\.1"):
            old.list_config_resources([ConfigKind.GROUP, ConfigKind.TOPIC])
    with Admin(bootstrap_servers=brokers.bootstrap, broker_version="1.1") as old:
        assert everywhere <= set(old.list_config_resources())
        with pytest.raises(Unsupported, match="client-metrics cannot be listed here"):
            old.list_config_resources([ConfigKind.CLIENT_METRICS])
    with (
        Admin(bootstrap_servers=brokers.bootstrap, broker_version="0.10.1") as old,
        pytest.raises(Unsupported, match=r"settings of group 'g': .* has no DescribeConfigs call"),
    ):
        old.describe_configs(group_resource("g"))
    admin.alter_configs(metrics, {"interval.ms": None})
