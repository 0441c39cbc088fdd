"""kafka-configs, kafka-delete-records and kafka-broker-api-versions beside Kafka's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla import EmbeddedBroker
from ottla.cli.kafka.configs import added
from tests.cli.kafka.conftest import Era, ours
from tests.compatibility.clients.tool_process import Run

CONFIGS = "kafka.admin.ConfigCommand"
TOPIC = "--entity-type topics --entity-name settled "


@pytest.fixture(scope="module")
def settled(new: Era) -> str:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    made = ours("kafka-topics", *at, "--create", "--topic", "settled", "--config", "retention.ms=5000000")
    assert made.code == 0
    return "settled"


def test_settings_as_kafka_4(new: Era, settled: str) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    for line in (
        "--describe " + TOPIC,
        "--describe --all --topic settled",
        "--alter " + TOPIC + "--add-config flush.ms=1000,cleanup.policy=[compact,delete]",
        "--describe " + TOPIC,
        "--alter " + TOPIC + "--delete-config flush.ms,cleanup.policy",
        "--describe " + TOPIC,
        "--alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=87654321",
        "--describe --entity-type brokers --entity-name 1",
        "--alter --broker-defaults --add-config log.retention.ms=87654322",
        "--describe --entity-type brokers --entity-default",
        "--describe --entity-type brokers",
        "--alter --broker 1 --delete-config log.retention.ms",
        "--alter --broker-defaults --delete-config log.retention.ms",
    ):
        found = ours("kafka-configs", *at, *line.split())
        assert found == new.tool(CONFIGS, *at, *line.split()), line


def test_loggers_client_metrics_and_groups_as_kafka_4(new: Era) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    logger = "org.apache.kafka.server.logger.LoggingController"
    metrics = "--entity-type client-metrics --entity-name watch "
    group = "--entity-type groups --entity-name grill "
    for line in (
        "--describe --entity-type broker-loggers --entity-name 1",
        "--describe --all --broker-logger 1",
        "--describe --entity-type broker-loggers --entity-name 7",
        "--describe --entity-type client-metrics",
        f"--describe {metrics}",
        f"--alter {metrics} --add-config interval.ms=500,metrics=[a.b,c],match=[client_id=x.*]",
        f"--describe {metrics}",
        "--describe --all --client-metrics watch",
        "--describe --entity-type client-metrics",
        f"--alter {metrics} --delete-config interval.ms,metrics,match",
        f"--describe {group}",
        f"--describe --all {group}",
        f"--alter {group} --add-config consumer.session.timeout.ms=50000,share.auto.offset.reset=earliest",
        f"--describe {group}",
        "--describe --group grill --all",
        "--alter --group grill --delete-config consumer.session.timeout.ms",
        "--describe --entity-type groups",
        f"--alter {group} --delete-config share.auto.offset.reset",
        "--describe --topic nosuch",
        "--describe --broker 7",
    ):
        found = ours("kafka-configs", *at, *line.split())
        assert found == new.tool(CONFIGS, *at, *line.split()), line
    levels = ours("kafka-configs", *at, "--describe", "--broker-logger", "1").printed
    assert f"  {logger}=" in levels
    for change in ("--add-config", f"{logger}=ERROR"), ("--delete-config", logger):
        arguments = (*at, "--alter", "--broker-logger", "1", *change)
        assert ours("kafka-configs", *arguments) == new.tool(CONFIGS, *arguments)


def test_both_tools_tell_the_same_of_our_broker(new: Era) -> None:
    with EmbeddedBroker() as broker:
        at = ("--bootstrap-server", broker.bootstrap)
        for line in (
            "--alter --client-metrics watch --add-config interval.ms=500,match=[client_id=x.*]",
            "--alter --group grill --add-config share.auto.offset.reset=earliest",
            "--alter --broker-logger 0 --add-config ottla.cli=ERROR",
            "--describe --client-metrics watch",
            "--describe --group grill",
            "--describe --group grill --all",
            "--describe --group nobody",
            "--describe --entity-type groups",
            "--describe --entity-type client-metrics",
            "--describe --broker-logger 0",
            "--alter --broker-logger 0 --delete-config ottla.cli",
        ):
            found = ours("kafka-configs", *at, *line.split())
            assert found == new.tool(CONFIGS, *at, *line.split()), line


def first_lines(run: Run, count: int) -> tuple[int, str, list[str]]:
    """Behind these Kafka has a stack trace, or usage."""
    return run.code, run.printed, run.complaints.splitlines()[:count]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        (f"--alter {TOPIC} --add-config nosuch=1", 2),
        ("--alter --client me --add-config nosuch=1", 1),
        ("--alter --client me --delete-config nosuch", 1),
        ("--alter --client me --delete-config consumer_byte_rate", 1),
        ("--alter --client me --add-config producer_byte_rate=x", 1),
        ("--alter --client me --add-config producer_byte_rate=1.5", 2),
        ("--alter --user bob --add-config nosuch=1", 1),
        ("--alter --ip 127.0.0.1 --add-config nosuch=1", 1),
        ("--alter --user bob --add-config SCRAM-SHA-256=[secret=x]", 1),
        ("--alter --user bob --add-config SCRAM-SHA-256=[iterations=100,password=x]", 1),
        ("--alter --user bob --add-config SCRAM-SHA-256=[password=x],producer_byte_rate=1", 1),
        ("--alter --user bob --add-config SCRAM-SHA-256=[password=x],SCRAM-SHA-512=[password=x]", 2),
        ("--alter --user bob --delete-config SCRAM-SHA-256", 2),
        ("--alter --user-defaults --add-config SCRAM-SHA-256=[password=x]", 1),
        ("--alter --client me --add-config SCRAM-SHA-256=[password=x]", 1),
        ("--alter --entity-type clients --add-config producer_byte_rate=1", 1),
        ("--alter --entity-type topics --add-config flush.ms=1", 1),
        (f"--alter {TOPIC} --add-config flush.ms=1=2", 1),
        (f"--alter {TOPIC} --add-config fl/ush=1", 1),
        (f"--alter {TOPIC}", 1),
        ("--alter --broker one --add-config log.retention.ms=1", 1),
        ("--alter --broker-logger 1 --add-config nosuch=DEBUG", 1),
        ("--alter --broker-logger 1 --delete-config nosuch", 1),
        ("--alter --broker-logger 1 --add-config org.apache.kafka.server.logger.LoggingController=LOUD", 2),
        ("--alter --broker-logger one --add-config kafka=DEBUG", 1),
        ("--alter --client-metrics m --add-config interval.ms=1", 2),
        ("--alter --client-metrics m --add-config nosuch=1", 2),
        ("--alter --group g --add-config nosuch=1", 2),
        ("--alter --group g --add-config consumer.session.timeout.ms=1", 2),
        ("--alter --group g --add-config consumer.session.timeout.ms=soon", 2),
        ("--alter --entity-type groups --add-config share.auto.offset.reset=latest", 1),
        ("--alter --entity-type client-metrics --add-config interval.ms=1000", 1),
        ("--describe --entity-type broker-loggers", 1),
        ("--describe --entity-type groups --entity-default", 1),
        ("--describe --entity-type nosuch", 1),
        ("--describe --entity-type groups --entity-type topics", 1),
        ("--describe --entity-type groups --entity-type groups", 1),
        ("--describe --entity-type groups --group g", 1),
        ("--describe", 1),
    ],
)
def test_settings_that_kafka_4_refuses(new: Era, settled: str, line: str, count: int) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, *line.split())
    theirs, found = new.tool(CONFIGS, *arguments), ours("kafka-configs", *arguments)
    assert first_lines(found, 2) == first_lines(theirs, count)


def test_quotas_as_kafka_4(new: Era) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    both = "--entity-type users --entity-name bob --entity-type clients --entity-name me "
    for line in (
        "--describe --entity-type clients",
        "--alter --client me --add-config producer_byte_rate=1000,consumer_byte_rate=20000000",
        "--alter --entity-type clients --entity-name other --add-config request_percentage=12.5",
        "--alter --client-defaults --add-config consumer_byte_rate=700000000",
        f"--alter {both} --add-config producer_byte_rate=7",
        "--alter --user bob --add-config controller_mutation_rate=3",
        "--alter --entity-type users --entity-default --add-config producer_byte_rate=990000000",
        "--alter --ip 127.0.0.1 --add-config connection_creation_rate=1000",
        "--describe --entity-type clients",
        "--describe --entity-type clients --entity-name me",
        "--describe --client nobody",
        "--describe --client-defaults",
        "--describe --entity-type users",
        "--describe --entity-type users --entity-type clients",
        f"--describe {both}",
        "--describe --user bob --client me",
        "--describe --user-defaults",
        "--describe --entity-type ips",
    ):
        found = ours("kafka-configs", *at, *line.split())
        assert found == new.tool(CONFIGS, *at, *line.split()), line
    # All of them, or the next tests were slowed down.
    for who, what, quotas in (
        ("--client me", "config for client me", "producer_byte_rate,consumer_byte_rate"),
        ("--client other", "config for client other", "request_percentage"),
        ("--client-defaults", "default config for clients in the cluster", "consumer_byte_rate"),
        (both, "config for user bob", "producer_byte_rate"),
        ("--user bob", "config for user bob", "controller_mutation_rate"),
        ("--user-defaults", "default config for users in the cluster", "producer_byte_rate"),
        ("--ip 127.0.0.1", "config for ip 127.0.0.1", "connection_creation_rate"),
    ):
        gone = ours("kafka-configs", *at, "--alter", *who.split(), "--delete-config", quotas)
        assert gone == (0, f"Completed updating {what}.\n", "")
    for kinds in (
        "--entity-type users --entity-type clients",
        "--entity-type users",
        "--entity-type clients",
    ):
        assert new.tool(CONFIGS, *at, "--describe", *kinds.split()).printed == ""


def words_of(run: Run) -> list[str]:
    return sorted(run.printed.replace(",", " ").split())


def test_passwords_as_kafka_4(new: Era) -> None:
    """Kafka's tool on Kafka, ours on ours; then Kafka's on ours."""
    with EmbeddedBroker() as broker:
        for line in (
            "--alter --user ann --add-config SCRAM-SHA-256=[iterations=8192,password=a=b,c]",
            "--alter --user ann --add-config SCRAM-SHA-512=[password=s3cret]",
            "--describe --user ann",
            "--describe --entity-type users",
            "--alter --user ann --delete-config SCRAM-SHA-512",
            "--describe --user ann",
            "--alter --user ann --delete-config SCRAM-SHA-256",
            "--describe --user ann",
        ):
            theirs = new.tool(CONFIGS, "--bootstrap-server", new.kafka.bootstrap, *line.split())
            found = ours("kafka-configs", "--bootstrap-server", broker.bootstrap, *line.split())
            # Two mechanisms are in the order of a hash map over an enumeration: another one in each process.
            assert found.code == theirs.code, line
            assert words_of(found) == words_of(theirs), line
        at = ("--bootstrap-server", broker.bootstrap, "--user", "ann")
        done = new.tool(CONFIGS, *at, "--alter", "--add-config", "SCRAM-SHA-256=[password=x]")
        assert done.code == 0
        assert "iterations=4096" in ours("kafka-configs", *at, "--describe").printed


def test_settings_as_kafka_0_9(old: Era) -> None:
    at = ("--zookeeper", old.kafka.zookeeper)
    create = ("--create", "--topic", "settled", "--partitions", "1", "--replication-factor", "1")
    assert ours("kafka-topics", *at, *create).code == 0
    for line in (
        "--alter " + TOPIC + "--add-config flush.ms=1000,retention.ms=7",
        "--describe " + TOPIC,
        "--alter " + TOPIC + "--delete-config flush.ms",
        "--describe " + TOPIC,
        "--alter --entity-type clients --entity-name me --add-config producer_byte_rate=1000",
        "--describe --entity-type clients --entity-name me",
        "--describe --entity-type clients",
    ):
        found = ours("kafka-configs.sh", *at, *line.split())
        assert found == old.tool(CONFIGS, *at, *line.split()), line


def test_values_with_commas() -> None:
    assert added(["a=1,b=[2,3] , c="]) == {"a": "1", "b": "2,3", "c": ""}


def test_records_are_deleted_as_by_kafka_4(new: Era, tmp_path: Path) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    assert ours("kafka-topics", *at, "--create", "--topic", "short", "--partitions", "1").code == 0
    assert ours("kafka-console-producer", *at, "--topic", "short", text="1\n2\n3\n4\n").code == 0
    path = tmp_path / "offsets.json"
    tool = "org.apache.kafka.tools.DeleteRecordsCommand"
    part = {"topic": "short", "partition": 0, "offset": 2}
    arguments = (*at, "--offset-json-file", str(path))
    path.write_text(json.dumps({"partitions": [part], "version": 1}))
    found = ours("kafka-delete-records", *arguments)
    assert found.printed.splitlines()[-1] == "partition: short-0\tlow_watermark: 2"
    assert found == new.tool(tool, *arguments)
    for wrong in ({"partitions": [part, part]}, {"partitions": [part], "version": 2}, {"version": 1}):
        path.write_text(json.dumps(wrong))
        theirs, found = new.tool(tool, *arguments), ours("kafka-delete-records", *arguments)
        assert (found.code, found.printed) == (theirs.code, theirs.printed)
        assert found.complaints.splitlines()[0] == theirs.complaints.splitlines()[0]


def test_versions_as_kafka_4_tells_them(new: Era) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap)
    theirs = new.tool("org.apache.kafka.tools.BrokerApiVersionsCommand", *arguments)
    assert ours("kafka-broker-api-versions", *arguments) == theirs
