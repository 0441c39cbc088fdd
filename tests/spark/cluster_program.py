"""What `spark-submit` runs on a cluster: a table, a copy into another topic, and a stream that lands.

spark-submit --master spark://… cluster_program.py BOOTSTRAP TOPIC COPY DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import ottla.spark


def main(bootstrap: str, topic: str, copy: str, directory: str) -> None:
    place = Path(directory)
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    kafka = {"kafka.bootstrap.servers": bootstrap}
    options = {**kafka, "subscribe": topic, "startingOffsets": "earliest", "minRecordsPerTask": "0"}
    rows = spark.read.format("ottla").options(**options).load()
    rows.select("key", "value").write.format("ottla").mode("append").options(**kafka, topic=copy).save()
    query = ottla.spark.land_stream(
        spark,
        {**options, "maxOffsetsPerTrigger": "30"},
        place / "landed",
        place / "state",
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
