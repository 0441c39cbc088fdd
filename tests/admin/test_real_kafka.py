"""The same on Apache Kafka: 0.9, which has no admin calls and is served through ZooKeeper, 3.9 and 4.x."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from ottla import Producer
from ottla.admin import (
    Admin,
    ConfigKind,
    ConfigSource,
    GroupKind,
    NewPartitions,
    NewTopic,
    TopicAndPartition,
    TopicCreation,
    broker_logger_resource,
    broker_resource,
    client_metrics_resource,
    client_resource,
    group_resource,
    topic_resource,
)
from ottla.console.server import ConsoleServer
from ottla.model.error_codes import Code
from ottla.model.errors import AdminErrors, KafkaError, Unsupported
from tests.broker.registration.kafka_commands import run
from tests.console.visitor import Visitor
from tests.waiting import wait_for
from tools.java_process import java_command
from tools.peers import KAFKA_0_9, KAFKA_3, KAFKA_4, RealKafka, kafka_libs

ONLY_0_9 = pytest.mark.parametrize("kafka", [KAFKA_0_9], indirect=True)
SINCE_4_3 = pytest.mark.parametrize("kafka", [KAFKA_4], indirect=True)
SINCE_3_9 = pytest.mark.parametrize("kafka", [KAFKA_3, KAFKA_4], indirect=True)


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_3, KAFKA_4])
def kafka(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> RealKafka:
    return real_kafka(request.param)


def pin(kafka: RealKafka) -> dict[str, object]:
    return {"broker.version": "0.9"} if kafka.version == KAFKA_0_9 else {}


@pytest.fixture
def admin(kafka: RealKafka) -> Iterator[Admin]:
    keeper = {"zookeeper.connect": kafka.zookeeper} if kafka.zookeeper else {}
    with Admin({"bootstrap.servers": kafka.bootstrap, **keeper, **pin(kafka)}) as one:
        yield one


@pytest.fixture
def places(kafka: RealKafka, admin: Admin, name: str) -> list[TopicAndPartition]:
    """A topic of three partitions with ten records each."""
    admin.create_topics(NewTopic(name, partitions=3, replication_factor=1))
    write(kafka, name, 30)
    return [TopicAndPartition(name, number) for number in range(3)]


def write(kafka: RealKafka, topic: str, count: int, size: int = 1) -> None:
    with Producer(
        {"bootstrap.servers": kafka.bootstrap, "delivery.timeout.ms": 60_000, **pin(kafka)}
    ) as producer:
        sent = [producer.send(topic, b"x" * size, partition=number % 3) for number in range(count)]
        for one in sent:
            one.result()


# --- every broker


def test_topics(kafka: RealKafka, admin: Admin, name: str) -> None:
    made = admin.create_topics(NewTopic(name, 3, 1, configs={"retention.ms": 1_000_000}))
    assert made == TopicCreation(name, 3, 1)
    write(kafka, name, 3)
    admin.create_partitions(NewPartitions(name, 5))
    found = admin.describe_topics(name)
    assert [(one.partition, one.leader, one.replicas, one.isr) for one in found.partitions] == [
        (number, 1, (1,), (1,)) for number in range(5)
    ]
    assert all(one.leader_epoch == 0 for one in found.partitions)
    assert (found.topic_id is None) == (kafka.version == KAFKA_0_9)
    with pytest.raises(AdminErrors, match="3 of 4 failed") as caught:
        admin.create_topics(
            [NewTopic(name, 1, 1), NewTopic("wide", 1, 9), NewTopic("a b", 1, 1), NewTopic(f"{name}-2", 1, 1)]
        )
    codes = {key: getattr(error, "code", None) for key, error in caught.value.errors.items()}
    assert codes[name] == Code.TOPIC_ALREADY_EXISTS
    assert codes["wide"] == Code.INVALID_REPLICATION_FACTOR
    assert set(caught.value.results) == {f"{name}-2"}
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.describe_topics("never-made")
    assert "never-made" not in admin.list_topics()
    admin.delete_topics([name, f"{name}-2"])
    wait_for(lambda: not {name, f"{name}-2"} & set(admin.list_topics()))


def test_settings_of_topics_take_effect(kafka: RealKafka, admin: Admin, name: str) -> None:
    one = topic_resource(name)
    admin.create_topics(NewTopic(name, 3, 1, configs={"flush.ms": 9000}))
    admin.alter_configs(one, {"max.message.bytes": 500, "flush.ms": None})
    # In KRaft mode the controller has changed it, and the broker hears of it a moment later.
    wait_for(lambda: admin.describe_configs(one)["max.message.bytes"].value == "500")
    found = admin.describe_configs(one)
    assert "flush.ms" not in found or found["flush.ms"].is_default
    for wrong in ({"max.message.bytes": "many"}, {"max.message.bites": 1}):
        with pytest.raises(KafkaError, match="INVALID_CONFIG"):
            admin.alter_configs(one, wrong)

    def is_refused() -> bool:
        try:
            write(kafka, name, 1, size=1000)
        except KafkaError as error:
            return error.code in {Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE}
        return False

    wait_for(is_refused)


def test_offsets_of_logs(kafka: RealKafka, admin: Admin, places: list[TopicAndPartition]) -> None:
    topic = places[0].topic
    assert [one.offset for one in admin.list_offsets(topic).values()] == [10, 10, 10]
    assert [one.offset for one in admin.list_offsets(topic, "earliest").values()] == [0, 0, 0]
    # 0.9 knows times of segments only: nothing is older than 1970, and everything than the far future.
    early, late = (None, 10) if kafka.version == KAFKA_0_9 else (0, None)
    assert admin.list_offsets(places[1], datetime(1970, 1, 1, tzinfo=UTC)).offset == early
    assert admin.list_offsets(places[1], datetime(2096, 1, 1, tzinfo=UTC)).offset == late


def test_offsets_and_lag_of_a_group(
    kafka: RealKafka, admin: Admin, places: list[TopicAndPartition], name: str
) -> None:
    admin.reset_group_offsets(name, places, "earliest", kind=GroupKind.KAFKA)
    admin.alter_group_offsets(name, {places[1]: 7}, kind=GroupKind.KAFKA)
    assert [one.offset for one in admin.group_offsets(name).values()] == [0, 7, 0]
    lag = admin.group_lag(name)
    assert [row.lag for row in lag.partitions] == [10, 3, 10]
    assert (lag.group.kind, lag.group.state, lag.total) == (GroupKind.KAFKA, "Empty", 23)
    if kafka.version == KAFKA_0_9:
        with pytest.raises(Unsupported, match=r"0\.9 has no OffsetDelete call.*let the offsets expire"):
            admin.delete_group_offsets(name, places)
        with pytest.raises(Unsupported, match=r"0\.9 has no DeleteGroups call.*expire by themselves"):
            admin.delete_groups(name)
    else:
        admin.delete_group_offsets(name, places[:1])
        assert list(admin.group_offsets(name)) == places[1:]
        admin.delete_groups(name)
        assert admin.group_offsets(name) == {}


@contextmanager
def member(kafka: RealKafka, group: str, topic: str, **more: object) -> Iterator[Consumer]:
    """A consumer that has joined and read."""
    old = {"api.version.request": False, "broker.version.fallback": "0.9.0"}
    settings: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": group,
        "client.id": "reader",
    }
    settings |= {"auto.offset.reset": "earliest", "enable.auto.commit": False, "session.timeout.ms": 10_000}
    settings |= old if kafka.version == KAFKA_0_9 else {}
    consumer = Consumer({key: value for key, value in (settings | more).items() if value is not None})
    consumer.subscribe([topic])
    try:
        wait_for(lambda: (read := consumer.poll(0.1)) is not None and read.error() is None)
        yield consumer
    finally:
        consumer.close()


@SINCE_3_9
def test_a_group_that_does_not_exist(admin: Admin, name: str) -> None:
    """3.9 knows the calls for newer groups, and answers that they are off."""
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        admin.group_lag(name)


def test_a_group_with_a_member(
    kafka: RealKafka, admin: Admin, places: list[TopicAndPartition], name: str
) -> None:
    with member(kafka, name, places[0].topic):
        found = admin.describe_groups(name)
        assert (found.kind, found.state, found.assignor) == (GroupKind.KAFKA, "Stable", "range")
        (one,) = found.members
        assert (one.client_id, one.host, one.assignment) == ("reader", "127.0.0.1", tuple(places))
        kinds = {listed.group_id: listed.group_type for listed in admin.list_groups()}
        assert kinds[name] == ("" if kafka.version == KAFKA_0_9 else "classic")
        with pytest.raises(AdminErrors, match="still has members; stop them first"):
            admin.alter_group_offsets(name, {places[0]: 1})


# --- brokers with the calls


@pytest.mark.parametrize("kafka", [KAFKA_4], indirect=True)
def test_a_group_whose_coordinator_assigns(
    kafka: RealKafka, admin: Admin, places: list[TopicAndPartition], name: str
) -> None:
    with member(kafka, name, places[0].topic, **{"group.protocol": "consumer", "session.timeout.ms": None}):
        wait_for(lambda: [one.assignment for one in admin.describe_groups(name).members] == [tuple(places)])
        found = admin.describe_groups(name)
        assert (found.kind, found.state, found.assignor) == (GroupKind.KAFKA, "Stable", "uniform")
        (one,) = found.members
        assert (one.client_id, one.host) == ("reader", "127.0.0.1")
        assert one.subscription == (places[0].topic,)
        assert [row.member for row in admin.group_lag(name).partitions] == [one] * 3
    wait_for(lambda: admin.describe_groups(name).state == "Empty")
    admin.delete_groups(name)


@SINCE_3_9
def test_records_are_deleted(admin: Admin, places: list[TopicAndPartition]) -> None:
    assert admin.delete_records({places[0]: 4, places[1]: "latest"}) == {places[0]: 4, places[1]: 10}
    with pytest.raises(AdminErrors, match="OFFSET_OUT_OF_RANGE"):
        admin.delete_records({places[2]: 99})
    assert [one.offset for one in admin.list_offsets(places, "earliest").values()] == [4, 10, 0]


@SINCE_3_9
def test_settings_of_brokers_and_the_cluster(admin: Admin, kafka: RealKafka) -> None:
    one = broker_resource(1)
    assert admin.describe_configs(one)["node.id"].value == "1"
    admin.alter_configs(one, {"log.cleaner.threads": 2})
    wait_for(lambda: admin.describe_configs(one)["log.cleaner.threads"].value == "2")
    admin.alter_configs(broker_resource(None), {"message.max.bytes": 999_999}, validate_only=True)
    cluster = admin.describe_cluster()
    assert cluster.cluster_id
    assert [str(node.address) for node in cluster.brokers] == [kafka.bootstrap]


@SINCE_3_9
def test_client_metrics_and_loggers(admin: Admin, name: str) -> None:
    metrics, loggers = client_metrics_resource(name), broker_logger_resource(1)
    admin.alter_configs(metrics, {"interval.ms": 500})
    wait_for(lambda: admin.list_config_resources([ConfigKind.CLIENT_METRICS]) == (metrics,))
    interval = admin.describe_configs(metrics)["interval.ms"]
    assert (interval.value, interval.source) == ("500", ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)
    assert broker_logger_resource(1) in admin.list_config_resources()
    admin.alter_configs(metrics, {"interval.ms": None})
    wait_for(lambda: admin.list_config_resources([ConfigKind.CLIENT_METRICS]) == ())
    levels = admin.describe_configs(loggers)
    logger = next(one for one in levels if one.startswith("org.apache.kafka."))
    admin.alter_configs(loggers, {logger: "ERROR"})
    assert admin.describe_configs(loggers)[logger].value == "ERROR"
    admin.alter_configs(loggers, {logger: None})
    with pytest.raises(KafkaError, match="broker logger '1'"):
        admin.alter_configs(loggers, {"nosuch.logger": "DEBUG"})


@SINCE_4_3
def test_settings_of_groups(admin: Admin, name: str) -> None:
    group = group_resource(name)
    admin.alter_configs(group, {"consumer.session.timeout.ms": 50_000})
    wait_for(lambda: group in admin.list_config_resources([ConfigKind.GROUP]))
    assert group in admin.list_config_resources()
    timeout = admin.describe_configs(group)["consumer.session.timeout.ms"]
    assert (timeout.value, timeout.source) == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    with pytest.raises(KafkaError, match=f"group '{name}'"):
        admin.alter_configs(group, {"nosuch": 1})
    admin.alter_configs(group, {"consumer.session.timeout.ms": None})
    wait_for(lambda: group not in admin.list_config_resources([ConfigKind.GROUP]))


# --- 0.9, through ZooKeeper


@ONLY_0_9
def test_kafkas_own_tool_sees_the_same_topic(kafka: RealKafka, admin: Admin, name: str) -> None:
    admin.create_topics(NewTopic(name, 2, 1, configs={"retention.ms": 86_400_000}))
    admin.create_partitions(NewPartitions(name, 3))
    told = run(
        kafka_libs(KAFKA_0_9),
        "kafka.admin.TopicCommand",
        *("--zookeeper", kafka.zookeeper, "--describe", "--topic", name),
    )
    lines = [line for line in told.splitlines() if name in line]
    assert lines == [
        f"Topic:{name}\tPartitionCount:3\tReplicationFactor:1\tConfigs:retention.ms=86400000",
        *(
            f"\tTopic: {name}\tPartition: {one.partition}\tLeader: {one.leader}\tReplicas: 1\tIsr: 1"
            for one in admin.describe_topics(name).partitions
        ),
    ]


@ONLY_0_9
def test_zookeeper_alone_finds_the_brokers(kafka: RealKafka) -> None:
    with Admin(zookeeper_connect=kafka.zookeeper, broker_version="0.9") as admin:
        cluster = admin.describe_cluster()
        assert [str(node.address) for node in cluster.brokers] == [kafka.bootstrap]
        assert cluster.controller_id == 1


@ONLY_0_9
def test_the_console_shows_an_old_cluster(
    kafka: RealKafka, admin: Admin, places: list[TopicAndPartition], name: str
) -> None:
    """Every page; what the broker has no call for is said."""
    admin.reset_group_offsets(name, places, "earliest", kind=GroupKind.ZOOKEEPER)
    settings = {"bootstrap.servers": kafka.bootstrap, "zookeeper.connect": kafka.zookeeper, **pin(kafka)}
    with ConsoleServer(settings, every_s=0.5) as console:
        console.start()
        wait_for(lambda: name in console.snapshot.lags, lambda: console.snapshot)
        visitor = Visitor(console.url)
        pages = {
            "/": "healthy",
            f"/topics/{name}": "All settings",
            f"/topics/{name}/messages?partition=1": "offsets 0 to 10 of 0 to 10",
            f"/topics/{name}/search?contains=x&plain=1": "30 hits",
            "/groups": "<td>ZooKeeper</td>",
            f"/groups/{name}": "records behind",
            "/brokers": "controller",
            "/transactions": "the broker 0.9 has no ListTransactions call",
            "/acls": "the broker 0.9 has no DescribeAcls call",
            f"/zookeeper?path=/consumers/{name}/offsets": f">{name}</a>",
        }
        for path, expected in pages.items():
            status, text, *_ = visitor.ask("GET", path)
            assert (status, expected in text) == (200, True), text


@ONLY_0_9
def test_what_is_missing_without_zookeeper_is_told(kafka: RealKafka, places: list[TopicAndPartition]) -> None:
    with Admin(bootstrap_servers=kafka.bootstrap, broker_version="0.9") as admin:
        assert len(admin.describe_topics(places[0].topic).partitions) == 3
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            admin.describe_topics("never-made")
        assert "never-made" not in admin.list_topics()
        for call in (
            lambda: admin.create_topics(NewTopic("t", 1, 1)),
            lambda: admin.delete_topics("t"),
            lambda: admin.create_partitions(NewPartitions("t", 2)),
            lambda: admin.describe_configs(topic_resource("t")),
            lambda: admin.alter_configs(topic_resource("t"), {"flush.ms": 1}),
            lambda: admin.describe_groups("g", kind=GroupKind.ZOOKEEPER),
        ):
            with pytest.raises(Unsupported, match=r"zookeeper\.connect is not set; give zookeeper_connect="):
                call()
        with pytest.raises(Unsupported, match=r"0\.9 has no DeleteRecords call.*retention\.ms"):
            admin.delete_records({places[0]: 1})
        with pytest.raises(Unsupported, match=r"before 3\.0"):
            admin.list_offsets(places[0], "max-timestamp")


@ONLY_0_9
def test_quotas_of_clients(admin: Admin) -> None:
    one = client_resource("billing")
    admin.alter_configs(one, {"producer_byte_rate": 1_000_000})
    assert admin.describe_configs(one)["producer_byte_rate"].value == "1000000"
    with pytest.raises(Unsupported, match=r"server\.properties"):
        admin.describe_configs(broker_resource(1))


@contextmanager
def classic_member(kafka: RealKafka, group: str, topic: str, directory: Path) -> Iterator[None]:
    """Kafka's own console consumer of 0.9, which commits to ZooKeeper."""
    config = directory / "consumer.properties"
    config.write_text(f"group.id={group}\nauto.commit.interval.ms=100\n")
    command = [*java_command(kafka_libs(KAFKA_0_9), heap_mb=128), "kafka.tools.ConsoleConsumer"]
    command += ["--zookeeper", kafka.zookeeper, "--topic", topic, "--from-beginning"]
    command += ["--consumer.config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


@ONLY_0_9
def test_a_classic_group(
    kafka: RealKafka, admin: Admin, places: list[TopicAndPartition], name: str, tmp_path: Path
) -> None:
    def is_caught_up() -> bool:
        offsets = admin.group_offsets(name, kind=GroupKind.ZOOKEEPER) if is_there() else {}
        return [one.offset for one in offsets.values()] == [10, 10, 10]

    def is_there() -> bool:
        return (name, GroupKind.ZOOKEEPER) in {(one.group_id, one.kind) for one in admin.list_groups()}

    with classic_member(kafka, name, places[0].topic, tmp_path):
        wait_for(is_caught_up)
        found = admin.describe_groups(name)
        assert (found.kind, found.state) == (GroupKind.ZOOKEEPER, "Stable")
        (one,) = found.members
        assert one.member_id.startswith(f"{name}_{one.host}-")
        assert (one.subscription, one.assignment) == ((places[0].topic,), tuple(places))
        write(kafka, places[0].topic, 3)
        rows = admin.group_lag(name).partitions
        assert {(row.member, row.owner) for row in rows} == {(one, f"{one.member_id}-0")}
        with pytest.raises(KafkaError, match="still has members; stop them first"):
            admin.reset_group_offsets(name, places, "earliest")
    wait_for(lambda: admin.describe_groups(name).state == "Empty")
    admin.reset_group_offsets(name, places, shift_by=-4)
    told = run(
        kafka_libs(KAFKA_0_9),
        "kafka.admin.ConsumerGroupCommand",
        *("--zookeeper", kafka.zookeeper, "--describe", "--group", name),
    )
    lines = [line for line in told.splitlines() if line.startswith(f"{name}, ")]
    assert lines == [
        f"{name}, {row.topic_partition.topic}, {row.topic_partition.partition}, {row.committed}, {row.end}, "
        f"{row.lag}, none"
        for row in admin.group_lag(name).partitions
    ]
    assert {row.stored_in for row in admin.group_lag(name).partitions} == {GroupKind.ZOOKEEPER}
    admin.delete_group_offsets(name, places[:1])
    assert list(admin.group_offsets(name)) == places[1:]
    admin.delete_groups(name)
    assert not is_there()
