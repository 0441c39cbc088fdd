"""Every call of Java's AdminClient 4.4, to our broker and to Kafka 4: the same values, the same errors.

What may differ is in a table of docs/broker.md, with the reason.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.kafka_programs import run_program
from tools.peer_cache import Unavailable
from tools.peers import KAFKA_4, RealKafka

PROGRAM = Path(__file__).with_name("AdminCalls.java")
PAGE = Path(__file__).parents[4] / "docs" / "broker.md"
BROKER_ID = 1
NO_CALLS = {
    "create": "makes the client",
    "close": "ends it",
    "registerMetricForSubscription": "adds to the metrics that the client may push",
    "unregisterMetricFromSubscription": "takes them away",
}
"""Methods of Admin that ask nothing of a broker."""


def answers(bootstrap: str) -> dict[str, str]:
    """What each call gives: a value, or the class of an error."""
    printed = run_program(PROGRAM, bootstrap, str(BROKER_ID))
    return dict(line.split("\t") for line in printed.splitlines())


def allowed() -> list[str]:
    """The beginnings of the calls that the page lists."""
    section = PAGE.read_text().split("## Java's AdminClient")[1].split("\n## ")[0]
    return [
        name
        for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in re.findall("`(.*?)`", row)
    ]


def test_every_call_gives_what_kafka_gives() -> None:
    with EmbeddedBroker(properties={"broker.id": BROKER_ID}) as broker:
        ours = answers(broker.bootstrap)
    try:
        with RealKafka(KAFKA_4) as kafka:  # not the one that tests share: quotas and transactions are listed
            kafkas = answers(kafka.bootstrap)
    except Unavailable as reason:
        pytest.skip(f"Kafka {KAFKA_4} cannot be run here: {reason}")
    assert len(ours) > 150
    assert ours.keys() == kafkas.keys()
    called = set(re.findall(r"\badmin\.(\w+)\(", PROGRAM.read_text()))
    assert set(ours.pop("methods").split()) - called == set(NO_CALLS)
    different = {name: f"{ours[name]}, Kafka: {kafkas[name]}" for name in ours if ours[name] != kafkas[name]}
    listed = tuple(allowed())
    assert {name: both for name, both in different.items() if not name.startswith(listed)} == {}
    assert [name for name in listed if not any(call.startswith(name) for call in different)] == []
