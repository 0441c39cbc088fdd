"""Processes that join, leave, are killed and stopped: none missed, one owner a partition in a generation."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from ottla import EmbeddedBroker
from ottla.fetching import TopicAndPartition
from tests.fetching.traffic import Writer, until

PARTITIONS = 8
EVENTS = int(os.environ.get("OTTLA_EVENTS", "6"))


class Members:
    """Member processes, and what they have noted."""

    def __init__(self, bootstrap: str, strategy: str, directory: Path) -> None:
        command = [sys.executable, "-m", "tests.grouped.member_process", bootstrap, strategy, str(directory)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        self._directory = directory
        self._count = 0
        self.running: list[int] = []
        self.stopped: list[int] = []

    def add(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        self._process.stdin.write(f"{self._count}\n")
        self._process.stdin.flush()
        self.running.append(int(self._process.stdout.readline()))

    def send(self, pid: int, number: signal.Signals) -> None:
        os.kill(pid, number)
        self.running.remove(pid)
        if number is signal.SIGSTOP:
            self.stopped.append(pid)

    def go_on(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)
        self.stopped.remove(pid)
        self.running.append(pid)

    def notes(self) -> list[tuple[str, int, int, int, int]]:
        """Who read what: the member, generation, partition, first and last offset."""
        found = []
        for path in self._directory.iterdir():
            *lines, _ = path.read_text().split("\n")
            for line in lines:
                if line != "lost":
                    generation, partition, first, last = map(int, line.split())
                    found.append((path.name, generation, partition, first, last))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in [*self.running, *self.stopped]:
            os.kill(pid, signal.SIGKILL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def event(members: Members, chance: random.Random) -> None:
    """Something happens to somebody; two at least go on."""
    kinds = ["add"] if len(members.running) < 5 else []
    kinds += ["leave", "kill", "stop"] if len(members.running) > 2 else []
    kinds += ["go on"] if members.stopped else []
    kind = chance.choice(kinds)
    if kind == "add":
        members.add()
    elif kind == "go on":
        members.go_on(members.stopped[0])
    else:
        numbers = {"leave": signal.SIGTERM, "kill": signal.SIGKILL, "stop": signal.SIGSTOP}
        members.send(chance.choice(members.running), numbers[kind])


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_none_is_missed_and_each_partition_has_one_owner(strategy: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_SEED", random.SystemRandom().randrange(1 << 30)))
    try:
        churn(strategy, tmp_path, random.Random(seed))
    except Exception as error:
        error.add_note(f"replay with OTTLA_SEED={seed}")
        raise


def churn(strategy: str, directory: Path, chance: random.Random) -> None:
    with (
        EmbeddedBroker(properties={"group.min.session.timeout.ms": "100"}) as broker,
        Writer(broker.bootstrap) as writer,
        Members(broker.bootstrap, strategy, directory) as members,
    ):
        broker.create_topic("t", PARTITIONS)
        for _ in range(3):
            members.add()
        for number in range(EVENTS):
            for partition in range(PARTITIONS):
                writer.write(TopicAndPartition("t", partition), 50)
            if number:
                event(members, chance)
            end = 50 * (number + 1)

            def is_read(end: int = end) -> bool:
                read = {
                    (n, offset)
                    for _, _, n, first, last in members.notes()
                    for offset in range(first, last + 1)
                }
                return len(read) == PARTITIONS * end

            until(is_read)
        owners: dict[tuple[int, int], set[str]] = {}
        for name, generation, partition, _, _ in members.notes():
            if generation >= 0:
                owners.setdefault((generation, partition), set()).add(name)
        assert [place for place, names in owners.items() if len(names) > 1] == []
