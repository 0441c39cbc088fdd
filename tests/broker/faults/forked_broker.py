"""`ottla broker start`, forked from a process that has imported everything: cheap to kill."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path

from tests import jumping_clock
from tests.broker.faults.broker_process import LOUD, STOP_S
from tests.broker.faults.raw_client import RawClient
from tests.forked_processes import ForkedProcesses, fork_for_each_line
from tests.waiting import wait_for

LISTENING = "listening on "


class ForkedBroker:
    """A broker that keeps its port and its data from one life to the next. `close` ends it for good.

    `clock` is the file of a JumpingClock, which it has for its wall clock. A port must be given where clients
    are told another one (advertised.listeners).
    """

    def __init__(
        self, data_dir: Path, settings: Mapping[str, str], clock: Path | None = None, port: int = 0
    ) -> None:
        self._clock = str(clock or "")
        self.data_dir = data_dir
        self.log_path = data_dir.with_name(data_dir.name + ".log")
        self.log_path.touch()
        self._arguments = ["broker", "start", "--data-dir", str(data_dir)]
        for name, value in settings.items():
            self._arguments += ["--set", f"{name}={value}"]
        self._processes = ForkedProcesses(__name__)
        self.port = port
        self.start()

    def start(self) -> None:
        """Start it, and return when it serves."""
        size = self.log_path.stat().st_size
        arguments = [*self._arguments, "--port", str(self.port)]
        self.pid = self._processes.start(json.dumps([str(self.log_path), self._clock, arguments]))

        def port() -> int:
            assert self._processes.lives(self.pid), self.log_path.read_text()
            lines = self.log_path.read_bytes()[size:].decode().splitlines(keepends=True)
            ports = [line.rsplit(":", 1)[1] for line in lines if line.startswith(LISTENING)]
            return int(ports[0]) if ports and ports[0].endswith("\n") else 0

        told = wait_for(port, "the broker listens", pause=0.005)
        self.port = self.port or told

    @property
    def surprises(self) -> list[str]:
        """Lines that tell of an error nobody has foreseen, of all its lives."""
        lines = self.log_path.read_text().splitlines()
        return [line for line in lines if any(word in line for word in LOUD)]

    def client(self) -> RawClient:
        return RawClient(self.port)

    def signal_after(self, seconds: float, number: signal.Signals = signal.SIGKILL) -> threading.Timer:
        """End it later, from another thread."""
        timer = threading.Timer(seconds, os.kill, (self.pid, number))
        timer.start()
        return timer

    def wait(self) -> None:
        """Until it has ended."""
        wait_for(lambda: not self._processes.lives(self.pid), "the broker has ended", STOP_S, pause=0.001)

    def kill(self) -> None:
        """As the kernel does it: no handler runs, nothing is flushed."""
        self._processes.kill(self.pid)

    def close(self) -> None:
        """Kill it, and the process that forks it."""
        self._processes.close()


def serve(line: str) -> None:
    """A life of the broker."""
    from ottla.cli.main import main

    path, clock, arguments = json.loads(line)
    if clock:
        jumping_clock.install(Path(clock))
    log = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os._exit(main(arguments))


if __name__ == "__main__":
    import encodings.idna  # noqa: F401

    import uvloop  # noqa: F401

    import ottla.broker.embedded
    import ottla.broker.service
    import ottla.cli.broker
    import ottla.records.compression  # noqa: F401

    fork_for_each_line(serve)
