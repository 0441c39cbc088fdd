"""A driver that is killed: two streaming queries of one topic, raw landing and Spark's own files.

    python killed_driver.py BOOTSTRAP TOPIC DIRECTORY

It goes on where it was, and ends when both have read what there is. Then `result.json` has the values of
Spark's table, which only Spark can read: files of batches that do not count are in its directory, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ottla.spark

RECORDS_PER_BATCH = 60
SETTINGS = {
    "spark_driver_memory": "512m",
    "spark_sql_streaming_checkpoint_fileChecksum_enabled": "false",
}


def main(bootstrap: str, topic: str, directory: str) -> None:
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
    landing = ottla.spark.land_stream(
        spark, options, place / "landed", place / "landing", trigger={"availableNow": True}
    )
    rows = spark.readStream.format("ottla").options(**options).load()
    files = rows.writeStream.format("parquet").option("checkpointLocation", str(place / "files"))
    table = files.trigger(availableNow=True).start(str(place / "table"))
    landing.awaitTermination()
    table.awaitTermination()
    values = [int(row.value) for row in spark.read.parquet(str(place / "table")).select("value").collect()]
    (place / "result.json").write_text(json.dumps(values))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
