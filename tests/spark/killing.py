"""Drivers whose processes are killed: the driver's Java or Python, or a worker of its tasks."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.spark.process_tree import below, children, kill, kill_with_all_below, name_of

LOOK_S = 0.01


class Driver:
    """The process of a driver."""

    def __init__(self, command: list[str], chance: random.Random, said: Path) -> None:
        self._chance = chance
        with said.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def kill(self) -> None:
        """Its Java or its Python, and wait until it has ended."""
        java = [pid for pid, command in below(self.process.pid).items() if "SparkSubmit" in command]
        kill(self._chance.choice([self.process.pid, *java[:1]]))
        self.process.wait()

    def kill_worker(self) -> bool:
        """One of the processes that tasks run in, if there is one."""
        tree = below(self.process.pid)
        daemons = [pid for pid in tree if name_of(pid) == "pyspark.worker"]
        workers = [pid for daemon in daemons for pid in children(daemon) if pid in daemons]
        if not workers:
            return False
        kill(self._chance.choice(sorted(workers)))
        return True


@contextmanager
def running(command: list[str], chance: random.Random, said: Path) -> Iterator[Driver]:
    """A driver that is killed with all that it has started, at the latest at the end."""
    driver = Driver(command, chance, said)
    try:
        yield driver
    finally:
        if driver.process.poll() is None:
            kill_with_all_below(driver.process.pid)
            driver.process.wait()


def newest_batch(checkpoint: Path) -> int:
    """The number of the batch that is being done."""
    return max(
        (int(path.name) for path in checkpoint.glob("offsets/[0-9]*") if path.name.isdecimal()), default=-1
    )


def reaches(driver: Driver, checkpoint: Path, batch: int, deadline: float) -> bool:
    """Wait until the batch is being done; whether the driver lives by then.

    Raises AssertionError at the deadline, and says since when no batch has come: a hang has stood for long.
    """
    began_s = time.monotonic()
    while newest_batch(checkpoint) < batch:
        if driver.process.poll() is not None:
            return False
        now_s = time.monotonic()
        waited = f"{now_s - began_s:.0f} s after batch {newest_batch(checkpoint)}"
        assert now_s < deadline, f"the time of the test is over, {waited}, in {checkpoint}"
        time.sleep(LOOK_S)
    return True
