"""A query of a Spark with Iceberg's own runtime: its rows as JSON. The view `rows` is the table at the path.

PYTHONPATH=PACKAGES python iceberg_query.py JAR PATH SQL
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def main(jar: str, path: str, sql: str) -> None:
    settings: dict[str, Any] = {
        "spark.jars": jar,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }
    spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    spark.read.format("iceberg").load(path).createOrReplaceTempView("rows")
    sys.stdout.write(json.dumps([list(row) for row in spark.sql(sql).collect()]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
