"""Every call of Java's AdminClient 4.4, to our broker and to Kafka 4: the same values, the same errors.

What may differ is in a table of docs/broker.md, with the reason.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.waiting import PATIENCE_S
from tools.peer_cache import KAFKA_CLIENTS, Unavailable, java_classes, kafka_libs, program
from tools.peers import KAFKA_4, RealKafka

PROGRAM = Path(__file__).with_name("AdminCalls.java")
PAGE = Path(__file__).parents[4] / "docs" / "broker.md"
BROKER_ID = 1


def answers(bootstrap: str) -> dict[str, str]:
    """What each call gives: a value, or the class of an error."""
    try:
        libs = kafka_libs(KAFKA_CLIENTS)
        path = f"{java_classes(PROGRAM, KAFKA_CLIENTS)}{os.pathsep}{libs}{os.sep}*"
        command = [program("java"), "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    except Unavailable as reason:
        pytest.skip(f"Java's AdminClient is not run: {reason}")
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path, PROGRAM.stem]
    done = subprocess.run(
        [*command, bootstrap, str(BROKER_ID)],
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(line.split("\t") for line in done.stdout.splitlines())


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
    listed = tuple(allowed())
    different = {
        name: f"{ours[name]}, Kafka: {kafkas[name]}"
        for name in ours
        if ours[name] != kafkas[name] and not name.startswith(listed)
    }
    assert not different
