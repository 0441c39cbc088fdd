"""Landing without Spark: raw records of a topic into tables, by CPU time of the process that lands.

The broker is a process of its own. The figure is MiB of keys and values a CPU second; the goal, 100, stands
as a peer that nobody runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.broker.contenders import ottla
from benchmarks.consume import KEY_BYTES, Log, filled
from benchmarks.harness import Case, Effort, Peer, benchmark, rate
from ottla.spark.lander import Lander
from ottla.spark.raw_tables import raw_table

VALUE_BYTES, PARTITIONS = (100, 1000), 4
GOAL = 100.0


@benchmark("land")
def land(effort: Effort) -> Iterator[Case]:
    """Small and large values, each kind of table."""
    with ottla() as server:
        for value_bytes in VALUE_BYTES:
            log = filled(server, value_bytes, PARTITIONS, 4 * effort.server_mb)
            raw_mib = log.records * (value_bytes + KEY_BYTES) / (1 << 20)
            for kind in ("parquet", "iceberg", "delta"):
                yield Case(
                    f"land {value_bytes} B values into {kind}",
                    "MiB/CPU s",
                    rate(_landed(log, kind), raw_mib),
                    [Peer("the goal", measure=lambda: GOAL, target=1)],
                    effort.process_rounds,
                )


def _landed(log: Log, kind: str) -> Callable[[], None]:
    def work() -> None:
        source = {"kafka.bootstrap.servers": log.bootstrap, "subscribe": log.topic}
        source["startingOffsets"] = "earliest"
        with tempfile.TemporaryDirectory(prefix="ottla-land-") as place:
            table = raw_table(kind, str(Path(place) / "table"), {}, has_headers=False)
            records = sum(batch.records for batch in Lander(source, table).batches())
            if records != log.records:
                raise AssertionError(f"{records} records have landed, of {log.records}")

    return work
