"""Spark queries over a topic: format("ottla") beside Spark's own connector, a consumer by hand, and parquet.

The connector has a Spark session of its own (`queries`), on the same two cores and with the same
settings; contenders take turns, and the best round of each counts. Records have 8 B keys and 100 B values in
batches of 16 KB, in eight partitions of a broker of ours, which is a process of its own, too. A row per CPU
second is one per second and core that Spark has: the time of Python, Java and all workers counts, that of the
broker does not. By the clock the broker works on the same cores.

"parquet" reads the same rows from files: the bound for whatever brings rows into Spark. What it gives to say
which columns a query needs is a line of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.broker.contenders import counted
from benchmarks.consume import Log, filled
from benchmarks.cpu_time import complete_round
from benchmarks.harness import Case, Effort, Measure, Peer, benchmark, version_of
from benchmarks.spark.queries import CORES
from benchmarks.spark.sessions import CONNECTOR, VALUE_BYTES, Answer, Place, Session, place
from ottla.admin import Admin, NewTopic
from tools.peer_cache import SPARK_KAFKA

PARTITIONS = 8
CONFLUENT_SHARE = 16
MOST_MB = 256
GROWTH_PARTITIONS = (4, 16, 64)
LONG_TIMES = 24
OWN_CPU_SHARE, SMALL_PARTITIONS_SHARE = 0.8, 0.6


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


@benchmark("spark-queries")
def queries(effort: Effort) -> Iterator[Case]:
    """What is asked of all rows of a topic."""
    with place() as at:
        log = _log(at, effort)
        table = at.path("table")
        at.ours.ask("land", source={"options": at.kafka(log)}, path=table)
        for query, name, columns in (
            ("count", "count()", "offset"),
            ("sum", "sum(length(value))", "value"),
            ("group", "group by key, count", "key"),
        ):
            contenders = _contenders(at, log, query, table, columns)
            yield from _by_both_clocks(name, contenders, effort.process_rounds)


@benchmark("spark-tables")
def tables(effort: Effort) -> Iterator[Case]:
    """A topic as parquet files."""
    with place() as at:
        log = _log(at, effort)
        for name, contenders in (
            ("to parquet, raw", _landed(at, log)),
            ("to parquet through Spark's writer", _written(at, log)),
        ):
            yield from _by_both_clocks(name, contenders, effort.process_rounds)


@benchmark("spark-copies")
def copies(effort: Effort) -> Iterator[Case]:
    """A topic into another one."""
    with place() as at:
        log = _log(at, effort)
        yield from _by_both_clocks("topic to topic", _copying(at, log), effort.process_rounds)
        yield from _by_both_clocks(
            "topic to topic, exactly once", _copying_once(at, log), effort.process_rounds
        )


def _log(at: Place, effort: Effort) -> Log:
    return filled(at.server, VALUE_BYTES, PARTITIONS, min(MOST_MB, 4 * effort.server_mb))


@dataclass(frozen=True)
class Contender:
    """Who runs, or why not."""

    name: str
    version: str
    run: Callable[[], Answer] | None
    rows: int
    target: float | None = None
    note: str = ""


def _contenders(at: Place, log: Log, query: str, table: str, columns: str) -> list[Contender]:
    def source(**options: str) -> Callable[[], Answer]:
        return lambda: at.ours.ask(query, source={"format": "ottla", "options": {**at.kafka(log), **options}})

    files = {"format": "parquet", "options": {}, "path": table}
    return [
        Contender("ottla", "", source(), log.records),
        _connector(at, log, query, 1),
        _by_hand(at, log, query),
        Contender("parquet", "", lambda: at.ours.ask(query, source=files), log.records),
        Contender(f"ottla, columns={columns}", "", source(columns=columns), log.records),
    ]


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


def _written(at: Place, log: Log) -> list[Contender]:
    """After raw landing, whose files are the bound: they are read and written."""

    def written(**source: object) -> Callable[[], Answer]:
        return lambda: at.ours.ask("parquet", source=source, path=at.path("out"))

    return [
        Contender("ottla", "", written(format="ottla", options=at.kafka(log)), log.records),
        _connector(at, log, "parquet", 2),
        _by_hand(at, log, "parquet"),
        Contender("parquet", "", written(format="parquet", options={}, path=at.path("raw")), log.records),
    ]


def _landed(at: Place, log: Log) -> list[Contender]:
    """Ours writes the files in its tasks; the connector has Spark's writer."""
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


@benchmark("spark-long")
def long(effort: Effort) -> Iterator[Case]:
    """A count() of ten seconds or more, in full size, beside what its own CPU time would allow."""
    with place(has_connector=False) as at:
        log = filled(at.server, VALUE_BYTES, PARTITIONS, LONG_TIMES * effort.server_mb)
        turns = Turns(
            lambda: at.ours.ask("count", source={"format": "ottla", "options": at.kafka(log)}), log.records
        )
        own = Peer("ottla by its own CPU time", measure=turns.second, target=OWN_CPU_SHARE)
        name = "count() of a long input, by the clock"
        yield Case(name, "rows/s a core", turns.first, [own], effort.process_rounds)


@benchmark("spark-growth")
def growth(effort: Effort) -> Iterator[Case]:
    """The same rows in more and more partitions."""
    with place() as at:
        yield from _growth(at, effort)


def _growth(at: Place, effort: Effort) -> Iterator[Case]:
    megabytes = max(GROWTH_PARTITIONS[-1], effort.server_mb)
    single = filled(at.server, VALUE_BYTES, 1, megabytes)

    def summing(log: Log) -> Callable[[], Answer]:
        return lambda: at.ours.ask("sum", source={"format": "ottla", "options": at.kafka(log)})

    for partitions in GROWTH_PARTITIONS:
        log = filled(at.server, VALUE_BYTES, partitions, megabytes)
        share = SMALL_PARTITIONS_SHARE if partitions == GROWTH_PARTITIONS[-1] else None
        contenders = [
            Contender("ottla", "", summing(log), log.records),
            Contender("ottla, 1 partition", "", summing(single), single.records, share),
            _connector(at, log, "sum", 1),
        ]
        name = f"sum(length(value)) of {counted(partitions, 'partition')}"
        yield from _by_both_clocks(name, contenders, effort.process_rounds)


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
