"""A driver that is killed: a streaming query from topic to topic with exactlyOnce.

    python -m tests.spark.exactly_once_driver BOOTSTRAP TOPIC OUT DIRECTORY

It goes on where it was, and ends when it has read what there is. Then there is a file `done`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import ottla.spark
from tests.spark.killed_driver import SETTINGS

RECORDS_PER_BATCH = 60


def copied(spark: SparkSession, bootstrap: str, topic: str, out: str, checkpoint: Path) -> StreamingQuery:
    """The query: partition by partition, all that there is now."""
    kafka = {"kafka.bootstrap.servers": bootstrap}
    options = {
        **kafka,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(RECORDS_PER_BATCH),
        "minRecordsPerTask": "0",
    }
    rows = spark.readStream.format("ottla").options(**options).load().select("value", "partition")
    writer = rows.writeStream.format("ottla").options(**kafka, topic=out, exactlyOnce="true")
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def main(bootstrap: str, topic: str, out: str, directory: str) -> None:
    place = Path(directory)
    # A task whose worker is killed is tried again, four times in all.
    spark = ottla.spark.session("killed", "local[2,4]", **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    copied(spark, bootstrap, topic, out, place / "state").awaitTermination()
    (place / "done").touch()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
