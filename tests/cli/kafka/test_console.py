"""Both consoles beside Kafka's: what one writes the other reads, and the text is the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import EmbeddedBroker
from tests.cli.kafka.conftest import Era, created, ours

NEW_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
NEW_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
OLD_CONSUMER = "!kafka.tools.ConsoleConsumer"
READS_ALL = ("--partition", "0", "--offset", "earliest", "--timeout-ms", "120000")


@pytest.fixture(scope="module")
def told(new: Era) -> str:
    """A topic that our producer has written."""
    topic = created(new, "told")
    reader = [
        f"--reader-property={one}" for one in ("parse.key=true", "parse.headers=true", "null.marker=NIL")
    ]
    text = "h:1,i:NIL\tk1\tv1\nh:2\tk2\tNIL\nNIL\tNIL\tcafé\n"
    at = ("--bootstrap-server", new.kafka.bootstrap, "--topic", topic)
    assert ours("kafka-console-producer", *at, *reader, "--compression-codec", text=text) == (0, "", "")
    return topic


@pytest.mark.parametrize(
    "line",
    [
        "--max-messages 3",
        "--max-messages 2 --formatter-property print.key=true --formatter-property key.separator=|",
        "--max-messages 3 --formatter-property print.headers=true --formatter-property print.timestamp=true "
        "--formatter-property print.partition=true --formatter-property print.offset=true "
        "--formatter-property print.epoch=true --formatter-property print.delivery=true "
        "--formatter-property null.literal=- --formatter-property headers.separator=;",
        "--max-messages 1 --formatter-property print.value=false --formatter-property print.key=true",
        "--max-messages 1 --property print.key=true --consumer-property check.crcs=true",
        "--max-messages 3 --formatter org.apache.kafka.tools.consumer.NoOpMessageFormatter",
        "--max-messages 0",
    ],
)
def test_the_consumer_as_kafka_4(new: Era, told: str, line: str) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, "--topic", told, *READS_ALL, *line.split())
    assert ours("kafka-console-consumer", *arguments) == new.tool(NEW_CONSUMER, *arguments)


@pytest.mark.parametrize(
    "line",
    [
        "--topic a --include b",
        "--topic a --offset 5",
        "--topic a --partition 0 --offset soon",
        "--topic a --partition 0 --offset 1 --from-beginning",
        "--include a --partition 0",
        "--topic a --partition 0 --group g",
        "--topic a --group g --command-property group.id=h",
        "--topic a --from-beginning --command-property auto.offset.reset=latest",
    ],
)
def test_command_lines_that_kafka_4_refuses(new: Era, line: str) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, *line.split())
    theirs, found = new.tool(NEW_CONSUMER, *arguments), ours("kafka-console-consumer", *arguments)
    assert (found.code, found.printed) == (theirs.code, theirs.printed)
    assert found.complaints.splitlines()[0] == theirs.complaints.splitlines()[0]


def test_the_producer_refuses_a_line_as_kafka_4(new: Era, told: str) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, "--topic", told, "--property", "parse.key=true")
    theirs, found = (
        new.tool(NEW_PRODUCER, *arguments, text="no key\n"),
        ours("kafka-console-producer", *arguments, text="no key\n"),
    )
    assert (found.code, found.printed) == (theirs.code, theirs.printed)
    assert found.complaints.splitlines()[0] == theirs.complaints.splitlines()[0]


def test_both_as_kafka_0_9(old: Era) -> None:
    topic = created(old, "told")
    send = ("--broker-list", old.kafka.bootstrap, "--topic", topic, "--property", "parse.key=true")
    assert ours("kafka-console-producer.sh", *send, text="k1\tv1\nk2\tv2\n") == (0, "", "")
    read = ("--zookeeper", old.kafka.zookeeper, "--topic", topic, "--from-beginning", "--max-messages", "2")
    for more in (
        (),
        ("--property", "print.key=true"),
        ("--formatter", "kafka.tools.ChecksumMessageFormatter"),
    ):
        theirs = old.tool(OLD_CONSUMER, *read, *more)
        assert theirs.code == 0
        assert ours("kafka-console-consumer.sh", *read, *more) == theirs


def test_the_classic_consumer_keeps_its_group_only_if_it_was_named(old: Era, tmp_path: Path) -> None:
    topic = created(old, "kept")
    send = ("--broker-list", old.kafka.bootstrap, "--topic", topic)
    assert ours("kafka-console-producer", *send, text="1\n2\n3\n").code == 0
    settings = tmp_path / "consumer.properties"
    settings.write_text("group.id=kept-group\nzookeeper.session.timeout.ms=6000\n")
    read = ("--zookeeper", old.kafka.zookeeper, "--topic", topic, "--from-beginning", "--max-messages")
    named = ("--consumer.config", str(settings))
    assert ours("kafka-console-consumer", *read, "3").code == 0
    assert ours("kafka-console-consumer", *read, "2", *named) == (
        0,
        "1\n2\n",
        "Processed a total of 2 messages\n",
    )
    groups = old.tool(
        "kafka.admin.ConsumerGroupCommand", "--zookeeper", old.kafka.zookeeper, "--list"
    ).printed
    assert [one for one in groups.split() if one.startswith(("kept", "console"))] == ["kept-group"]
    refused = ours("kafka-console-consumer", *read, "2", *named)
    assert (refused.code, refused.printed) == (1, "")
    assert refused.complaints == old.tool(OLD_CONSUMER, *read, "2", *named).complaints.splitlines(True)[0]
    again = ours("kafka-console-consumer", *read, "1", *named, "--delete-consumer-offsets")
    assert again.printed == "1\n"


def test_who_is_ended_has_told_the_count() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("endless", 2)
        at = ("--bootstrap-server", broker.bootstrap, "--topic", "endless")
        assert ours("kafka-console-producer", *at, text="only\n").code == 0
        command = [sys.executable, "-m", "ottla", "kafka-console-consumer", *at, "--from-beginning"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "only\n"
            os.kill(reader.pid, signal.SIGTERM)
            _, complaints = reader.communicate(timeout=60)
    assert (reader.returncode, complaints) == (143, "Processed a total of 1 messages\n")


def test_a_group_goes_on_where_it_was(new: Era, told: str) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, "--topic", told, "--timeout-ms", "120000")
    named = (*arguments, "--from-beginning", "--group", "goes-on", "--max-messages")
    assert ours("kafka-console-consumer", *named, "2") == (
        0,
        "v1\nnull\n",
        "Processed a total of 2 messages\n",
    )
    assert new.tool(NEW_CONSUMER, *named, "1").printed == "café\n"
    alone = (*arguments, "--from-beginning", "--max-messages", "3")
    assert ours("kafka-console-consumer", *alone).printed == new.tool(NEW_CONSUMER, *alone).printed


def test_topics_by_a_pattern(new: Era, told: str) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, "--include", "to[kl]d", "--from-beginning")
    assert ours("kafka-console-consumer", *arguments, "--max-messages", "3").printed == "v1\nnull\ncafé\n"
