"""Processes of a write with exactlyOnce that cost no Java: drivers, and the workers of their tasks.

    python -m tests.spark.exactly_once_process BOOTSTRAP TOPIC NOTES

For each line of the input it forks a driver, which writes batch after batch until there are so many as the
line says. As in Spark, a write is planned and committed in processes that end soon, a worker lives through
many tasks, and a task whose worker dies is tried again by another one. NOTES has the number of each batch
that is done: a driver begins after the last of them. What ends a driver by itself is in NOTES with the suffix
.log, unless another driver has replaced it.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from ottla.spark.daemon import preload
from ottla.spark.writer import TopicWriter, sink_options
from tests.forked_processes import fork_for_each_line
from tests.spark.process_tree import kill

PARTITIONS = 3
WORKERS = 2
WORKER = "task worker"
"""The name of a worker's process."""
ROWS = 10
REPLACED = ("ProducerFenced", "TransactionAborted")
"""Errors of a driver that goes on although another one has taken over."""
SCHEMA = StructType([StructField("value", StringType()), StructField("partition", IntegerType())])


def batches_done(notes: Path) -> int:
    """How many batches are done; the last line may be cut."""
    text = notes.read_text() if notes.exists() else ""
    return max((int(line) + 1 for line in text[: text.rfind("\n") + 1].split()), default=0)


def values_of(batch: int, partition: int) -> list[str]:
    """What a batch writes into a partition."""
    first = (batch * PARTITIONS + partition) * ROWS
    return [str(number) for number in range(first, first + ROWS)]


class Worker:
    """A process that calls what it is told to, until its owner closes it or dies."""

    def __init__(self, name: str) -> None:
        self._line, far = Pipe()
        self.pid = os.fork()
        if not self.pid:
            self._line.close()
            Path("/proc/self/comm").write_text(name)
            with suppress(EOFError, OSError):
                while True:
                    far.send(_called(*far.recv()))
            os._exit(0)
        far.close()

    def call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Return the result. Raises EOFError if the process is killed, RuntimeError if the function fails."""
        try:
            self._line.send((function, arguments))
            result, failure = self._line.recv()
        except OSError as error:
            raise EOFError from error
        if failure:
            raise RuntimeError(failure)
        return result

    def close(self) -> None:
        """End it."""
        self._line.close()
        kill(self.pid)
        os.waitpid(self.pid, 0)


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, str]:
    try:
        return function(*arguments), ""
    except Exception:  # noqa: BLE001 - the owner is told
        return None, traceback.format_exc()


def planned(bootstrap: str, topic: str, batch: int) -> TopicWriter:
    """The writer of a batch, planned."""
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "exactlyOnce": "true"}
    writer = TopicWriter(sink_options({**given, "writeId": topic, "batchId": str(batch)}, SCHEMA))
    planned_writer: TopicWriter = pickle.loads(pickle.dumps(writer))
    return planned_writer


def written(writer: TopicWriter, batch: int, partition: int) -> Any:
    """What a task does."""
    values = values_of(batch, partition)
    rows = pa.record_batch({"value": values, "partition": pa.array([partition] * len(values), pa.int32())})
    return writer.write(iter([rows]))


def once(name: str, function: Callable[..., Any], *arguments: object) -> Any:
    """Call a function in a process of its own."""
    worker = Worker(name)
    try:
        return worker.call(function, *arguments)
    finally:
        worker.close()


class Driver:
    """Writes batches."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._target = bootstrap, topic
        self._workers: list[Worker] = []

    def write(self, batch: int) -> None:
        """Write a batch. Raises EOFError if a process of the driver itself is killed."""
        writer = once("plan", planned, *self._target, batch)
        messages = [self._task(writer, batch, partition) for partition in range(PARTITIONS)]
        once("commit", writer.commit, messages)

    def _task(self, writer: TopicWriter, batch: int, partition: int) -> Any:
        while True:
            if len(self._workers) < WORKERS:
                self._workers.append(Worker(WORKER))
            worker = self._workers.pop(0)
            try:
                message = worker.call(written, writer, batch, partition)
            except EOFError:
                worker.close()
                continue
            self._workers.append(worker)
            return message

    def close(self) -> None:
        """End its workers."""
        while self._workers:
            self._workers.pop().close()


def drive(bootstrap: str, topic: str, notes: Path, until: int) -> None:
    """What a driver does."""
    driver = Driver(bootstrap, topic)
    try:
        while (batch := batches_done(notes)) < until:
            driver.write(batch)
            with notes.open("a") as file:
                file.write(f"{batch}\n")
    except EOFError:
        pass  # a process of the driver was killed: Spark would end the query
    except RuntimeError as error:
        if not any(name in str(error) for name in REPLACED):
            with notes.with_suffix(".log").open("a") as file:
                file.write(f"{error}\n")
    finally:
        driver.close()


def main(bootstrap: str, topic: str, notes: str) -> None:
    """Serve lines of the input."""
    preload()
    fork_for_each_line(lambda line: drive(bootstrap, topic, Path(notes), int(line)))


if __name__ == "__main__":
    main(*sys.argv[1:])
