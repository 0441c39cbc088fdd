"""Where benchmarks of Spark run: a broker and sessions of Spark, each in a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.broker.contenders import ottla
from benchmarks.broker.processes import Server
from benchmarks.consume import Log
from benchmarks.harness import bytecode_kept
from tools.peer_cache import Unavailable, spark_kafka_jars

VALUE_BYTES = 100
CONNECTOR = "spark-sql-kafka-0-10"
Answer = dict[str, Any]


class Session:
    """A process with a Spark session."""

    def __init__(self, *jars: str) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark.queries", *jars],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        self._answer()

    def ask(self, query: str, **request: object) -> Answer:
        """Run a query."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"query": query, **request}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._said.seek(0)
            raise RuntimeError(f"a Spark session ended: {self._said.read().decode(errors='replace')[-2000:]}")
        return json.loads(line)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._said.close()


@dataclass(frozen=True)
class Place:
    """All that there is to run a case with. `theirs` is None where the connector cannot be had."""

    server: Server
    ours: Session
    theirs: Session | None
    why_not: str
    directory: Path

    def kafka(self, log: Log) -> dict[str, str]:
        """Options that both connectors know."""
        return {"kafka.bootstrap.servers": log.bootstrap, "subscribe": log.topic}

    def path(self, name: str) -> str:
        """A directory of the benchmark."""
        return str(self.directory / name)


@contextmanager
def place(*, has_connector: bool = True) -> Iterator[Place]:
    """A broker and the sessions; without the connector there is one."""
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="ottla-benchmark-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        stack.enter_context(bytecode_kept())
        server = stack.enter_context(ottla())
        ours = Session()
        stack.callback(ours.close)
        theirs, why_not = None, ""
        if has_connector:
            try:
                theirs = Session(*connector_jars())
                stack.callback(theirs.close)
            except Unavailable as error:
                why_not = str(error)
        yield Place(server, ours, theirs, why_not, directory)


def connector_jars() -> list[str]:
    """The jars of Spark's connector. Raises Unavailable."""
    return [str(path) for path in sorted(spark_kafka_jars().glob("*.jar"))]
