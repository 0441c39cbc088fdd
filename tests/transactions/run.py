"""A run of workers whose processes and broker are killed at random, and the history that it leaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Protocol

from ottla import Admin, OttlaError, Producer, TopicAndPartition, replay
from ottla.admin import NewTopic
from tests.broker.transactions.committed import read_committed
from tests.committed_reader import Values, committed_seen
from tests.forked_processes import ForkedProcesses
from tests.proof.checker import History, Outcome, Placed, Seen, Transaction, Write
from tests.transactions.worker import GROUP, INPUT, OUTPUT, OUTPUT_PARTITIONS
from tests.waiting import PATIENCE_S, wait_for

IDS = ("first", "second")
INPUT_PARTITIONS = 4
COMMITTED = "read_committed"
BACKLOG = 2_000
"""So many records of the input are unread when something goes wrong."""
PAUSE_S = (0.0, 0.1)
"""From the first transaction to the next kill."""
READ_EACH = 4
"""After one of so many kills of the broker all of the output is read."""
DYNAMIC_EACH = 5
"""One of so many workers is no static member of its group."""


class KillableBroker(Protocol):
    """A broker that is killed and started again at the same address.

    `session_ms` is the shortest session of a group that it allows, `request_timeout_ms` how long its clients
    wait for an answer.
    """

    session_ms: int
    request_timeout_ms: int

    @property
    def bootstrap(self) -> str:
        """Its address."""

    def kill(self) -> None:
        """End it at once."""

    def start(self) -> None:
        """Start it again, and return when it serves."""


class Run:
    """Workers of `IDS`, each replaced by the next when it ends or is killed."""

    def __init__(self, broker: KillableBroker, directory: Path, chance: Random) -> None:
        self._broker = broker
        self._directory = directory
        self._chance = chance
        self._counts = dict.fromkeys(IDS, 0)
        self._processes = ForkedProcesses("tests.transactions.worker")
        self._workers: dict[str, list[int]] = {name: [] for name in IDS}
        self._seen: list[Values] = []
        self._noted: dict[Path, int] = {}
        self._ended_count = self._fed_count = self._read_count = self._broker_kills = 0
        self._inputs: list[Write] = []

    def prepare(self) -> None:
        """Make the topics."""
        with Admin(bootstrap_servers=self._broker.bootstrap) as admin:
            admin.create_topics([NewTopic(INPUT, INPUT_PARTITIONS), NewTopic(OUTPUT, OUTPUT_PARTITIONS)])

    def feed(self) -> None:
        """Write more input, as much as was read. What was acknowledged belongs to the history."""
        self._look()
        first = self._fed_count
        self._fed_count = max(first, BACKLOG + self._read_count)
        with Producer(bootstrap_servers=self._broker.bootstrap, batch_size=1_000) as producer:
            deliveries = {
                f"{number:08}": producer.send(INPUT, f"{number:08}", partition=number % INPUT_PARTITIONS)
                for number in range(first, self._fed_count)
            }
            for value, delivery in deliveries.items():
                stored = delivery.result(PATIENCE_S)
                place = TopicAndPartition(INPUT, stored.partition)
                self._inputs.append(Write(f"feeder {first}", place, value, offset=stored.offset))

    # --- what happens

    def start(self, name: str) -> None:
        """Start the next worker of a transactional id."""
        writer = self._counts[name]
        self._counts[name] += 1
        file = self._directory / f"{name}.{writer}.jsonl"
        file.touch()
        kind = "static" if self._chance.randrange(DYNAMIC_EACH) else "dynamic"
        session_ms = self._broker.session_ms
        arguments = [self._broker.bootstrap, name, writer, file, self._chance.random(), session_ms, kind]
        arguments.append(self._broker.request_timeout_ms)
        self._workers[name].append(self._processes.start(" ".join(map(str, arguments))))

    def keep_up(self) -> None:
        """Start a worker for each id that has none."""
        for name, workers in self._workers.items():
            workers[:] = [worker for worker in workers if self._processes.lives(worker)]
            if not workers:
                self.start(name)

    def kill_worker(self) -> None:
        """Kill one that works, and start the next."""
        name = self._chance.choice(IDS)
        for worker in self._workers[name]:
            self._processes.kill(worker)
        self.start(name)

    def replace_worker(self) -> None:
        """Start the next one while the last still works: it must be refused."""
        self.start(self._chance.choice(IDS))

    def kill_broker(self) -> None:
        """Kill the broker, start it again, and at times read the output with librdkafka."""
        self._broker.kill()
        self._broker.start()
        self._broker_kills += 1
        if self._broker_kills % READ_EACH:
            return
        seen = {}
        for partition in range(OUTPUT_PARTITIONS):
            values = read_committed(self._broker.bootstrap, OUTPUT, partition)
            seen[TopicAndPartition(OUTPUT, partition)] = [value.decode() for value in values]
        self._seen.append(seen)

    def disturb(
        self, count: int, faults: Sequence[Callable[[], None]] = (), mend: Callable[[], None] = lambda: None
    ) -> None:
        """Let so many things go wrong, kills and `faults`, each after some transactions were committed.

        Transactions must go on while a fault lasts. `mend` is called before the next, and in the end.
        """
        steps = [*faults, self.kill_worker, self.replace_worker, self.kill_broker]
        pause = threading.Event()
        step: Callable[[], None] = self.keep_up
        for number in range(count):
            self.feed()
            before = self._ended_count
            wait_for(partial(self._goes_on, before), f"transactions go on after {step.__name__}")
            pause.wait(self._chance.uniform(*PAUSE_S))
            mend()
            step = steps[number % len(steps)]
            step()
        mend()

    def _goes_on(self, ended_before: int) -> bool:
        self.keep_up()
        self._look()
        return self._ended_count > ended_before

    def finish(self) -> None:
        """Let workers read all input, then end them, and whatever they have left open."""

        def is_done() -> bool:
            self.keep_up()
            with suppress(OttlaError), Admin(bootstrap_servers=self._broker.bootstrap) as admin:
                partitions = admin.group_lag(GROUP).partitions
                return [one.lag for one in partitions] == [0] * INPUT_PARTITIONS
            return False

        wait_for(is_done, "all input is read", pause=0.2)
        self.end()
        for name in IDS:
            with Producer(bootstrap_servers=self._broker.bootstrap, transactional_id=name) as producer:
                producer.init_transactions()

    def end(self) -> None:
        """Kill all workers."""
        for worker in (worker for workers in self._workers.values() for worker in workers):
            self._processes.kill(worker)

    def close(self) -> None:
        """Kill all workers and the process that forks them."""
        self._processes.close()

    @contextmanager
    def reader(self) -> Iterator[None]:
        """Read the output meanwhile."""
        with committed_seen(self._broker.bootstrap, OUTPUT, OUTPUT_PARTITIONS) as values:
            self._seen.append(values)
            yield

    # --- what is left

    def history(self) -> History:
        """What all workers have noted, and what readers see now."""
        transactions: list[Transaction] = []
        takeovers: dict[tuple[str, int], tuple[int, int]] = {}
        for name, count in self._counts.items():
            for writer in range(count):
                for line in self._notes(name, writer):
                    if "takeover" in line:
                        takeovers[name, writer] = (*line["takeover"],)
                    elif "outcome" in line:
                        transactions[-1].outcome = Outcome(line["outcome"])
                    else:
                        transactions.append(_transaction(name, writer, line))
        with Admin(bootstrap_servers=self._broker.bootstrap) as admin:
            committed = admin.group_lag(GROUP).partitions
        return History(
            transactions,
            final={**final_values(self._broker.bootstrap), **final_inputs(self._broker.bootstrap)},
            readers=self._seen,
            writes=self._inputs,
            takeovers=takeovers,
            positions={one.topic_partition: one.committed or 0 for one in committed},
        )

    def _notes(self, name: str, writer: int) -> list[dict[str, Any]]:
        text = (self._directory / f"{name}.{writer}.jsonl").read_text()
        whole = text[: text.rfind("\n") + 1]  # a kill may cut the last line
        return [json.loads(line) for line in whole.splitlines()]

    def _look(self) -> None:
        """Count what the workers have noted since the last look."""
        for file in self._directory.glob("*.jsonl"):
            with file.open("rb") as notes:
                notes.seek(self._noted.get(file, 0))
                new = notes.read()
            lines = new[: new.rfind(b"\n") + 1].splitlines()
            # The line before an outcome tells what was read; both are taken together.
            if lines and b"outcome" not in lines[-1]:
                lines.pop()
            self._noted[file] = self._noted.get(file, 0) + sum(len(line) + 1 for line in lines)
            for begun, ended in pairwise(map(json.loads, lines)):
                if "outcome" in ended:
                    self._ended_count += 1
                    if ended["outcome"] == Outcome.COMMITTED.value:
                        self._read_count += begun["reads"][2] - begun["reads"][1]


def _transaction(name: str, writer: int, line: dict[str, Any]) -> Transaction:
    writes = {TopicAndPartition(OUTPUT, int(number)): values for number, values in line["writes"].items()}
    partition, first, next_offset = line["reads"]
    reads = {TopicAndPartition(INPUT, partition): (first, next_offset)}
    return Transaction(name, writer, line["at"], writes, reads)


def final_inputs(bootstrap: str) -> Seen:
    """All of the input, with its offsets."""
    final: dict[TopicAndPartition, list[Placed]] = {}
    for message in replay(INPUT, bootstrap_servers=bootstrap).messages():
        place = TopicAndPartition(INPUT, message.partition)
        final.setdefault(place, []).append(Placed(message.offset, (message.raw_value or b"").decode()))
    return final


def final_values(bootstrap: str) -> Values:
    """All committed values of the output, in order."""
    table = replay(OUTPUT, bootstrap_servers=bootstrap, isolation_level=COMMITTED).to_table()
    final: Values = {}
    for partition, value in zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True):
        final.setdefault(TopicAndPartition(OUTPUT, partition), []).append(value.decode())
    return final
