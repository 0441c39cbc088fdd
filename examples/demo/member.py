"""A member of a group, as a process of its own: so it can be killed.

    python -m examples.demo.member classic BOOTSTRAP ZOOKEEPER GROUP FILE

Writes a line `partition first last` into the file for every run of offsets that it was given, until SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pyarrow.compute as pc

from examples.demo.events import TOPIC
from ottla import GroupConsumer
from ottla.consumer.classic import ConsumerConnector
from ottla.fetching.chunk_queue import FetchedDataChunk

SESSION_MS = 6_000


def classic(bootstrap: str, zookeeper: str, group: str, stop: threading.Event) -> Iterator[FetchedDataChunk]:
    """Balanced through ZooKeeper, offsets there too."""
    connector = ConsumerConnector(
        group_id=group,
        zookeeper_connect=zookeeper,
        bootstrap_servers=bootstrap,
        auto_offset_reset="smallest",
        auto_commit_interval_ms=1_000,
        zookeeper_session_timeout_ms=SESSION_MS,
    )
    with connector:
        (stream,) = connector.create_message_streams({TOPIC: 1})[TOPIC]
        threading.Thread(target=_shut_down, args=(connector, stop), daemon=True).start()
        yield from stream.chunks()


def _shut_down(connector: ConsumerConnector, stop: threading.Event) -> None:
    stop.wait()
    connector.shutdown()


def modern(bootstrap: str, _: str, group: str, stop: threading.Event) -> Iterator[FetchedDataChunk]:
    """Balanced by the broker, offsets in __consumer_offsets."""
    consumer = GroupConsumer(
        TOPIC,
        group_id=group,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1_000,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=1_000,
        partition_assignment_strategy="cooperative-sticky",
    )
    with consumer:
        while not stop.is_set():
            chunk = consumer.poll(0.2)
            if chunk is not None:
                yield chunk


KINDS: dict[str, Callable[[str, str, str, threading.Event], Iterator[FetchedDataChunk]]] = {
    "classic": classic,
    "modern": modern,
}


def write_down(chunks: Iterator[FetchedDataChunk], file: TextIO) -> None:
    """Write one line for each chunk: a topic without compaction has no gaps."""
    for chunk in chunks:
        offsets = pc.min_max(chunk.batch.column("offset"))
        file.write(f"{chunk.topic_partition.partition} {offsets['min']} {offsets['max']}\n")
        file.flush()


def main(kind: str, bootstrap: str, zookeeper: str, group: str, path: str) -> None:
    """Read until SIGTERM; the file appears with the first chunk."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole demo, which then ends this
    with Path(path).open("w") as file:
        write_down(KINDS[kind](bootstrap, zookeeper, group, stop), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
