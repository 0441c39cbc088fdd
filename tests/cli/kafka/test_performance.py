"""Both perf tests beside Kafka's own: the same lines, but for the numbers in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.kafka.conftest import Era, created, ours

PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
NEW_CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"
OLD_CONSUMER = "kafka.tools.ConsumerPerformance"
SENDS = ("--num-records", "300", "--throughput", "-1")


def masked(text: str) -> list[str]:
    """Digits are 9s, whole numbers are one 9: what is left is what Kafka's formats say."""
    one = re.sub(r"(?<![.\d])\d+(?![\d.]*th)", "9", text)
    return [re.sub(r"(?<=\.)\d+", lambda found: "9" * len(found[0]), line) for line in one.splitlines()]


@pytest.fixture(scope="module")
def lines_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("perf") / "lines"
    path.write_text("one\ntwo\n")
    return path


def test_as_kafka_4(new: Era, lines_file: Path) -> None:
    topic = created(new, "perf")
    at = ("--bootstrap-server", new.kafka.bootstrap)
    for options in (
        (*at, "--record-size", "100"),
        (*at, "--record-size", "100", "--producer-props", "acks=1", "linger.ms=1"),
        (*at, "--payload-file", str(lines_file), "--command-property", "acks=1"),
        (*at, "--record-size", "100", "--reporting-interval", "100000"),
    ):
        arguments = ["--topic", topic, *SENDS, *options]
        theirs, found = new.tool(PRODUCER, *arguments), ours("kafka-producer-perf-test", *arguments)
        assert (found.code, masked(found.printed)) == (theirs.code, masked(theirs.printed)), options
        assert found.printed.splitlines()[-1].startswith("300 records sent, ")
    for line in (
        "--num-records 600",
        "--messages 600 --hide-header",
        "--num-records 600 --show-detailed-stats --reporting-interval 600000",
        "--num-records 6000 --timeout 2000",
    ):
        arguments = [*at, "--topic", topic, *line.split()]
        theirs, found = new.tool(NEW_CONSUMER, *arguments), ours("kafka-consumer-perf-test", *arguments)
        assert (found.code, masked(found.printed)) == (theirs.code, masked(theirs.printed)), line


def test_as_kafka_0_9(old: Era) -> None:
    topic = created(old, "perf")
    servers = f"bootstrap.servers={old.kafka.bootstrap}"
    arguments = ("--topic", topic, *SENDS, "--record-size", "100", "--producer-props", servers, "acks=1")
    theirs, found = old.tool(PRODUCER, *arguments), ours("kafka-producer-perf-test.sh", *arguments)
    assert (found.code, masked(found.printed)) == (theirs.code, masked(theirs.printed))
    for number, where in enumerate(
        (("--zookeeper", old.kafka.zookeeper), ("--new-consumer", "--broker-list", old.kafka.bootstrap))
    ):
        line = (*where, "--topic", topic, "--messages", "300", "--group")
        theirs = old.tool(OLD_CONSUMER, *line, f"theirs-{number}")
        found = ours("kafka-consumer-perf-test", *line, f"ours-{number}")
        assert (found.code, masked(found.printed)) == (theirs.code, masked(theirs.printed))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--topic t", 'Missing required argument "[bootstrap-server]"'),
        (
            "--bootstrap-server h:1 --topic t",
            "Exactly one of the following arguments is required: [messages], [num-records]",
        ),
    ],
)
def test_a_wrong_command_line(line: str, told: str) -> None:
    found = ours("kafka-consumer-perf-test", *line.split())
    assert (found.code, found.printed, found.complaints.splitlines()[0]) == (1, "", told)
