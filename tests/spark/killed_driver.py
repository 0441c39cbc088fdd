"""A driver that is killed: streaming queries of one topic.

    python killed_driver.py BOOTSTRAP TOPIC DIRECTORY KIND …

A kind is `landing` (raw landing), `files` (Spark's own files) or `tables` (a pipeline into Delta, Iceberg and
parquet). The driver goes on where it was, and ends when all have read what there is. Then `result.json` has
the values of Spark's files, which only Spark can read: files of batches that do not count are there, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ottla.spark

TABLES = ("delta", "iceberg", "parquet")
RECORDS_PER_BATCH = 60
SETTINGS = {
    "spark_sql_streaming_minBatchesToRetain": "1000000",  # the checker reads them all
    "spark_driver_memory": "512m",
    "spark_sql_streaming_checkpoint_fileChecksum_enabled": "false",
}


def main(bootstrap: str, topic: str, directory: str, *kinds: str) -> None:
    place = Path(directory)
    # A task whose worker is killed is tried again, four times in all.
    spark = ottla.spark.session("killed", "local[2,4]", **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(RECORDS_PER_BATCH),
        "minRecordsPerTask": "0",
    }
    begin = {"landing": landing, "files": files, "tables": tables}
    for query in [begin[kind](spark, options, place) for kind in kinds]:
        query.awaitTermination()
    stored = spark.read.parquet(str(place / "files-table")).select("value").collect()
    (place / "result.json").write_text(json.dumps([int(row.value) for row in stored]))
    spark.stop()


def landing(spark: Any, options: dict[str, str], place: Path) -> Any:
    """Raw landing."""
    return ottla.spark.land_stream(
        spark, options, place / "landed", place / "landing", trigger={"availableNow": True}
    )


def files(spark: Any, options: dict[str, str], place: Path) -> Any:
    """Spark's own sink."""
    rows = spark.readStream.format("ottla").options(**options).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(place / "files"))
    return writer.trigger(availableNow=True).start(str(place / "files-table"))


def tables(spark: Any, options: dict[str, str], place: Path) -> Any:
    """A pipeline into a table of each kind."""
    more = {name: options[name] for name in ("maxOffsetsPerTrigger", "minRecordsPerTask")}
    source = {"bootstrap": options["kafka.bootstrap.servers"], "topics": [options["subscribe"]], **more}
    sinks = [{"format": kind, "path": str(place / kind), "compact_after": 8} for kind in TABLES]
    pipeline = ottla.spark.Pipeline.of({"source": {**source, "start": "earliest"}, "sink": sinks})
    return pipeline.online(spark, place / "tables", trigger={"availableNow": True})


if __name__ == "__main__":
    main(*sys.argv[1:])
