"""Programs that read a topic and write another, killed at any moment: every record arrives once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pytest

from ottla import Admin, EmbeddedBroker, Producer, replay
from tests.scale import seeded, sized
from tests.waiting import wait_for

PROGRAM = textwrap.dedent(
    """
    import sys
    from ottla import GroupConsumer, Producer, TransactionAborted

    servers, name = sys.argv[1:]
    settings = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", "enable.auto.commit": False,
                "isolation.level": "read_committed", "fetch.message.max.bytes": 400,
                "session.timeout.ms": 2000, "heartbeat.interval.ms": 200}
    with Producer(bootstrap_servers=servers, transactional_id=name, linger_ms=0) as producer:
        producer.init_transactions()
        with GroupConsumer("in", settings, group_id="movers") as consumer:
            for chunk in consumer.chunks():
                try:
                    with producer.transaction():
                        producer.send_batch("out", chunk.batch.select(["value"]))
                        producer.send_offsets(chunk, consumer)
                except TransactionAborted:
                    if chunk.topic_partition in consumer.assignment:
                        consumer.seek(chunk.topic_partition, chunk.batch["offset"][0].as_py())
    """
)
RECORDS = sized(600, 20_000)
KILLS = sized(4, 100)
NAMES = ("mover-0", "mover-1")


@contextmanager
def running(broker: EmbeddedBroker, name: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, broker.bootstrap, name])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(600)
def test_every_record_arrives_once_though_programs_are_killed() -> None:
    chance = seeded("kills")
    expected = [f"{number}".encode() for number in range(RECORDS)]
    with EmbeddedBroker(properties={"group.min.session.timeout.ms": "500"}) as broker, ExitStack() as stack:
        broker.create_topic("in", 3)
        broker.create_topic("out", 3)
        with Producer(bootstrap_servers=broker.bootstrap, batch_size=300) as producer:
            producer.send_batch("in", pa.table({"value": expected, "key": expected}))
        admin = stack.enter_context(Admin(bootstrap_servers=broker.bootstrap))

        def done() -> int:
            return sum(position.offset for position in admin.group_offsets("movers").values())

        programs = {name: stack.enter_context(ExitStack()) for name in NAMES}
        for name, own in programs.items():
            own.enter_context(running(broker, name))
        for kill in range(KILLS):
            reached = (kill + 1) * RECORDS // (KILLS + 2)
            wait_for(lambda reached=reached: done() >= reached)
            name = chance.choice(NAMES)
            programs[name].close()
            programs[name].enter_context(running(broker, name))
        wait_for(lambda: done() == RECORDS)

        def arrived() -> list[bytes]:
            out = replay("out", bootstrap_servers=broker.bootstrap, isolation_level="read_committed")
            values: list[bytes] = out.to_table()["value"].to_pylist()
            return values

        wait_for(lambda: len(arrived()) >= RECORDS)  # the last markers may be written later
        found = Counter(arrived())
    assert {value: count for value, count in found.items() if count > 1} == {}
    assert set(found) == set(expected)
