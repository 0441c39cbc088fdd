"""Drivers and workers of exactlyOnce die at random moments: readers of committed records see no anomaly.

What they see is judged by the checker of tests/proof, where each batch is one transaction. A process of Spark
takes seconds to start, so the suite kills few of them; its many deaths are those between two steps of the
protocol. `make soak` kills more, on Apache Kafka too, and OTTLA_KILLS=n so many: a third of them are drivers.
OTTLA_SEED decides which and when.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker, PartitionConsumer, Producer, TopicAndPartition, replay
from ottla.admin import NewTopic
from ottla.producer import TransactionEnder
from ottla.spark.exactly_once import write_tasks
from ottla.spark.exactly_once.decision_log import DecisionLog
from ottla.spark.pipeline.state import PipelineState
from tests.proof.checker import History, Outcome, Transaction, anomalies
from tests.scale import REPLAY, SOAK, kills, seeded, sized
from tests.spark import exactly_once_driver
from tests.spark.killing import newest_batch, reaches, running
from tests.spark.sink_steps import Sink, bootstrap, task
from tests.waiting import wait_for
from tools.peers import KAFKA_4, RealKafka

__all__ = ["bootstrap"]

COMMITTED = "read_committed"
PARTITIONS = 3
DEATHS = sized(20, 500)
KILLS = kills(2, 500)
DEADLINE_S = 480 + 30 * KILLS
Values = dict[TopicAndPartition, list[str]]


class Dead(BaseException):
    """The process has died here."""


# --- steps of the protocol, without Spark


class Deaths:
    """Lets a call of the driver or of a task end the process, before or after it is carried out."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.left = 0
        self.struck: set[str] = set()

    def strike(self, patches: pytest.MonkeyPatch) -> None:
        for owner, name, likely in (
            (TransactionEnder, "end", 0.15),
            (TransactionEnder, "take_over", 0.05),
            (DecisionLog, "record", 0.3),
            (Producer, "begin", 0.05),
            (Producer, "hand_over", 0.05),
        ):
            patches.setattr(owner, name, self._mortal(getattr(owner, name), likely))

    def _mortal(self, real: Callable[..., Any], likely: float) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            when = self._chance.random() if self.left else 1.0
            if when < likely / 2:
                self._die(f"before {real.__name__}")
            result = real(*arguments, **named)
            if when < likely:
                self._die(f"after {real.__name__}")
            return result

        return call

    def _die(self, where: str) -> None:
        self.left -= 1
        self.struck.add(where)
        raise Dead


def test_drivers_and_tasks_die_between_any_two_steps(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = seeded("steps")
    sink = Sink(bootstrap, f"steps-{chance.getrandbits(32):x}")
    deaths = Deaths(chance)
    batch, transactions = 0, []
    with monkeypatch.context() as patches:
        deaths.strike(patches)
        deaths.left = DEATHS
        while deaths.left or batch < 3:
            is_done = False
            while not is_done:
                with suppress(Dead):
                    writer = sink.planned(batch)
                    if chance.random() < 0.2:
                        task(writer, 100 * batch)  # of an executor that is lost
                    writer.commit([task(writer, 100 * batch + 10 * number) for number in range(3)])
                    is_done = True
                if chance.random() < 0.5:  # the worker dies, too; else it goes on with its next task
                    write_tasks.close_producers()
                    monkeypatch.setattr(write_tasks, "_PROCESS", write_tasks._Process())
            transactions.append(_batch(sink.topic, {0: [str(100 * batch + number) for number in range(30)]}))
            batch += 1
    sink.planned(batch)  # the next run ends what is left open
    write_tasks.close_producers()
    assert not [one for one in sink.open_ids() if one.count(".") > 1]
    assert {where.split()[1] for where in deaths.struck} >= {"record", "end"}
    seen = [value for values in _final(bootstrap, sink.topic).values() for value in values]
    history = _history(transactions, {TopicAndPartition(sink.topic, 0): sorted(seen, key=int)})
    assert anomalies(history) == [], REPLAY


# --- processes of Spark


@pytest.fixture(params=["ottla", "kafka"] if SOAK else ["ottla"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kafka":
        real_kafka: Callable[[str], RealKafka] = request.getfixturevalue("real_kafka")
        yield real_kafka(KAFKA_4).bootstrap
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


@pytest.mark.timeout(DEADLINE_S + 60)
def test_a_stream_writes_every_record_once_whoever_is_killed(servers: str, tmp_path: Path) -> None:
    chance = seeded()
    victims = ["driver"] * max(1, KILLS // 3) + ["worker"] * (KILLS - max(1, KILLS // 3))
    chance.shuffle(victims)
    topic, out = (f"{name}-{chance.getrandbits(32):x}" for name in ("in", "out"))
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS), NewTopic(out, PARTITIONS)])
    command = [sys.executable, "-m", exactly_once_driver.__name__, servers, topic, out, str(tmp_path)]
    done, said, state = tmp_path / "done", tmp_path / "said.txt", tmp_path / "state"
    records, deadline = 0, time.monotonic() + DEADLINE_S
    with _reading(servers, out) as seen:
        while victims or not done.exists():
            assert time.monotonic() < deadline, said.read_text(errors="replace")[-3000:]
            if done.exists() or not records:  # all is done, and not all are killed
                done.unlink(missing_ok=True)
                more = (2 * len(victims) + 2) * exactly_once_driver.RECORDS_PER_BATCH
                _fill(servers, topic, range(records, records + more))
                records += more
            with running(command, chance, said) as driver:
                is_killed = False
                while victims and driver.process.poll() is None:
                    if not reaches(driver, state, newest_batch(state) + 1, deadline):
                        break
                    time.sleep(chance.random())
                    if victims[-1] == "driver":
                        is_killed = bool(victims.pop())
                        driver.kill()
                    elif driver.kill_worker():
                        victims.pop()
                code = driver.process.wait(deadline - time.monotonic())
            assert is_killed or code == 0, said.read_text(errors="replace")[-3000:]
        final = _final(servers, out)
        wait_for(lambda: seen == final, "the reader has seen everything")
    written = [_spans(PipelineState(state), number, out) for number in range(newest_batch(state) + 1)]
    history = _history([_batch(topic, each) for each in written], final, seen)
    assert anomalies(history) == [], REPLAY
    assert sum(len(values) for values in final.values()) == records


def _fill(servers: str, topic: str, numbers: range) -> None:
    """Value number n is in partition n % PARTITIONS, at offset n // PARTITIONS."""
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        for number in numbers:
            producer.send(topic, str(number), partition=number % PARTITIONS)


def _spans(state: PipelineState, number: int, out: str) -> dict[int, list[str]]:
    """The values of a batch by partition."""
    return {
        topic_partition.partition: [
            str(offset * PARTITIONS + topic_partition.partition)
            for first, last in spans
            for offset in range(first, last)
        ]
        for topic_partition, spans in state.spans(number).items()
    }


@contextmanager
def _reading(servers: str, out: str) -> Iterator[Values]:
    """What a reader of committed records sees meanwhile."""
    seen: Values = {}
    is_over = threading.Event()

    def read() -> None:
        with PartitionConsumer(bootstrap_servers=servers, isolation_level=COMMITTED) as consumer:
            for partition in range(PARTITIONS):
                consumer.consume_partition(out, partition, "earliest")
            while not is_over.is_set():
                for chunk in consumer.chunks(timeout=0.1):
                    values = seen.setdefault(chunk.topic_partition, [])
                    values += [value.decode() for value in chunk.batch["value"].to_pylist()]

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


# --- histories


def _batch(name: str, values: dict[int, list[str]]) -> Transaction:
    writes = {TopicAndPartition(name, partition): each for partition, each in values.items()}
    return Transaction("query", 0, begun_at=1, writes=writes, outcome=Outcome.COMMITTED)


def _final(servers: str, topic: str) -> Values:
    table = replay(topic, bootstrap_servers=servers, isolation_level=COMMITTED).to_table()
    final: Values = {}
    for partition, value in zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True):
        final.setdefault(TopicAndPartition(topic, partition), []).append(value.decode())
    return final


def _history(transactions: list[Transaction], final: Values, *readers: Values) -> History:
    return History(transactions, final, readers, takeovers={("query", 0): (0, 0)})
