"""A Spark session that starts quickly and suits this package: for one machine, or any master."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark gives its workers a path with pyspark.zip in front, which they then import without compiled
# bytecode: a second for each new process. The installed package is the same code.
_WRAPPER = """#!/bin/sh
PYTHONPATH=$(printf %s "$PYTHONPATH" | tr ':' '\\n' | grep -v '/pyspark\\.zip$' | paste -sd: -)
export PYTHONPATH
exec {python} "$@"
"""
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(app_name: str = "ottla", master: str = "local[*]", **settings: str) -> SparkSession:
    """The session of this process, made if there is none.

    `settings` are Spark's, with underscores for dots: spark_sql_shuffle_partitions="4". On one machine the
    workers run this Python, and as many shuffle partitions as cores are made.
    """
    from pyspark.sql import SparkSession

    chosen: dict[str, str] = {}
    if master.startswith("local"):
        chosen |= LOCAL | {"spark.sql.shuffle.partitions": str(os.cpu_count() or 1)}
        if "PYSPARK_PYTHON" not in os.environ and os.name == "posix":
            # Spark's planners look at nothing else: a JVM that runs already does not learn of it.
            os.environ["PYSPARK_PYTHON"] = worker_python()
    chosen |= {name.replace("_", "."): value for name, value in settings.items()}
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def worker_python() -> str:
    """A script that starts this Python without Spark's zip file; it goes with this process."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    script = directory / "python"
    script.write_text(_WRAPPER.format(python=shlex.quote(sys.executable)))
    script.chmod(0o755)
    return str(script)
