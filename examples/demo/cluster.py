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
    """`ottla up` on free ports, and other processes; all of them end with the block.

    `zookeeper` is empty if the cluster has none.
    """

    def __init__(self, path: Path, *, has_zookeeper: bool) -> None:
        self.directory = path
        self._has_zookeeper = has_zookeeper
        self.zookeeper = self.bootstrap = self.console = ""
        self._readers: list[Process] = []

    def __enter__(self) -> Self:
        up = [
            "up",
            "--port",
            "0",
            "--zookeeper-port",
            "0",
            "--console",
            "0",
            "--data-dir",
            str(self.directory / "cluster"),
        ]
        up += [] if self._has_zookeeper else ["--without-zookeeper"]
        self._server = _start("ottla", up, self.directory / "cluster.log", stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        lines = [self._server.stdout.readline().decode().split() for _ in range(2 + self._has_zookeeper)]
        if not all(lines):
            end(self._server)
            raise RuntimeError(f"no cluster: {(self.directory / 'cluster.log').read_text()}")
        addresses = dict(lines)
        self.zookeeper, self.bootstrap = addresses.get("zookeeper", ""), addresses["broker"]
        self.console = addresses["console"]
        return self

    @property
    def flags(self) -> list[str]:
        """The flags of `ottla` commands for this cluster."""
        keeper = ["--zookeeper", self.zookeeper] if self._has_zookeeper else []
        return ["--bootstrap-server", self.bootstrap, *keeper]

    def start(self, name: str, module: str, *arguments: str) -> Process:
        """Run a Python module as a process; its output goes to a log of this name."""
        self._readers.append(_start(module, arguments, self.directory / f"{name}.log"))
        return self._readers[-1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Readers before what they read from.
        end(*self._readers)
        end(self._server)
        self._server.communicate()


def end(*processes: Process) -> None:
    """Terminate the processes and wait; one that does not end is killed."""
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
    """The standard output of an ottla command; its errors go to the log. Raises if it fails."""
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
