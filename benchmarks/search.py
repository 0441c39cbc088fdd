"""Searching: a key, a JSON field or a text among many records of a local broker, by CPU time.

The records are 100 bytes of JSON with a key of 12 bytes, in the files of a broker that runs in this process.
The figure is records a CPU second; the targets are 10 M records in 2 s by key, and in 5 s by field, so their
rates stand as peers that nobody runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from benchmarks.harness import FULL, Case, Effort, Peer, benchmark, rate
from ottla import EmbeddedBroker, Producer, scan

RECORDS, FEW_RECORDS = 10_000_000, 1_000_000
BATCH = 100_000
TOPIC = "orders"
TARGETS = {"key": 5_000_000.0, "JSON field": 2_000_000.0}


@benchmark("search")
def search(effort: Effort) -> Iterator[Case]:
    """By key, by JSON field (a condition in SQL), by text."""
    records = RECORDS if effort is FULL else FEW_RECORDS
    with (
        tempfile.TemporaryDirectory(prefix="ottla-search-") as place,
        EmbeddedBroker(data_dir=Path(place)) as broker,
    ):
        _fill(broker.bootstrap, records)
        number = records * 3 // 4
        searches: dict[str, dict[str, str]] = {
            "key": {"key": f"order-{number:06d}"},
            "JSON field": {"where": f"\"user\" = 'user-{number:06d}'"},
            "text": {"contains": f"user-{number:06d}"},
        }
        for name, wanted in searches.items():
            target = TARGETS.get(name)
            work = _found_once(broker.bootstrap, wanted)
            yield Case(
                f"search {records // 1_000_000} M records by {name}",
                "records/CPU s",
                rate(work, records),
                [Peer("the target", measure=lambda at=target: at, target=1)] if target else [],  # type: ignore[misc]
                effort.process_rounds,
            )


def _fill(bootstrap: str, records: int) -> None:
    with Producer(bootstrap_servers=bootstrap, batch_size=1 << 18, buffer_memory=128 << 20) as producer:
        for start in range(0, records, BATCH):
            numbers = range(start, min(records, start + BATCH))
            keys = pa.array([f"order-{number:06d}" for number in numbers], pa.string())
            values = pa.array(
                [
                    f'{{"user": "user-{number:06d}", "amount": {number % 1000}, "item": "coffee with milk",'
                    ' "table": 4, "paid": true}'
                    for number in numbers
                ],
                pa.string(),
            )
            producer.send_batch(TOPIC, pa.table({"key": keys, "value": values}))
        producer.flush()


def _found_once(bootstrap: str, wanted: dict[str, str]) -> Callable[[], None]:
    def work() -> None:
        with scan(TOPIC, bootstrap_servers=bootstrap, **wanted) as found:  # type: ignore[arg-type]
            hits = found.to_table().num_rows
            if hits != 1 or not found.is_local:
                raise AssertionError(f"{wanted}: {hits} hits, local {found.is_local}")

    return work
