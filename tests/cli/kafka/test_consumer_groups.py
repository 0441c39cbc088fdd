"""kafka-consumer-groups and the old tools for groups beside Kafka's own, on the same clusters."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.cli.kafka.group_resets import parse_datetime, parse_duration
from ottla.consumer.classic import ConsumerConnector
from ottla.consumer.coordinated import GroupConsumer
from ottla.model.errors import OttlaError
from tests.cli.kafka.conftest import Era, ours

NEW_CLASS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OLD_CLASS = "kafka.admin.ConsumerGroupCommand"
LINES = "".join(f"k{number}\tv{number}\n" for number in range(30))


@pytest.fixture(scope="module")
def left(new: Era) -> str:
    """A group that has read a topic of three partitions, and left."""
    at = ("--bootstrap-server", new.kafka.bootstrap)
    ours("kafka-topics", *at, "--create", "--topic", "grouped", "--partitions", "3")
    ours(
        "kafka-console-producer", *at, "--topic", "grouped", "--reader-property", "parse.key=true", text=LINES
    )
    read = ("--topic", "grouped", "--group", "left", "--from-beginning", "--max-messages", "30")
    assert ours("kafka-console-consumer", *at, *read).complaints == "Processed a total of 30 messages\n"
    return "left"


@contextmanager
def member(new: Era, group: str, protocol: str = "classic") -> Iterator[None]:
    """A member that has read or found nothing to read, until the block ends."""
    properties = {
        "bootstrap.servers": new.kafka.bootstrap,
        "client.id": "reads",
        "auto.offset.reset": "smallest",
        "group.protocol": protocol,
    }
    has_read, is_over = threading.Event(), threading.Event()

    def read() -> None:
        with GroupConsumer(["grouped"], properties, group_id=group) as consumer:
            while not is_over.is_set():
                if consumer.poll(0.2) is not None:
                    consumer.commit()
                    has_read.set()
                elif consumer.assignment and consumer.committed():
                    has_read.set()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        assert has_read.wait(60)
        yield
    finally:
        is_over.set()
        thread.join(60)


DRY = "--reset-offsets --group left --dry-run "


@pytest.mark.parametrize(
    "line",
    [
        "--list --state stable,dead",
        "--describe --group left",
        "--describe --group left --verbose",
        "--describe --group left --members",
        "--describe --group left --members --verbose",
        "--describe --group left --state",
        "--describe --group left --state --verbose",
        "--describe --all-groups --offsets",
        DRY + "--topic grouped --to-earliest",
        DRY + "--topic grouped:0,2 --to-latest",
        DRY + "--topic grouped --to-offset 3",
        DRY + "--all-topics --to-current",
        DRY + "--topic grouped --shift-by -2",
        DRY + "--topic grouped --to-datetime 2020-01-01T00:00:00.000",
        DRY + "--topic grouped --by-duration PT0S",
        DRY + "--topic grouped --to-earliest --export",
        "--reset-offsets --group left --group nobody --topic grouped --to-latest --export --dry-run",
        "--reset-offsets --group nobody --topic grouped --to-current",
        "--delete-offsets --group nobody --topic grouped",
        "--delete --group nobody",
    ],
)
def test_as_kafka_4(new: Era, left: str, line: str) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, *line.split())
    assert ours("kafka-consumer-groups.sh", *arguments) == new.tool(NEW_CLASS, *arguments)


@pytest.mark.parametrize("line", ["--list", "--list --state", "--list --type --state"])
def test_lists_as_kafka_4(new: Era, left: str, line: str) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, *line.split())
    theirs, found = new.tool(NEW_CLASS, *arguments), ours("kafka-consumer-groups.sh", *arguments)
    # Groups whose names have the same hash in Java's map are in the order in which brokers tell them.
    assert (found.code, found.complaints) == (theirs.code, theirs.complaints)
    assert sorted(found.printed.splitlines()) == sorted(theirs.printed.splitlines())


@pytest.mark.parametrize(
    "line",
    [
        "--describe --group nobody",
        "--describe --group nobody --state",
        DRY + "--topic grouped:9 --to-latest",
        DRY + "--topic grouped --to-datetime soon",
        "--list --group left",
        "--reset-offsets --group left --topic grouped --to-earliest --to-latest",
        "--reset-offsets --group nobody --topic grouped --shift-by 1",
        "--validate-regex left.*",
    ],
)
def test_errors_as_kafka_4(new: Era, left: str, line: str) -> None:
    """Behind their first line Kafka has stack traces and usage."""
    arguments = ("--bootstrap-server", new.kafka.bootstrap, *line.split())
    theirs, found = new.tool(NEW_CLASS, *arguments), ours("kafka-consumer-groups", *arguments)
    assert (found.code, found.printed) == (theirs.code, theirs.printed)
    trace = "java.util.concurrent.", "java.lang.", "org.apache.kafka.", "Caused by: "
    told = [line for line in theirs.complaints.splitlines() if not line.startswith((*trace, "\t"))]
    assert found.complaints.splitlines()[:1] == told[:1]


def test_groups_with_members_as_kafka_4(new: Era, left: str) -> None:
    lines = ["", "--verbose", "--members", "--members --verbose", "--state"]
    commands = [f"--describe --group busy {line}" for line in lines]
    commands += ["--reset-offsets --group busy --topic grouped --to-earliest --execute"]
    commands += ["--delete --group busy", "--delete-offsets --group busy --topic grouped"]
    with member(new, "busy"):
        for command in commands:
            arguments = ("--bootstrap-server", new.kafka.bootstrap, *command.split())
            assert ours("kafka-consumer-groups", *arguments) == new.tool(NEW_CLASS, *arguments), command


DESCRIPTIONS = ["", "--verbose", "--members", "--members --verbose", "--state", "--state --verbose"]


def test_consumer_groups_as_kafka_4(new: Era, left: str) -> None:
    """Those of KIP-848: with epochs and targets."""
    with member(new, "modern", "consumer"):
        for line in DESCRIPTIONS:
            arguments = ("--bootstrap-server", new.kafka.bootstrap, "--describe", "--group", "modern")
            found = ours("kafka-consumer-groups", *arguments, *line.split())
            assert found == new.tool(NEW_CLASS, *arguments, *line.split()), line


def test_members_of_both_protocols_as_kafka_4(new: Era, left: str) -> None:
    """A group on its way from classic to consumer: who has not been upgraded yet is told."""
    with member(new, "rolling"), member(new, "rolling", "consumer"):
        for line in DESCRIPTIONS:
            arguments = ("--bootstrap-server", new.kafka.bootstrap, "--describe", "--group", "rolling")
            found = ours("kafka-consumer-groups", *arguments, *line.split())
            assert found == new.tool(NEW_CLASS, *arguments, *line.split()), line


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.csv"
    path.write_text("grouped,0,1\ngrouped,1,2\n")
    return path


@pytest.mark.parametrize(
    "line",
    [
        "--from-file PLAN --dry-run",
        "--from-file PLAN --execute",
        "--topic grouped --to-earliest --execute",
        "--topic grouped:0,2 --to-latest --execute",
        "--topic grouped --to-offset 3 --execute",
        "--topic grouped:1 --to-offset 99999 --execute",
        "--all-topics --to-current --execute",
        "--topic grouped --to-datetime 2020-01-01T00:00:00.000 --execute",
        "--topic grouped --by-duration P1D --execute",
        "--topic grouped --to-latest --execute --export",
        "--topic grouped --shift-by 0 --execute",
    ],
)
def test_resets_as_kafka_4(new: Era, left: str, plan: Path, line: str) -> None:
    """What is done by one tool is done again by the other, to the same end."""
    at = ("--bootstrap-server", new.kafka.bootstrap)
    reset = (*at, "--reset-offsets", "--group", "moved", *line.replace("PLAN", str(plan)).split())
    assert ours("kafka-consumer-groups", *reset) == new.tool(NEW_CLASS, *reset)
    if "--execute" not in line:
        return
    described = (*at, "--describe", "--group", "moved")
    assert ours("kafka-consumer-groups", *described) == new.tool(NEW_CLASS, *described)


def test_offsets_and_groups_are_forgotten_as_by_kafka_4(new: Era, left: str) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap)
    for group in ("gone-1", "gone-2"):
        moved = ("--reset-offsets", "--group", group, "--topic", "grouped", "--to-earliest", "--execute")
        assert ours("kafka-consumer-groups", *at, *moved).code == 0
    for line in (
        "--delete-offsets --group {} --topic grouped:0",
        "--delete-offsets --group {} --topic grouped:0,2 --topic nosuch",
        "--delete --group {}",
        "--delete --group {}",
    ):
        theirs = new.tool(NEW_CLASS, *at, *line.format("gone-1").split())
        found = ours("kafka-consumer-groups", *at, *line.format("gone-2").split())
        assert (found.code, found.complaints) == (theirs.code, theirs.complaints), line
        assert found.printed == theirs.printed.replace("gone-1", "gone-2"), line


@pytest.fixture(scope="module")
def old_settings(shared_old: Era, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A topic of two partitions, and the settings of a classic consumer."""
    at = ("--zookeeper", shared_old.kafka.zookeeper)
    counts = ("--partitions", "2", "--replication-factor", "1")
    ours("kafka-topics", *at, "--create", "--topic", "grouped", *counts)
    send = ("--broker-list", shared_old.kafka.bootstrap, "--topic", "grouped", "--request-required-acks", "1")
    assert shared_old.tool("kafka.tools.ConsoleProducer", *send, text=LINES).code == 0
    path = tmp_path_factory.mktemp("classic") / "consumer.properties"
    path.write_text(f"group.id=classic\nzookeeper.connect={shared_old.kafka.zookeeper}\n")
    return path


def test_classic_groups_as_kafka_0_9(old: Era, old_settings: Path, tmp_path: Path) -> None:
    keeper = ("--zookeeper", old.kafka.zookeeper)
    checker = "kafka.tools.ConsumerOffsetChecker"
    lines = [
        ("kafka-consumer-groups", OLD_CLASS, *keeper, "--describe", "--group", "classic"),
        ("kafka-consumer-groups", OLD_CLASS, *keeper, "--describe", "--group", "nobody"),
        ("kafka-consumer-offset-checker", checker, *keeper, "--group", "classic"),
        (
            "kafka-consumer-offset-checker",
            checker,
            *keeper,
            "--group",
            "classic",
            "--topic",
            "grouped",
            "--broker-info",
        ),
        ("kafka-consumer-offset-checker", checker, *keeper, "--group", "nobody"),
        ("kafka-run-class", "kafka.tools.UpdateOffsetsInZK", "earliest", str(old_settings), "grouped"),
        ("kafka-run-class", "kafka.tools.UpdateOffsetsInZK", "latest", str(old_settings), "grouped"),
        ("kafka-run-class", "kafka.tools.UpdateOffsetsInZK", "latest"),
    ]

    def compare() -> None:
        for name, main_class, *arguments in lines:
            theirs = old.tool(main_class, *arguments)
            named = [main_class] if name == "kafka-run-class" else []
            assert ours(name, *named, *arguments) == theirs, (name, arguments)

    verify = ("kafka.tools.VerifyConsumerRebalance", "--zookeeper.connect", keeper[1], "--group", "classic")
    properties = {"zookeeper.connect": old.kafka.zookeeper, "group.id": "classic", "broker.version": "0.9"}
    with ConsumerConnector({**properties, "auto.offset.reset": "smallest"}) as connector:
        (stream,) = connector.create_message_streams({"grouped": 1})["grouped"]
        next(stream)
        connector.commit_offsets()
        # The first to ask makes the topic of offsets, and Kafka 0.9's tools do not wait for it.
        while "Could not" in old.tool(*lines[0][1:]).printed:
            pass
        compare()
        # Kafka 0.9's own finds every owner wrong, since it compares texts with objects.
        assert ours("kafka-run-class", *verify).printed == "Rebalance operation successful !\n"
        busy = ours("kafka-consumer-groups", *keeper, "--delete", "--group", "classic")
        assert busy == old.tool(OLD_CLASS, *keeper, "--delete", "--group", "classic")
    compare()
    assert ours("kafka-run-class", *verify) == old.tool(*verify)
    exported = [tmp_path / "theirs", tmp_path / "ours"]
    where = ("kafka.tools.ExportZkOffsets", "--zkconnect", old.kafka.zookeeper, "--group", "classic")
    old.tool(*where, "--output-file", str(exported[0]))
    assert ours("kafka-run-class", *where, "--output-file", str(exported[1])) == (0, "", "")
    assert exported[0].read_text() == exported[1].read_text() != ""
    exported[1].write_text(
        "/consumers/classic/offsets/grouped/0:3\n\n/consumers/classic/offsets/grouped/1:9\n"
    )
    load = (
        "kafka.tools.ImportZkOffsets",
        "--zkconnect",
        old.kafka.zookeeper,
        "--input-file",
        str(exported[1]),
    )
    assert ours("kafka-run-class", *load) == (0, "", "")
    assert "classic, grouped, 0, 3, " in ours(lines[0][0], *lines[0][2:]).printed
    assert ours("kafka-consumer-groups", *keeper, "--delete", "--group", "classic").printed == (
        "Deleted all consumer group information for group classic in zookeeper.\n"
    )
    gone = (*keeper, "--delete", "--group", "classic")
    assert ours("kafka-consumer-groups", *gone) == old.tool(OLD_CLASS, *gone)


def test_times_and_durations() -> None:
    assert parse_datetime("2020-01-01T00:00:00.500").timestamp() == 1577836800.5
    assert parse_datetime("2020-01-01T01:00:00.000+01:00").timestamp() == 1577836800
    assert parse_duration("P1DT2H3M4.5S").total_seconds() == 93784.5
    assert parse_duration("-PT1S").total_seconds() == -1
    with pytest.raises(OttlaError, match="Duration"):
        parse_duration("1 day")
