"""The processes of the demo: ZooKeeper and the broker by `ottla up`, members of groups, the pipeline."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

STOP_S = 60

Process = subprocess.Popen[bytes]


class Cluster:
    """`ottla up` on free ports, and whatever else is started; all of it ends with the block."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.zookeeper = self.bootstrap = ""
        self._readers: list[Process] = []

    def __enter__(self) -> Self:
        up = ["up", "--port", "0", "--zookeeper-port", "0", "--data-dir", str(self.place / "cluster")]
        self._server = _start("ottla", up, self.place / "cluster.log", stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        lines = [self._server.stdout.readline().decode().split() for _ in range(2)]
        if not all(lines):
            end(self._server)
            raise RuntimeError(f"no cluster: {(self.place / 'cluster.log').read_text()}")
        told = dict(lines)
        self.zookeeper, self.bootstrap = told["zookeeper"], told["broker"]
        return self

    def start(self, name: str, module: str, *arguments: str) -> Process:
        """A Python module as a process; what it prints is in a log of this name."""
        self._readers.append(_start(module, arguments, self.place / f"{name}.log"))
        return self._readers[-1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Readers before what they read from.
        end(*self._readers)
        end(self._server)
        self._server.communicate()


def end(*processes: Process) -> None:
    """Ask them to end, and wait; whoever does not is killed, and has not ended with 0."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_ottla(log: Path, *arguments: str) -> str:
    """What a command of ottla prints; what it says besides is in the log. Raises if it fails."""
    command = [sys.executable, "-m", "ottla", *arguments]
    with log.open("wb") as file:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=file, text=True, check=True).stdout


def _start(
    module: str, arguments: list[str] | tuple[str, ...], log: Path, stdout: int | None = None
) -> Process:
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdout=stdout or file, stderr=file
        )
