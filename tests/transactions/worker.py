"""Reads a topic and writes another in transactions, until it is ended, and notes in a file what it does.

Its program forks a worker for each line of its input:

    BOOTSTRAP TRANSACTIONAL_ID WRITER FILE SEED SESSION_MS KIND REQUEST_TIMEOUT_MS

SESSION_MS is how long the group waits for a member that was killed. A member of the kind static is replaced
by its successor at once. Records are written as rows or as tables, by chance.

Each line of the file is written before the step that it tells of, but `outcome`, which is what was told.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from ottla import ConfigError, GroupConsumer, OttlaError, Producer, TransactionAborted
from ottla.fetching.chunk_queue import FetchedDataChunk
from tests.forked_processes import fork_for_each_line

INPUT, OUTPUT, GROUP = "in", "out", "workers"
OUTPUT_PARTITIONS = 3
ABORTED_EACH = 6
"""One of so many transactions is aborted by intention."""
TABLES = 0.5


class Worker:
    def __init__(
        self,
        bootstrap: str,
        transactional_id: str,
        writer: str,
        file: Path,
        seed: str,
        *,
        session_ms: int,
        is_static: bool,
        request_timeout_ms: int,
    ) -> None:
        self._name = f"{transactional_id}.{writer}"
        self._file = file
        self._chance = Random(seed)
        self._count = 0
        settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "retry_backoff_ms": 20,
            "request_timeout_ms": request_timeout_ms,
        }
        self._producer = Producer(
            transactional_id=transactional_id, linger_ms=0, transaction_timeout_ms=30_000, **settings
        )
        began_at = time.monotonic_ns()
        self._producer.init_transactions()
        self._note(takeover=[began_at, time.monotonic_ns()])
        if is_static:
            settings |= {"group_instance_id": transactional_id}
        self._consumer = GroupConsumer(
            INPUT,
            group_id=GROUP,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_message_max_bytes=2_000,
            heartbeat_interval_ms=100,
            session_timeout_ms=session_ms,
            **settings,
        )

    def _note(self, **what: Any) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(what) + "\n")

    def run(self) -> None:
        for chunk in self._consumer.chunks():
            self._count += 1
            self._transform(chunk)

    def _transform(self, chunk: FetchedDataChunk) -> None:
        writes: dict[int, list[str]] = {}
        for number in range(chunk.batch.num_rows):
            value = f"{self._name}.{self._count}.{number}"
            writes.setdefault(self._chance.randrange(OUTPUT_PARTITIONS), []).append(value)
        reads = [chunk.topic_partition.partition, chunk.fetch_offset, chunk.next_offset]
        self._note(transaction=self._count, at=time.monotonic_ns(), writes=writes, reads=reads)
        try:
            outcome = self._in_transaction(writes, chunk)
        except TransactionAborted:
            outcome = "aborted"
        self._note(transaction=self._count, outcome=outcome)
        if outcome == "aborted":
            with suppress(ConfigError):  # another member may have the partition by now
                self._consumer.seek(chunk.topic_partition, chunk.fetch_offset)

    def _in_transaction(self, writes: dict[int, list[str]], chunk: FetchedDataChunk) -> str:
        producer = self._producer
        with producer.transaction():
            for partition, values in writes.items():
                if self._chance.random() < TABLES:
                    producer.send_batch(OUTPUT, pa.table({"value": values}), partition=partition)
                    continue
                for value in values:
                    producer.send(OUTPUT, value, partition=partition)
            if self._chance.randrange(ABORTED_EACH) == 0:
                raise TransactionAborted("by intention")
            producer.send_offsets(chunk, self._consumer)
        return "committed"


def work(line: str) -> None:
    """Run a worker; an error that ends it is in its file's log: what is under way has an unknown outcome."""
    bootstrap, transactional_id, writer, path, seed, session_ms, kind, timeout_ms = line.split(" ")
    file, is_static = Path(path), kind == "static"
    try:
        Worker(
            bootstrap,
            transactional_id,
            writer,
            file,
            seed,
            session_ms=int(session_ms),
            is_static=is_static,
            request_timeout_ms=int(timeout_ms),
        ).run()
    except OttlaError as error:
        file.with_suffix(".log").write_text(f"{type(error).__name__}: {error}\n")


if __name__ == "__main__":
    fork_for_each_line(work)
