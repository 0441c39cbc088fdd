"""`ottla broker start` as a process of its own, to be killed, starved and looked at from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.broker.faults.raw_client import RawClient

STOP_S = 30
LOUD = ("Traceback", "CRITICAL", "never retrieved", "Exception in callback", "Unhandled exception")
"""What Python, asyncio and our own log write when something was not foreseen."""


class BrokerProcess:
    """Started with the object; `kill`, `stop` or the end of the `with` ends it."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, str] | None = None,
        *,
        arguments: Sequence[str] = (),
        wrapper: Sequence[str] = (),
        log_path: Path | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.log_path = log_path or data_dir.with_name(data_dir.name + ".log")
        command = [*wrapper, sys.executable, "-m", "ottla", "broker", "start", "--port", "0"]
        command += ["--data-dir", str(data_dir), *arguments]
        for name, value in (settings or {}).items():
            command += ["--set", f"{name}={value}"]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            self._process.stdout.close()
            self.code = self._process.wait(STOP_S)
            raise BrokerFailed(self.code, self.log)
        self.port = int(line.rsplit(":", 1)[1])

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has written to standard error, over all its lives in this directory."""
        return self.log_path.read_text()

    @property
    def surprises(self) -> list[str]:
        """Lines of the log that tell of an error nobody has foreseen."""
        return [line for line in self.log.splitlines() if any(word in line for word in LOUD)]

    @property
    def resident_mb(self) -> float:
        return _status_kb(self.pid, "VmRSS") / 1024

    @property
    def peak_mb(self) -> float:
        """The most memory that it ever had resident."""
        return _status_kb(self.pid, "VmHWM") / 1024

    def client(self) -> RawClient:
        return RawClient(self.port)

    def kill(self) -> None:
        """As the kernel does it: no handler runs, nothing is flushed."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As an operator does it; the exit code."""
        self._end(signal.SIGTERM)
        return self._process.returncode

    def signal_after(self, seconds: float, number: signal.Signals = signal.SIGKILL) -> threading.Timer:
        """End it later, from another thread."""
        timer = threading.Timer(seconds, os.kill, (self.pid, number))
        timer.start()
        return timer

    def wait(self) -> int:
        """Until it has ended; the exit code."""
        return self._process.wait(STOP_S)

    def _end(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        elif self._process.stdout is not None:
            self._process.stdout.close()


class BrokerFailed(Exception):
    """It ended instead of listening."""

    def __init__(self, code: int, log: str) -> None:
        super().__init__(f"exit code {code}: {log}")
        self.code = code
        self.log = log


def _status_kb(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise LookupError(name)
