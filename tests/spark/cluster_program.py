"""What `spark-submit` runs on a cluster: a copy into another topic, and streams that land and write once.

spark-submit --master spark://… cluster_program.py BOOTSTRAP TOPIC COPY ONCE DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import ottla.spark


def main(bootstrap: str, topic: str, copy: str, once: str, directory: str) -> None:
    place = Path(directory)
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    kafka = {"kafka.bootstrap.servers": bootstrap}
    options = {**kafka, "subscribe": topic, "startingOffsets": "earliest", "minRecordsPerTask": "0"}
    rows = spark.read.format("ottla").options(**options).load()
    rows.select("key", "value").write.format("ottla").mode("append").options(**kafka, topic=copy).save()
    options["maxOffsetsPerTrigger"] = "30"
    landing = ottla.spark.land_stream(
        spark,
        options,
        place / "landed",
        place / "state",
        trigger={"availableNow": True},
    )
    landing.awaitTermination()
    rows = spark.readStream.format("ottla").options(**options).load().select("value")
    writer = rows.writeStream.format("ottla").options(**kafka, topic=once, exactlyOnce="true")
    writer = writer.option("checkpointLocation", str(place / "once")).trigger(availableNow=True)
    writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
