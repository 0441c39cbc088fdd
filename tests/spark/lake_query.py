"""A query of a Spark with the jars of Iceberg or Delta: its rows as JSON. The view `rows` is the table.

PYTHONPATH=PACKAGES python lake_query.py FORMAT JARS PATH SQL
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def main(kind: str, jars: str, path: str, sql: str) -> None:
    settings: dict[str, Any] = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        **(DELTA if kind == "delta" else {}),
    }
    spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    spark.read.format(kind).load(path).createOrReplaceTempView("rows")
    sys.stdout.write(json.dumps([list(row) for row in spark.sql(sql).collect()]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
