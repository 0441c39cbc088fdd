"""Processes with members of a group, of ours or of others: told to join and to leave, stopped, killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.rebalance.timeline import Delivery
from tools.peer_cache import program
from tools.peers import KAFKA_0_9, kafka_libs

READY_S = 120.0
LOOK_S = 0.02
_SOURCE = Path(__file__).with_name("ScalaMembers.java")

Command = Callable[[str, Mapping[str, str]], list[str]]
"""What starts a host of members of a topic with these properties."""


def ours(kind: str) -> Command:
    """Hosts in Python: classic, grouped, share, or confluent."""

    def command(topic: str, properties: Mapping[str, str]) -> list[str]:
        start = [sys.executable, "-m", "benchmarks.rebalance.member_host", kind, topic]
        return start + _words(properties)

    return command


@contextlib.contextmanager
def scala() -> Iterator[Command]:
    """Hosts in Java with Kafka 0.9.0.1's consumers. Raises Unavailable."""
    libs = kafka_libs(KAFKA_0_9)
    with tempfile.TemporaryDirectory(prefix="ottla-members-") as classes:
        compiler = [program("javac"), "-cp", f"{libs}{os.sep}*", "-d", classes, str(_SOURCE)]
        subprocess.run(compiler, check=True, capture_output=True)

        def command(topic: str, properties: Mapping[str, str]) -> list[str]:
            java = [program("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
            java += ["-cp", f"{classes}{os.pathsep}{libs}{os.sep}*", "ScalaMembers", topic]
            return java + _words(properties)

        yield command


def _words(properties: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in properties.items()]


class Notes:
    """What the members of a group have said; every host's reading thread adds to it."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.joined: dict[str, float] = {}
        self.left: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self.counts: dict[str, int] = {}

    def take(self, line: str) -> None:
        """One line of a host."""
        what, _, rest = line.strip().partition(" ")
        name, *words = rest.split(" ")
        if what == "record":
            partition, offset, at_ns = map(int, words)
            self.deliveries.append(Delivery(at_ns / 1e9, name, partition, offset))
        elif what in {"joined", "left"}:
            known = self.joined if what == "joined" else self.left
            known[name] = int(words[0]) / 1e9
        elif what == "failed":
            self.failed[name] = " ".join(words)
        elif what == "count":
            self.counts[name] = int(words[0])


class Host:
    """One process."""

    def __init__(self, command: Sequence[str], notes: Notes) -> None:
        self._notes = notes
        self._is_ready = threading.Event()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (`close` closes it)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "ready\n":
                self._is_ready.set()
            else:
                self._notes.take(line)

    def wait_ready(self) -> None:
        """Until it takes commands."""
        if not self._is_ready.wait(READY_S):
            raise RuntimeError(f"a host of members does not start: {self.said()}")

    def tell(self, line: str) -> None:
        """Give a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def send(self, what: signal.Signals) -> None:
        """To the process."""
        self._process.send_signal(what)

    def said(self) -> str:
        """What it complained of."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def close(self) -> None:
        """End it, however it is."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._log.close()


def wait_until(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Wait up to `deadline_s` seconds. Return whether the condition holds."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(LOOK_S)
    return True
