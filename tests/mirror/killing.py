"""Mirrors that tests kill, and a source that grows meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ottla import Admin, EmbeddedBroker, Producer, TopicAndPartition, replay
from tests.committed_reader import Values
from tests.proof.checker import History, Write
from tests.waiting import PATIENCE_S

PARTITIONS = 3


class Worker:
    """The process that forks mirrors."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.mirror.mirror_worker", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = 0

    def start(self, whole_bytes: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{whole_bytes}\n")
        self._process.stdin.flush()
        self.pid = int(self._line())

    def end(self, how: signal.Signals) -> int:
        """The mirror's exit code."""
        os.kill(self.pid, how)
        self.pid = 0
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def close(self) -> None:
        if self.pid:
            self.end(signal.SIGKILL)
        self._process.communicate(timeout=PATIENCE_S)


@contextmanager
def steady_writes(bootstrap: str, topic: str) -> Iterator[list[int]]:
    """Numbers 0, 1, 2, … into every partition until the end; how many, in the list."""
    counts = [0]
    ended = threading.Event()

    def work() -> None:
        with Producer(bootstrap_servers=bootstrap) as producer:
            while not ended.wait(0.02):
                for number in range(counts[0], counts[0] + 50):
                    for partition in range(PARTITIONS):
                        producer.send(topic, b"%d" % number, partition=partition)
                counts[0] += 50

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield counts
    finally:
        ended.set()
        thread.join()


def at(broker: EmbeddedBroker) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap}


def committed(broker: EmbeddedBroker, topic: str) -> dict[int, list[tuple[int, bytes | None]]]:
    """Offsets and values that readers of committed records see, by partition."""
    found: dict[int, list[tuple[int, bytes | None]]] = {}
    for message in replay(topic, **at(broker), isolation_level="read_committed").messages():
        found.setdefault(message.partition, []).append((message.offset, message.raw_value))
    return found


def seen(broker: EmbeddedBroker, topic: str) -> dict[int, list[bytes | None]]:
    return {each: [value for _, value in rows] for each, rows in committed(broker, topic).items()}


def positions(broker: EmbeddedBroker, group: str) -> dict[int, int]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        return {place.partition: one.offset for place, one in admin.group_offsets(group).items()}


def copied(
    topic: str, count: int, final: Mapping[int, Sequence[object]], *readers: Values, repeats: bool = False
) -> History:
    """What became of a source that has the numbers up to `count` in each partition, in its copy."""
    places = [TopicAndPartition(topic, partition) for partition in range(PARTITIONS)]
    ends = {place: [_text(value) for value in final.get(place.partition, ())] for place in places}
    return History(
        writes=[Write(f"source {at}", at, f"{at}: {number}") for at in places for number in range(count)],
        final=_named(ends),
        readers=[_named(values) for values in readers],
        repeats=repeats,
    )


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _named(seen: Values) -> Values:
    return {at: [f"{at}: {value}" for value in values] for at, values in seen.items()}
