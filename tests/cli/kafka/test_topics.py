"""kafka-topics beside TopicCommand of Kafka 0.9 and of Kafka 4, on the same clusters."""

from __future__ import annotations

import re

import pytest

from ottla.cli.kafka.java_order import java_order
from ottla.model.java_hashes import java_hash
from tests.cli.kafka.conftest import Era, ours

NEW_CLASS = "org.apache.kafka.tools.TopicCommand"
OLD_CLASS = "kafka.admin.TopicCommand"


@pytest.fixture(scope="module")
def new_topics(new: Era) -> None:
    """Made by our tool."""
    at = ("kafka-topics", "--bootstrap-server", new.kafka.bootstrap, "--create", "--topic")
    configs = ("--config", "retention.ms=5000000", "--config", "cleanup.policy=compact,delete")
    made = ours(*at, "made-one", "--partitions", "2", "--replication-factor", "1", *configs)
    assert made == (0, "Created topic made-one.\n", "")
    assert ours(*at, "made-two", "--replica-assignment", "1,1,1") == (0, "Created topic made-two.\n", "")


@pytest.mark.parametrize(
    "line",
    [
        "--create --topic made-one --partitions 1",
        "--create --topic made-one --if-not-exists",
        "--create --topic made-three --replication-factor 3",
        "--create --topic made-three --config nosuch=1",
        "--create --topic made-three --config retention.ms=x",
        "--list",
        "--list --topic made.*",
        "--list --exclude-internal",
        "--describe --topic made-.*",
        "--describe --topic made-.* --topics-with-overrides",
        "--describe --topic made-.* --under-replicated-partitions",
        "--describe --topic made-.* --unavailable-partitions",
        "--describe --topic made-one --at-min-isr-partitions",
        "--describe --topic nosuch",
        "--describe --topic nosuch --if-exists",
        "--alter --topic made-two --partitions 2",
        "--alter --topic nosuch --partitions 2",
        "--delete --topic nosuch",
        "--delete --topic nosuch --if-exists",
    ],
)
def test_as_kafka_4(new: Era, new_topics: None, line: str) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, *line.split())
    theirs, found = new.tool(NEW_CLASS, *arguments), ours("kafka-topics.sh", *arguments)
    assert (found.code, found.printed) == (theirs.code, theirs.printed)


@pytest.mark.parametrize(
    "line",
    [
        "--bootstrap-server a:1",
        "--bootstrap-server a:1 --list --create",
        "--bootstrap-server a:1 --alter --topic t --config a=b",
    ],
)
def test_command_lines_that_kafka_4_refuses(new: Era, line: str) -> None:
    theirs, found = new.tool(NEW_CLASS, *line.split()), ours("kafka-topics.sh", *line.split())
    assert (found.code, found.printed) == (theirs.code, theirs.printed)
    # Kafka lists options in the order of a set of objects, which is another one in every run.
    first, wanted = (one.complaints.splitlines()[0] for one in (found, theirs))
    assert sorted(re.findall(r"[\w-]+", first)) == sorted(re.findall(r"[\w-]+", wanted))


def test_growth_and_deletion_as_kafka_4(new: Era) -> None:
    at = ("kafka-topics", "--bootstrap-server", new.kafka.bootstrap)
    assert ours(*at, "--create", "--topic", "grows", "--partitions", "1").code == 0
    assert ours(*at, "--alter", "--topic", "grows", "--partitions", "3", "--replica-assignment", "1,1,1") == (
        0,
        "",
        "",
    )
    described = ours(*at, "--describe", "--topic", "grows")
    assert "PartitionCount: 3" in described.printed
    assert described.printed == new.tool(NEW_CLASS, *at[1:], "--describe", "--topic", "grows").printed
    assert ours(*at, "--delete", "--topic", "grows") == (0, "", "")
    assert ours(*at, "--list", "--topic", "grows") == (0, "\n", "")


@pytest.fixture(scope="module")
def old_topics(shared_old: Era) -> None:
    """Made by our tool."""
    at = ("kafka-topics", "--zookeeper", shared_old.kafka.zookeeper, "--create", "--topic")
    configs = (
        "--config",
        "retention.ms=5000000",
        "--config",
        "flush.ms=1000",
        "--config",
        "cleanup.policy=delete",
    )
    made = ours(*at, "made-one", "--partitions", "2", "--replication-factor", "1", *configs)
    assert made == (0, 'Created topic "made-one".\n', "")
    assert ours(*at, "made-two", "--replica-assignment", "1,1,1").code == 0


@pytest.mark.parametrize(
    "line",
    [
        "--create --topic made-one --partitions 1 --replication-factor 1",
        "--create --topic made_three --partitions 1 --replication-factor 3",
        "--list",
        "--list --topic made.*",
        "--describe --topic made-.*",
        "--describe --topic made-.* --topics-with-overrides",
        "--describe --topic made-.* --under-replicated-partitions",
        "--describe --topic made-.* --unavailable-partitions",
        "--describe --topic nosuch",
        "--alter --topic made-two --config flush.ms=1000",
        "--alter --topic made-two --delete-config flush.ms",
        "--alter --topic made-two --partitions 2",
        "--alter --topic nosuch --partitions 2",
        "--delete --topic nosuch",
        "--delete --topic __consumer_offsets",
    ],
)
def test_as_kafka_0_9(old: Era, old_topics: None, line: str) -> None:
    arguments = ("--zookeeper", old.kafka.zookeeper, *line.split())
    theirs, found = old.tool(OLD_CLASS, *arguments), ours("kafka-topics.sh", *arguments)
    # Behind an error there is a line of Kafka's log, and a stack trace.
    assert (found.code, found.printed) == (theirs.code, theirs.printed.partition("[20")[0])


def test_growth_and_deletion_as_kafka_0_9(old: Era) -> None:
    at = ("kafka-topics", "--zookeeper", old.kafka.zookeeper)
    counts = ("--partitions", "1", "--replication-factor", "1")
    assert ours(*at, "--create", "--topic", "grows", *counts).code == 0
    grown = ours(*at, "--alter", "--topic", "grows", "--partitions", "2")
    assert grown.printed.splitlines()[1:] == ["Adding partitions succeeded!"]
    deleted = ours(*at, "--delete", "--topic", "grows")
    assert deleted.printed.splitlines()[0] == "Topic grows is marked for deletion."


def test_the_order_of_javas_hash_maps() -> None:
    assert java_hash("test") == 3556498
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_order(["retention.ms", "min.insync.replicas"]) == ["min.insync.replicas", "retention.ms"]
