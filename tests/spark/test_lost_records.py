"""Retention that overtakes a reader, and records that are damaged: told by name, or gone past."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, CorruptRecord, EmbeddedBroker, Producer
from ottla.model.errors import DataLost
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.source_options import Mode, source_options
from ottla.spark.stream_planner import StreamPlanner
from tests.spark.conftest import Filled, Reads, values


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap) as one:
        yield one


class Query:
    """A streaming query, batch by batch as Spark runs it: planned here, read there."""

    def __init__(self, broker: EmbeddedBroker, topic: str, **options: str) -> None:
        given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options}
        source = OttlaDataSource(given)
        self.reader: Any = source.streamReader(source.schema())
        self.planner = StreamPlanner(source_options(given, Mode.STREAM))
        self.at = self.planner.initial_offset()

    def plan(self) -> list[Any]:
        end = self.planner.latest_offset(self.at, None, takes_all=True)
        self.at, start = end, self.at
        return self.reader.partitions(start, end)

    def read(self, tasks: list[Any]) -> list[int]:
        batches = chain.from_iterable(self.reader.read(task) for task in tasks)
        return sorted(int(row["value"]) for batch in batches for row in batch.to_pylist())

    def close(self) -> None:
        self.planner.close()
        self.reader.stop()


def test_retention_overtakes_a_query_between_batches(
    broker: EmbeddedBroker, topic: str, fill: Filled, admin: Admin
) -> None:
    strict = Query(broker, topic, startingOffsets="earliest")
    lenient = Query(broker, topic, startingOffsets="earliest", failOnDataLoss="false")
    try:
        fill(topic, range(300))
        admin.delete_records({TopicAndPartition(topic, 0): 40})
        with pytest.raises(DataLost, match=f"{topic}-0: offsets 0 to 39 are not in the log any more"):
            strict.plan()
        assert lenient.read(lenient.plan()) == sorted(
            [*range(120, 300, 3), *range(1, 300, 3), *range(2, 300, 3)]
        )
    finally:
        strict.close()
        lenient.close()


def test_retention_overtakes_a_task_that_is_planned(
    broker: EmbeddedBroker, topic: str, fill: Filled, admin: Admin
) -> None:
    fill(topic, range(300))
    strict = Query(broker, topic, startingOffsets="earliest")
    lenient = Query(broker, topic, startingOffsets="earliest", failOnDataLoss="false")
    try:
        planned, also_planned = strict.plan(), lenient.plan()
        admin.delete_records({TopicAndPartition(topic, 0): 40})
        with pytest.raises(DataLost, match=f"{topic}-0 at offset 0: .*failOnDataLoss"):
            strict.read(planned)
        assert lenient.read(also_planned) == sorted(
            [*range(120, 300, 3), *range(1, 300, 3), *range(2, 300, 3)]
        )
    finally:
        strict.close()
        lenient.close()


def test_damaged_records_are_named_and_can_be_passed_over(
    broker: EmbeddedBroker, topic: str, producer: Producer, read: Reads
) -> None:
    for number in range(1000, 1030):
        producer.send(topic, str(number), partition=1).result()  # a batch each
    damage(broker.data_dir / f"{topic}-1", b"1017")
    with pytest.raises(CorruptRecord, match=f"{topic}-1 at offset 17: .*failOnDataLoss"):
        read(subscribe=topic)
    assert values(read(subscribe=topic, failOnDataLoss="false")) == [
        n for n in range(1000, 1030) if n != 1017
    ]
    before = {"startingOffsets": f'{{"{topic}":{{"0":0,"1":18,"2":0}}}}'}
    assert values(read(subscribe=topic, **before)) == list(range(1018, 1030))


def damage(directory: Path, value: bytes) -> None:
    """Change a byte of a record on the broker's disk."""
    (segment,) = directory.glob("*.log")
    with segment.open("r+b") as file:
        at = file.read().index(value)
        file.seek(at)
        file.write(b"X")
