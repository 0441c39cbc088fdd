"""Workers and brokers are killed at random while topics are read and written exactly once: no anomaly.

`OTTLA_SEED` repeats a run, but its kills fall at other instants.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.broker.faults.forked_broker import ForkedBroker
from tests.proof.checker import Outcome, anomalies
from tests.scale import REPLAY, kills, nightly, seeded
from tests.transactions.run import KillableBroker, Run
from tools.peers import KAFKA_4, RealKafka

KILLS = kills(60, 1_500)
"""A third each: workers are killed, replaced while they work, and lose their broker."""
KAFKAS_KILLS = kills(300, 300)
SETTINGS = {
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


class OurBroker(ForkedBroker):
    """A broker process that keeps its port."""

    session_ms = 1_000
    request_timeout_ms = 30_000

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


class Kafka:
    """Apache Kafka, with its default of group.min.session.timeout.ms."""

    session_ms = 6_000
    request_timeout_ms = 30_000

    def __init__(self, kafka: RealKafka) -> None:
        self.bootstrap = kafka.bootstrap
        self.kill, self.start = kafka.kill, kafka.start


def check(broker: KillableBroker, directory: Path, kills: int) -> None:
    run = Run(broker, directory, seeded(type(broker).__name__))
    run.prepare()
    try:
        with run.reader():
            run.disturb(kills)
            run.finish()
    finally:
        run.close()
    history = run.history()
    found = anomalies(history)
    assert not found, "\n".join([REPLAY, *found])  # all of them: it takes an hour to find one
    assert {one.outcome for one in history.transactions} == {*Outcome}, "some kind did not happen"


@pytest.mark.timeout(600 + 5 * KILLS)
def test_exactly_once_under_kills(tmp_path: Path) -> None:
    with closing(OurBroker(tmp_path / "data", SETTINGS)) as broker:
        check(broker, tmp_path, KILLS)
        assert broker.surprises == [], REPLAY


@nightly("shows that the test is right, not our broker")
@pytest.mark.timeout(7_200)
def test_apache_kafka_under_the_same_kills(real_kafka: Callable[[str], RealKafka], tmp_path: Path) -> None:
    check(Kafka(real_kafka(KAFKA_4)), tmp_path, KAFKAS_KILLS)
