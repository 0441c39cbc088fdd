"""Spark queries over a topic: format("ottla") beside Spark's own connector, a consumer by hand, and parquet.

The connector has a Spark session of its own (`spark_queries`), on the same two cores and with the same
settings; contenders take turns, and the best round of each counts. Records have 8 B keys and 100 B values in
batches of 16 KB, in eight partitions of a broker of ours, which is a process of its own, too. A row per CPU
second is one per second and core that Spark has: the time of Python, Java and all workers counts, that of the
broker does not. By the clock the broker works on the same cores.

"parquet" reads the same rows from files: the bound for whatever brings rows into Spark. What it gives to say
which columns a query needs is a line of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.broker.contenders import counted, ottla
from benchmarks.broker.processes import Server
from benchmarks.consume import Log, filled
from benchmarks.cpu_time import complete_round
from benchmarks.harness import Better, Case, Effort, Measure, Peer, benchmark, version_of
from benchmarks.spark_queries import CORES
from ottla.admin import Admin, NewTopic
from tools.peer_cache import SPARK_KAFKA, Unavailable, spark_kafka_jars

VALUE_BYTES, PARTITIONS = 100, 8
CONNECTOR = "spark-sql-kafka-0-10"
CONFLUENT_SHARE = 16
MOST_MB = 256
GROWTH_PARTITIONS = (4, 16, 64)
TRIGGERS, SENDS = 25, 25
Answer = dict[str, Any]


class Session:
    """A process with a Spark session."""

    def __init__(self, *jars: str) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark_queries", *jars],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        self._answer()

    def ask(self, query: str, **request: object) -> Answer:
        """Run a query."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"query": query, **request}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._said.seek(0)
            raise RuntimeError(f"a Spark session ended: {self._said.read().decode(errors='replace')[-2000:]}")
        return json.loads(line)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._said.close()


@dataclass
class Turns:
    """Runs a contender in the turns of one case, and gives the next case what the other clock said."""

    run: Callable[[], Answer]
    units: float
    by_cpu: list[float] = field(default_factory=list)

    def first(self) -> float:
        """Run it; by the clock."""
        answer = complete_round(self._run)
        self.by_cpu.append(self.units / max(answer["cpu"], 0.01))
        return self.units / float(answer["seconds"]) / CORES

    def _run(self) -> Answer | None:
        answer = self.run()
        return None if answer["cpu"] is None else answer

    def second(self) -> float:
        """What the turns before were in CPU time."""
        return self.by_cpu.pop(0)


@dataclass(frozen=True)
class Place:
    """All that there is to run a case with. `theirs` is None where the connector cannot be had."""

    server: Server
    ours: Session
    theirs: Session | None
    why_not: str
    directory: Path

    def kafka(self, log: Log) -> dict[str, str]:
        """Options that both connectors know."""
        return {"kafka.bootstrap.servers": log.bootstrap, "subscribe": log.topic}

    def path(self, name: str) -> str:
        """A directory of the benchmark."""
        return str(self.directory / name)


@contextmanager
def place() -> Iterator[Place]:
    """A broker and the sessions."""
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="ottla-benchmark-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        server = stack.enter_context(ottla())
        ours = Session()
        stack.callback(ours.close)
        theirs, why_not = None, ""
        try:
            theirs = Session(*map(str, sorted(spark_kafka_jars().glob("*.jar"))))
            stack.callback(theirs.close)
        except Unavailable as error:
            why_not = str(error)
        yield Place(server, ours, theirs, why_not, directory)


@benchmark("spark")
def spark(effort: Effort) -> Iterator[Case]:
    """Queries, how they grow with partitions, and micro-batches, all with the same sessions."""
    with place() as at:
        yield from _queries(at, effort)
        yield from _growth(at, effort)
        yield from _streams(at, effort)


def _queries(at: Place, effort: Effort) -> Iterator[Case]:
    """What is done with all rows of a topic."""
    log = filled(at.server, VALUE_BYTES, PARTITIONS, min(MOST_MB, 4 * effort.server_mb))
    table = at.path("table")
    at.ours.ask("land", source={"options": at.kafka(log)}, path=table)
    for query, name, columns, target in (
        ("count", "count()", "offset", 1),
        ("sum", "sum(length(value))", "value", 1),
        ("group", "group by key, count", "key", 1),
        ("parquet", "to parquet through Spark's writer", "", 2),
    ):
        contenders = _contenders(at, log, query, table, columns, target)
        yield from _by_both_clocks(name, contenders, effort.process_rounds)
    yield from _by_both_clocks("to parquet, raw", _landing(at, log), effort.process_rounds)
    yield from _by_both_clocks("topic to topic", _copying(at, log), effort.process_rounds)
    yield from _by_both_clocks("topic to topic, exactly once", _copying_once(at, log), effort.process_rounds)


@dataclass(frozen=True)
class Contender:
    """Who runs, or why not."""

    name: str
    version: str
    run: Callable[[], Answer] | None
    rows: int
    target: float | None = None
    note: str = ""


def _contenders(at: Place, log: Log, query: str, table: str, columns: str, target: float) -> list[Contender]:
    out = at.path("out")

    def source(name: str, **options: str) -> Callable[[], Answer]:
        return lambda: at.ours.ask(
            query, source={"format": name, "options": {**at.kafka(log), **options}}, path=out
        )

    files = {"format": "parquet", "options": {}, "path": table}
    found = [
        Contender("ottla", "", source("ottla"), log.records),
        _connector(at, log, query, target),
        _by_hand(at, log, query),
        Contender("parquet", "", lambda: at.ours.ask(query, source=files, path=out), log.records),
    ]
    if columns:
        found.append(
            Contender(f"ottla, columns={columns}", "", source("ottla", columns=columns), log.records)
        )
    return found


def _connector(at: Place, log: Log, query: str, target: float) -> Contender:
    theirs = at.theirs
    source = {"format": "kafka", "options": at.kafka(log)}
    if theirs is None:
        return Contender(CONNECTOR, SPARK_KAFKA, None, 0, target, at.why_not)
    return Contender(
        CONNECTOR,
        SPARK_KAFKA,
        lambda: theirs.ask(query, source=source, path=at.path("theirs")),
        log.records,
        target,
    )


def _by_hand(at: Place, log: Log, query: str) -> Contender:
    version = version_of("confluent-kafka")
    name = "confluent-kafka, createDataFrame"
    if version is None:
        return Contender(name, "", None, 0, 10, "not installed")
    rows = log.records // CONFLUENT_SHARE
    source = {
        "format": "confluent",
        "options": {"bootstrap.servers": log.bootstrap, "fetch.queue.backoff.ms": 1},
        "topic": log.topic,
        "partitions": log.partitions,
        "records": rows,
    }
    return Contender(
        name, version, lambda: at.ours.ask(query, source=source, path=at.path("by-hand")), rows, 10
    )


def _landing(at: Place, log: Log) -> list[Contender]:
    """Ours writes the files in its tasks; the others are as before."""
    source = {"options": at.kafka(log)}
    return [
        Contender("ottla", "", lambda: at.ours.ask("land", source=source, path=at.path("raw")), log.records),
        _connector(at, log, "parquet", 5),
    ]


def _copying(at: Place, log: Log) -> list[Contender]:
    return [
        Contender("ottla", "", _copy(at, log, at.ours, "ottla"), log.records),
        Contender(CONNECTOR, SPARK_KAFKA, _copy(at, log, at.theirs, "kafka"), log.records, 1, at.why_not),
    ]


def _copying_once(at: Place, log: Log) -> list[Contender]:
    """Beside the same sink without transactions."""
    once = _copy(at, log, at.ours, "ottla", exactlyOnce="true")
    return [
        Contender("ottla, exactlyOnce", "", once, log.records),
        Contender("ottla, at least once", "", _copy(at, log, at.ours, "ottla"), log.records, 0.8),
    ]


def _copy(
    at: Place, log: Log, session: Session | None, name: str, **options: str
) -> Callable[[], Answer] | None:
    """Write the topic into a new one, which is deleted then."""
    if session is None:
        return None

    def run() -> Answer:
        copied = f"copy-{uuid.uuid4().hex[:12]}"
        sink = {
            "format": name,
            "options": {"kafka.bootstrap.servers": log.bootstrap, "topic": copied, **options},
        }
        with Admin(bootstrap_servers=log.bootstrap) as admin:
            admin.create_topics([NewTopic(copied, log.partitions)])
            try:
                return session.ask("topic", source={"format": name, "options": at.kafka(log)}, sink=sink)
            finally:
                admin.delete_topics([copied])

    return run


def _growth(at: Place, effort: Effort) -> Iterator[Case]:
    """The same rows in more and more partitions."""
    megabytes = max(GROWTH_PARTITIONS[-1], effort.server_mb)
    single = filled(at.server, VALUE_BYTES, 1, megabytes)

    def summing(log: Log) -> Callable[[], Answer]:
        return lambda: at.ours.ask("sum", source={"format": "ottla", "options": at.kafka(log)})

    for partitions in GROWTH_PARTITIONS:
        log = filled(at.server, VALUE_BYTES, partitions, megabytes)
        contenders = [
            Contender("ottla", "", summing(log), log.records),
            Contender("ottla, 1 partition", "", summing(single), single.records),
            _connector(at, log, "sum", 1),
        ]
        name = f"sum(length(value)) of {counted(partitions, 'partition')}"
        yield from _by_both_clocks(name, contenders, effort.process_rounds)


def _streams(at: Place, effort: Effort) -> Iterator[Case]:
    """What a micro-batch costs that has one or a few records, and how long a record waits for its end."""
    log = filled(at.server, VALUE_BYTES, 4, 4)
    limit = str(log.records // (TRIGGERS + 1))
    small = {**at.kafka(log), "startingOffsets": "earliest", "maxOffsetsPerTrigger": limit}
    sent = f"sent-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=at.server.bootstrap) as admin:
        admin.create_topics([NewTopic(sent, 4)])
    fresh = {"kafka.bootstrap.servers": log.bootstrap, "subscribe": sent}
    waiting = {"options": fresh, "topic": sent, "records": SENDS, "bootstrap": log.bootstrap}
    for name, query, request in (
        ("a micro-batch of few records", "triggers", {"options": small}),
        ("from a record sent to its micro-batch done", "latency", waiting),
    ):
        theirs = None if at.theirs is None else _seconds(at, at.theirs, "kafka", query, request)
        peer = Peer(CONNECTOR, SPARK_KAFKA, theirs, at.why_not, target=1)
        ours = _seconds(at, at.ours, "ottla", query, request)
        yield Case(name, "s", ours, [peer], effort.process_rounds, better=Better.LESS, is_warmed=False)


def _seconds(at: Place, session: Session, name: str, query: str, request: dict[str, Any]) -> Measure:
    """What a streaming query says of itself; its checkpoint is new each time."""

    def measure() -> float:
        source = {"format": name, "options": request["options"]}
        answer = session.ask(query, **{**request, "source": source, "path": at.path(uuid.uuid4().hex)})
        return float(answer["value"]) / 1000

    return measure


def _by_both_clocks(name: str, contenders: list[Contender], rounds: int) -> Iterator[Case]:
    """The same turns twice: as they were by the clock, and what they took of the processors."""
    turns = [Turns(one.run, one.rows) if one.run is not None else None for one in contenders]
    first, second = (
        [None if turn is None else getattr(turn, clock) for turn in turns] for clock in ("first", "second")
    )
    yield _case(f"{name}, by the clock", "rows/s a core", contenders, first, rounds, is_warmed=True)
    for turn in turns:
        if turn is not None:
            del turn.by_cpu[0]  # the round that warms
    yield _case(f"{name}, by CPU time", "rows/CPU s of Spark", contenders, second, rounds, is_warmed=False)


def _case(
    name: str,
    unit: str,
    contenders: list[Contender],
    measures: list[Measure | None],
    rounds: int,
    *,
    is_warmed: bool,
) -> Case:
    peers = [
        Peer(one.name, one.version, measure, one.note, one.target)
        for one, measure in zip(contenders[1:], measures[1:], strict=True)
    ]
    assert measures[0] is not None
    return Case(name, unit, measures[0], peers, rounds, is_warmed=is_warmed)
