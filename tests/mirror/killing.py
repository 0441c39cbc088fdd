"""Mirrors that tests kill, and a source that grows meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ottla import Admin, EmbeddedBroker, Producer
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


def positions(broker: EmbeddedBroker, group: str) -> dict[int, int]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        return {place.partition: one.offset for place, one in admin.group_offsets(group).items()}
