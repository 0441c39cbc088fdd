"""A Spark session with settings that suit this package, for one machine or any master."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.model.errors import ConfigError
from ottla.zookeeper.java_runtime import JAVA_REMEDY, find_java

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
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(app_name: str = "ottla", master: str = "local[*]", **settings: str) -> SparkSession:
    """Return the session of this process; create it if there is none.

    `settings` are Spark's, with underscores for dots: spark_sql_shuffle_partitions="4". On one machine the
    workers run this Python, there are as many shuffle partitions as cores, and Spark's web pages are served
    on 127.0.0.1 (`session.sparkContext.uiWebUrl`; spark_ui_enabled="false" for none). Raises ConfigError if
    PySpark or Java is not installed.
    """
    check_installed()
    from pyspark.sql import SparkSession

    chosen: dict[str, str] = {}
    if master.startswith("local"):
        chosen |= LOCAL | {"spark.sql.shuffle.partitions": str(os.cpu_count() or 1)}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # where the web pages are served
        if "PYSPARK_PYTHON" not in os.environ and os.name == "posix":
            # Spark's planners look at nothing else: a JVM that runs already does not learn of it.
            os.environ["PYSPARK_PYTHON"] = worker_python()
    chosen |= {name.replace("_", "."): value for name, value in settings.items()}
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_installed() -> None:
    """Raise ConfigError if PySpark or Java is not installed; it says how to install them."""
    if find_spec("pyspark") is None:
        raise ConfigError("PySpark is not installed: pip install 'ottla[spark]'")
    if find_java() is None:
        raise ConfigError(f"Spark runs on Java and there is none here: {JAVA_REMEDY}")


def worker_python() -> str:
    """Path of a script that starts this Python without Spark's zip file.

    It is removed when this process ends.
    """
    directory = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    script = directory / "python"
    script.write_text(_WRAPPER.format(python=shlex.quote(sys.executable)))
    script.chmod(0o755)
    return str(script)
