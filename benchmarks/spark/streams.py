"""Micro-batches, how long a record waits for its row, and the first query of a process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from benchmarks.broker.contenders import ottla
from benchmarks.consume import filled
from benchmarks.harness import Better, Case, Effort, Measure, Peer, benchmark, bytecode_kept
from benchmarks.spark.sessions import CONNECTOR, VALUE_BYTES, Place, Session, connector_jars, place
from ottla.admin import Admin, NewTopic
from tools.peer_cache import SPARK_KAFKA, Unavailable

TRIGGERS, SENDS, STEADY_SENDS = 25, 25, 500
P99 = "p99 from a record sent to its row in committed parquet"


@benchmark("spark-streams")
def streams(effort: Effort) -> Iterator[Case]:
    """What a micro-batch costs that has one or a few records, and how long a record waits for its row."""
    with place() as at:
        yield from _streams(at, effort)


def _streams(at: Place, effort: Effort) -> Iterator[Case]:
    log = filled(at.server, VALUE_BYTES, 4, 4)
    limit = str(log.records // (TRIGGERS + 1))
    small = {**at.kafka(log), "startingOffsets": "earliest", "maxOffsetsPerTrigger": limit}
    sent = f"sent-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=at.server.bootstrap) as admin:
        admin.create_topics([NewTopic(sent, 4)])
    fresh = {"kafka.bootstrap.servers": log.bootstrap, "subscribe": sent}
    waiting = {"options": fresh, "topic": sent, "records": SENDS, "bootstrap": log.bootstrap}
    steady = {
        **waiting,
        "options": {**fresh, "startingOffsets": "earliest"},
        "records": STEADY_SENDS if effort.process_rounds > 1 else STEADY_SENDS // 5,
    }
    for name, query, request in (
        ("a micro-batch of few records", "triggers", {"options": small}),
        ("from a record sent to its micro-batch done", "latency", waiting),
        (P99, "committed", steady),
    ):
        theirs = None if at.theirs is None else _seconds(at, at.theirs, "kafka", query, request)
        peers = [Peer(CONNECTOR, SPARK_KAFKA, theirs, at.why_not, target=1)]
        if name == P99:
            peers.append(Peer("ottla, landing", measure=_seconds(at, at.ours, "landing", query, request)))
        ours = _seconds(at, at.ours, "ottla", query, request)
        is_warmed = name == P99  # its first query starts the processes that write
        rounds = effort.process_rounds
        yield Case(name, "s", ours, peers, rounds, better=Better.LESS, is_warmed=is_warmed)


@benchmark("spark-first")
def first(effort: Effort) -> Iterator[Case]:
    """The first query of a process, a count() of few records, after its session has begun."""
    with bytecode_kept(), ottla() as server:
        log = filled(server, VALUE_BYTES, 4, 1)
        options = {"kafka.bootstrap.servers": log.bootstrap, "subscribe": log.topic}

        def fresh(name: str, *jars: str) -> Measure:
            def measure() -> float:
                session = Session(*jars)
                try:
                    return float(session.ask("count", source={"format": name, "options": options})["seconds"])
                finally:
                    session.close()

            return measure

        try:
            peer = Peer(CONNECTOR, SPARK_KAFKA, fresh("kafka", *connector_jars()), target=1)
        except Unavailable as error:
            peer = Peer(CONNECTOR, SPARK_KAFKA, None, str(error), target=1)
        name = "the first query of a process"
        rounds = effort.process_rounds
        yield Case(name, "s", fresh("ottla"), [peer], rounds, better=Better.LESS, is_warmed=False)


def _seconds(at: Place, session: Session, name: str, query: str, request: dict[str, Any]) -> Measure:
    """What a streaming query says of itself; its checkpoint is new each time."""

    def measure() -> float:
        source = {"format": name, "options": request["options"]}
        answer = session.ask(query, **{**request, "source": source, "path": at.path(uuid.uuid4().hex)})
        return float(answer["value"]) / 1000

    return measure
