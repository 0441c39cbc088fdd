"""A Spark session with settings that suit this package, for one machine or any master."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ottla.model.errors import ConfigError
from ottla.zookeeper.java_runtime import JAVA_REMEDY, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A = TypeVar("A")
R = TypeVar("R")

_PREFIX = "ottla-spark-"
_SCRIPT = """#!/bin/sh
case "$1" in -m) set -- -IS {client} {socket} "$@" ;; esac
exec {python} "$@"
"""
LOCAL = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "ottla.spark.daemon",
}


def session(app_name: str = "ottla", master: str = "local[*]", **settings: str) -> SparkSession:
    """Return the session of this process; create it if there is none.

    `settings` are Spark's, with underscores for dots: spark_sql_shuffle_partitions="4". On one machine the
    workers run this Python and are forked by `ottla.spark.daemon`, there are as many shuffle partitions as
    cores, and Spark's web pages are served on 127.0.0.1 (`session.sparkContext.uiWebUrl`;
    spark_ui_enabled="false" for none). With master="sc://host:15002" it is a session of Spark Connect. Raises
    ConfigError if PySpark or Java is not installed.
    """
    remote = master.startswith("sc://")
    check_installed(needs_java=not remote)
    from pyspark.sql import SparkSession

    chosen: dict[str, str] = {}
    if master.startswith("local"):
        chosen |= LOCAL | {"spark.sql.shuffle.partitions": str(os.cpu_count() or 1)}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # where the web pages are served
        if os.name == "posix" and is_python_ours_to_set():
            # Spark's planners read only this variable: a JVM that runs already does not learn of it.
            os.environ["PYSPARK_PYTHON"] = worker_python(is_forked=True)
    chosen |= {name.replace("_", "."): value for name, value in settings.items()}
    builder = SparkSession.builder.appName(app_name)
    builder = builder.remote(master) if remote else builder.master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def is_remote(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect: Spark runs in a server, and this process has no JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def in_tasks(spark: SparkSession, function: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
    """Return what the function returns for each argument, in a task of its own; with Spark Connect in this
    process.
    """
    if is_remote(spark) or not arguments:  # Spark Connect has no such tasks
        return [function(argument) for argument in arguments]
    return spark.sparkContext.parallelize(arguments, len(arguments)).map(function).collect()


def check_installed(*, needs_java: bool = True) -> None:
    """Raise ConfigError if PySpark or Java is not installed; it says how to install them."""
    if find_spec("pyspark") is None:
        raise ConfigError("PySpark is not installed: pip install 'ottla[spark]'")
    if needs_java and find_java() is None:
        raise ConfigError(f"Spark runs on Java and there is none here: {JAVA_REMEDY}")


def is_python_ours_to_set() -> bool:
    """Whether no Python is set, or only that of a parent's session, whose server would fork for us."""
    given = os.environ.get("PYSPARK_PYTHON")
    if given is None:
        return True
    owner = Path(given).parent.name
    return owner.startswith(_PREFIX) and not owner.startswith(f"{_PREFIX}{os.getpid()}-")


def worker_python(*, is_forked: bool = False) -> str:
    """Path of a script that starts this Python for Spark: without Spark's zip file, or by a fork server.

    It is removed when this process ends, and the server ends.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    script, socket = directory / "python", directory / "server"
    client = Path(__file__).with_name("fork_client.py")
    paths = {"python": sys.executable, "client": str(client), "socket": str(socket)}
    script.write_text(_SCRIPT.format(**{name: shlex.quote(path) for name, path in paths.items()}))
    script.chmod(0o755)
    if is_forked:
        from ottla.spark import fork_server

        with suppress(OSError):  # the path is too long for a socket: there are no forks
            fork_server.start(socket)
    return str(script)
