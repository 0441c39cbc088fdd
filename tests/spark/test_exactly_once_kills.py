"""Drivers and workers of exactlyOnce die at random moments: readers of committed records see no anomaly.

What they see is judged by the checker of tests/proof, where each batch is one transaction. They die in three
ways: between two steps of the protocol; as processes that do what Spark's processes do without Java, which
cost little to start; and as processes of Spark, which take seconds to start, so that the suite kills few.
`make soak` kills more, on Apache Kafka too, and OTTLA_KILLS=n so many processes of Spark: a third of them are
drivers. OTTLA_SEED decides which and when.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker, Producer, TopicAndPartition, replay
from ottla.admin import NewTopic
from ottla.producer import TransactionEnder
from ottla.spark.exactly_once import write_tasks
from ottla.spark.exactly_once.decision_log import DecisionLog
from ottla.spark.pipeline.state import PipelineState
from tests.committed_reader import Values, committed_seen
from tests.forked_processes import ForkedProcesses
from tests.proof.checker import History, Outcome, Transaction, anomalies
from tests.scale import REPLAY, SOAK, kills, seeded, sized
from tests.spark import exactly_once_driver, exactly_once_process
from tests.spark.exactly_once_process import WORKER, batches_done, values_of
from tests.spark.killing import newest_batch, reaches, running
from tests.spark.process_tree import children, kill, kill_with_all_below, name_of
from tests.spark.sink_steps import Sink, bootstrap, task
from tests.waiting import wait_for
from tools.peers import KAFKA_4, RealKafka

__all__ = ["bootstrap"]

PARTITIONS = 3
DEATHS = sized(20, 500)
BATCH_S = 0.1
"""About how long a batch without Java takes."""
KILLS = kills(2, 500)
DEADLINE_S = 480 + 30 * KILLS


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


@pytest.fixture(params=["ottla", "kafka"] if SOAK else ["ottla"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kafka":
        real_kafka: Callable[[str], RealKafka] = request.getfixturevalue("real_kafka")
        yield real_kafka(KAFKA_4).bootstrap
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


# --- processes without Java


class Drivers:
    """Drivers, one after the other. One that was stopped goes on later, beside its successor."""

    def __init__(self, servers: str, topic: str, notes: Path, chance: random.Random) -> None:
        self._processes = ForkedProcesses(exactly_once_process.__name__, servers, topic, str(notes))
        self._notes, self._chance = notes, chance
        self._pid = 0

    def keep_up(self, until: int = 1_000_000) -> int:
        """Let a driver run if there is none; return its id."""
        if not self._pid or not self._processes.lives(self._pid):
            self._pid = self._processes.start(str(until))
        return self._pid

    def kill(self) -> None:
        """Kill the driver, with what it has started or without; a stopped one goes on then."""
        pid = self._driver_at_work()
        if self._chance.random() < 0.5:
            kill_with_all_below(pid)
        self._processes.kill(pid)
        for stopped in list(self._processes.stopped):
            self._processes.go_on(stopped)

    def stop(self) -> None:
        """Stop the driver: it is replaced, and does not know it when it goes on."""
        pid = self._driver_at_work()
        with suppress(ProcessLookupError):
            self._processes.send(pid, signal.SIGSTOP)
        self._pid = 0

    def kill_worker(self) -> None:
        """Kill a process in which tasks run."""
        wait_for(self._workers, "tasks run", pause=0.001)
        time.sleep(self._chance.uniform(0, BATCH_S))  # the moment of the kill is what is tried
        kill(self._chance.choice(wait_for(self._workers, "tasks run", pause=0.001)))

    def _workers(self) -> list[int]:
        return [pid for pid in children(self.keep_up()) if name_of(pid) == WORKER]

    def _driver_at_work(self) -> int:
        before = batches_done(self._notes)

        def is_done() -> bool:
            self.keep_up()
            return batches_done(self._notes) > before

        wait_for(is_done, "a batch is done", pause=0.005)
        time.sleep(self._chance.uniform(0, 2 * BATCH_S))
        return self.keep_up()

    def finish(self, more: int) -> int:
        """Kill all of them; the last one writes so many batches more. Return how many there are."""
        self._kill_all()
        batches = batches_done(self._notes) + more

        def is_done() -> bool:
            self.keep_up(batches)
            return batches_done(self._notes) >= batches

        wait_for(is_done, "all is written")
        wait_for(lambda: not self._processes.lives(self._pid), "the last driver ends")
        return batches

    def close(self) -> None:
        """End all of them."""
        self._kill_all()
        self._processes.close()

    def _kill_all(self) -> None:
        for stopped in list(self._processes.stopped):
            self._processes.go_on(stopped)
        for pid in filter(self._processes.lives, list(self._processes.running)):
            kill_with_all_below(pid)
            self._processes.kill(pid)


@pytest.mark.timeout(sized(300, 7_200))
def test_processes_of_drivers_and_tasks_are_killed(servers: str, tmp_path: Path) -> None:
    chance = seeded("processes")
    topic, notes = f"processes-{chance.getrandbits(32):x}", tmp_path / "batches"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    drivers = Drivers(servers, topic, notes, chance)
    steps = [drivers.kill] * DEATHS + [drivers.kill_worker] * DEATHS + [drivers.stop] * (DEATHS // 4)
    chance.shuffle(steps)
    with committed_seen(servers, topic, PARTITIONS) as seen:
        try:
            for step in steps:
                step()
            batches = drivers.finish(2)
        finally:
            drivers.close()
        final = _final(servers, topic)
        wait_for(lambda: seen == final, "the reader has seen everything")
    log = notes.with_suffix(".log")
    assert not log.exists(), log.read_text()
    transactions = [
        _batch(topic, {partition: values_of(batch, partition) for partition in range(PARTITIONS)})
        for batch in range(batches)
    ]
    assert anomalies(_history(transactions, final, seen)) == [], REPLAY


# --- processes of Spark


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
    with committed_seen(servers, out, PARTITIONS) as seen:
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


# --- histories


def _batch(name: str, values: dict[int, list[str]]) -> Transaction:
    writes = {TopicAndPartition(name, partition): each for partition, each in values.items()}
    return Transaction("query", 0, begun_at=1, writes=writes, outcome=Outcome.COMMITTED)


def _final(servers: str, topic: str) -> Values:
    table = replay(topic, bootstrap_servers=servers, isolation_level="read_committed").to_table()
    final: Values = {}
    for partition, value in zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True):
        final.setdefault(TopicAndPartition(topic, partition), []).append(value.decode())
    return final


def _history(transactions: list[Transaction], final: Values, *readers: Values) -> History:
    return History(transactions, final, readers, takeovers={("query", 0): (0, 0)})
