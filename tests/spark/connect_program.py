"""Runs pipelines through Spark Connect: `python -m tests.spark.connect_program BOOTSTRAP TOPIC DIRECTORY`.

A process of its own, because a process is a client of Spark Connect or has a JVM, not both. Spark's server is
in a JVM that this process starts; everything else goes through its port.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from ottla.spark import Pipeline, land
from ottla.spark.session import LOCAL, is_remote, worker_python


def main(bootstrap: str, topic: str, directory: str) -> None:
    root = Path(directory)
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=worker_python())
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
    for name, value in {**LOCAL, "spark.ui.enabled": "false"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    assert is_remote(spark)
    source = {"bootstrap": bootstrap, "topics": [topic], "start": "earliest"}
    arrow = {"arrow": "tests.spark.pipeline_functions:inverted", "arrow_schema": "number long, part int"}
    rows = Pipeline.of(
        {
            "source": {**source, "maxOffsetsPerTrigger": 4},
            "decode": {"format": "text"},
            "transform": arrow,
            "sink": {"format": "parquet", "path": str(root / "rows"), "compact_after": 2},
            "dead_letters": {"path": str(root / "bad")},
        }
    )
    sql = "select int(decode(value, 'UTF-8')) % 2 as odd, timestamp from records"
    window = {"duration": "1 hour", "group_by": ["odd"], "aggregates": ["count(*) as events"]}
    totals = Pipeline.of(
        {
            "source": source,
            "transform": {"sql": sql},
            "window": window,
            "sink": {"format": "parquet", "path": str(root / "totals")},
        }
    )
    report: dict[str, object] = {"problems": rows.analysed(spark, sample=2).problems}
    for name, pipeline in (("rows", rows), ("totals", totals)):
        run = pipeline.online(spark, root / f"{name}-state", trigger={"availableNow": True})
        assert run.awaitTermination(250)
        table = ds.dataset(root / name).to_table()
        report[name] = table.drop_columns(
            ["window_start", "window_end"] if name == "totals" else []
        ).to_pylist()
        report[f"{name} lag"] = [part.lag for part in pipeline.status(root / f"{name}-state").partitions]
        report[f"{name} batches"] = len(pipeline.status(root / f"{name}-state").batches)
    report["bad"] = len(ds.dataset(root / "bad").to_table())
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    done = [land(spark, options, root / "landed") for _ in range(2)]  # the second one replaces the first
    there = ds.dataset(root / "landed", partitioning="hive").count_rows()
    report["landed"] = [*(each.rows for each in done), len(done[1].files), there]
    spark.stop()
    sys.stdout.write(f"{json.dumps(report)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
