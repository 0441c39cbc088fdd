"""Kafka Streams with exactly_once_v2 on our broker: a restart of the broker and a kill -9 of the program."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla import EmbeddedBroker, Producer, replay
from tests.waiting import wait_for
from tools.java_process import java_command
from tools.peer_cache import Unavailable, kafka_streams_libs, streams_classes

PROGRAM = Path(__file__).with_name("StreamsCounts.java")
SESSION_MS = 1_000
KEYS, ROUNDS = 4, 30


@contextmanager
def running(bootstrap: str, state_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program; killed at the end of the block."""
    try:
        command = java_command(kafka_streams_libs(), streams_classes(PROGRAM), heap_mb=256)
    except Unavailable as reason:
        pytest.skip(str(reason))
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", PROGRAM.stem]
    with (state_dir.with_suffix(".log")).open("ab") as log:
        process = subprocess.Popen(
            [*command, bootstrap, str(state_dir), str(SESSION_MS)], stdin=subprocess.PIPE, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def counts(bootstrap: str) -> dict[bytes, list[int]]:
    """The counts of each key, in order, as readers of committed records get them."""
    table = replay("out", bootstrap_servers=bootstrap, isolation_level="read_committed").to_table()
    found: dict[bytes, list[int]] = defaultdict(list)
    for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
        found[key].append(int(value))
    return found


@pytest.mark.timeout(600)
def test_streams_counts_every_record_once(tmp_path: Path) -> None:
    properties = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with EmbeddedBroker(tmp_path / "data", properties=properties) as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, 2)

        def send() -> None:
            with Producer(bootstrap_servers=broker.bootstrap) as producer:
                for number in range(ROUNDS * KEYS):
                    producer.send("in", "x", key=f"key {number % KEYS}")

        def has_counted(rounds: int) -> bool:
            found = counts(broker.bootstrap)
            return len(found) == KEYS and all(max(values) >= rounds * ROUNDS for values in found.values())

        with running(broker.bootstrap, tmp_path / "first"):
            send()
            wait_for(lambda: has_counted(1), "the first counts", pause=0.3)
            send()
            broker.stop()
            broker.start()
            wait_for(lambda: has_counted(2), "counts after the restart of the broker", pause=0.3)
            send()
        with running(broker.bootstrap, tmp_path / "second"):
            wait_for(lambda: has_counted(3), "counts of the program after the killed one", pause=0.3)
        found = counts(broker.bootstrap)
    assert found == {b"key %d" % key: list(range(1, 3 * ROUNDS + 1)) for key in range(KEYS)}
