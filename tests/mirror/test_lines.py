"""A mirror whose lines to both brokers cut, delay, throttle, go silent and repeat: nothing lost or twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla import EmbeddedBroker
from tests.faulty_line import HOST, FaultyLine
from tests.mirror.clusters import end_of
from tests.mirror.killing import PARTITIONS, Worker, at, copied, positions, seen, steady_writes
from tests.proof.checker import anomalies
from tests.scale import REPLAY, kills, seeded
from tests.waiting import wait_for
from tools.guarded_server import free_address

FAULTS = kills(6, 200)
TIMEOUT_MS = "3000"
"""A line that went silent is noticed after this."""


@contextmanager
def behind_a_line() -> Iterator[tuple[EmbeddedBroker, FaultyLine]]:
    """A broker with a listener for the test itself, and one whose clients come over the line."""
    address = free_address()
    with FaultyLine(address) as line:
        properties = {
            "listeners": f"PLAINTEXT://{HOST}:0,LINE://{address}",
            "advertised.listeners": f"LINE://{line.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LINE:PLAINTEXT",
            "group.min.session.timeout.ms": "500",
        }
        with EmbeddedBroker(properties=properties) as broker:
            yield broker, line


@pytest.mark.timeout(300 + 20 * FAULTS)
def test_exactly_once_over_bad_lines(name: str) -> None:
    chance = seeded(name)
    with behind_a_line() as (source, near), behind_a_line() as (target, far):
        for broker in (source, target):
            broker.create_topic(name, PARTITIONS)
        group, there = f"group-of-{name}", {**at(target), "isolation_level": "read_committed"}
        worker = Worker(near.address, far.address, name, "exactly-once", TIMEOUT_MS)
        try:
            worker.start(chance.choice((1, 1000)))
            with steady_writes(source.bootstrap, name) as counts:
                for _ in range(FAULTS):
                    chance.choice((near, far)).spoil(chance, duplicates=True)
                    time.sleep(chance.uniform(0, 1))
                    near.mend()
                    far.mend()
                    before = end_of(there, name)
                    wait_for(lambda before=before: end_of(there, name) > before, "it mirrors")
            wait_for(lambda: set(positions(source, group).values()) == {counts[0]}, "all is mirrored")
            assert worker.end(signal.SIGTERM) == 0
        finally:
            worker.close()
        assert anomalies(copied(name, counts[0], seen(target, name))) == [], REPLAY
