"""kafka-verifiable-producer and -consumer beside Kafka's own: the same events, but for their times."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from typing import Any

import pytest

from ottla import EmbeddedBroker
from tests.cli.kafka.conftest import Era, created, ours
from tests.scale import nightly

PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
MASKED = re.compile(r'("(?:timestamp|time_ms|avg_throughput)"):[0-9.E-]+')


def masked(text: str) -> list[str]:
    return [MASKED.sub(r"\1:0", line) for line in text.splitlines()]


@pytest.mark.parametrize("line", ["", "--value-prefix 7 --repeating-keys 2 --acks 1 --throughput 1000"])
def test_numbers_as_kafka_4(new: Era, line: str) -> None:
    topic = created(new, f"verified-{len(line)}")
    arguments = ("--bootstrap-server", new.kafka.bootstrap, "--topic", topic, "--max-messages", "3")
    theirs = new.tool(PRODUCER, *arguments, *line.split())
    found = ours("kafka-verifiable-producer", *arguments, *line.split())
    assert (found.code, found.complaints) == (theirs.code, theirs.complaints)
    # Theirs came first.
    later = [
        re.sub(r'"offset":(\d)', lambda one: f'"offset":{int(one[1]) + 3}', each)
        for each in masked(theirs.printed)
    ]
    assert masked(found.printed) == later
    read = (*arguments, "--verbose", "--group-id")
    theirs, found = (
        new.tool(CONSUMER, *read, topic),
        ours("kafka-verifiable-consumer.sh", *read, f"{topic}-2"),
    )
    assert found.code == theirs.code == 0
    assert masked(found.printed) == masked(theirs.printed)


def test_consumer_groups_as_kafka_4(new: Era) -> None:
    topic = created(new, "verified-consumers")
    arguments = ("--bootstrap-server", new.kafka.bootstrap, "--topic", topic, "--max-messages", "3")
    assert ours("kafka-verifiable-producer", *arguments).code == 0
    read = (*arguments, "--verbose", "--group-protocol", "consumer", "--group-remote-assignor", "range")
    theirs = new.tool(CONSUMER, *read, "--group-id", "v-1")
    found = ours("kafka-verifiable-consumer", *read, "--group-id", "v-2")
    assert (found.code, masked(found.printed)) == (theirs.code, masked(theirs.printed))


def test_numbers_as_kafka_0_9(old: Era) -> None:
    topic = created(old, "verified")
    arguments = ("--broker-list", old.kafka.bootstrap, "--topic", topic, "--max-messages", "2")
    theirs, found = old.tool(PRODUCER, *arguments), ours("kafka-run-class", PRODUCER, *arguments)
    later = [
        line.replace('"offset":1', '"offset":3').replace('"offset":0', '"offset":2')
        for line in masked(theirs.printed)
    ]
    assert (found.code, masked(found.printed)) == (theirs.code, later)


def until_ended(command: list[str], last_event: str) -> list[dict[str, Any]]:
    """The events of a consumer that is ended behind one of them."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as reader:
        assert reader.stdout is not None
        lines = []
        for line in reader.stdout:
            lines.append(line)
            if last_event in line:
                reader.send_signal(signal.SIGTERM)
        assert reader.wait(60) == 143
    return [json.loads(line) for line in masked("".join(lines))]


@pytest.mark.parametrize(
    "era", ["new", pytest.param("old", marks=nightly("consoles of Kafka 0.9 wait for seconds"))]
)
def test_who_is_ended_leaves_the_group(era: str, request: pytest.FixtureRequest) -> None:
    at: Era = request.getfixturevalue(era)
    topic = created(at, "ended")
    flag = "--bootstrap-server" if era == "new" else "--broker-list"
    where = (flag, at.kafka.bootstrap, "--topic", topic)
    assert ours("kafka-verifiable-producer", *where, "--max-messages", "2").code == 0
    read = (*where, "--verbose", "--group-id")
    found = until_ended(
        [sys.executable, "-m", "ottla", "kafka-verifiable-consumer", *read, "ours"], "offsets_committed"
    )
    assert found == until_ended(at.command(CONSUMER, *read, "theirs"), "offsets_committed")


def test_what_is_not_stored_is_told() -> None:
    with EmbeddedBroker() as broker:
        where = ("--bootstrap-server", broker.bootstrap, "--topic", "no such topic", "--max-messages", "1")
        found = ours("kafka-verifiable-producer", *where)
    event = json.loads(found.printed.splitlines()[1])
    assert (found.code, event["name"], event["value"]) == (0, "producer_send_error", "0")
    assert event["exception"] == "class org.apache.kafka.common.errors.InvalidTopicException"


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("producer", "--topic t", "one of the arguments --bootstrap-server is required"),
        ("producer", "--bootstrap-server h:1", "argument --topic is required"),
        ("producer", "--bootstrap-server h:1 --topic t --acks 2", "argument --acks: invalid choice: '2'"),
        ("consumer", "--bootstrap-server h:1 --topic t", "argument --group-id is required"),
    ],
)
def test_a_wrong_command_line(name: str, line: str, told: str) -> None:
    found = ours(f"kafka-verifiable-{name}", *line.split())
    assert (found.code, found.printed) == (1, "")
    assert found.complaints.startswith(f"verifiable-{name}: error: {told}")
