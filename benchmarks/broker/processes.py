"""Servers as processes: starting and ending them, and what the kernel counts for them (Linux)."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.broker.load import Address
from benchmarks.cpu_time import peak_resident_mb, process_cpu_seconds, resident_mb
from ottla.zookeeper import process_guard

LOCALHOST = "127.0.0.1"
READY_S, STOP_S = 60, 20
_POLL_S = 0.002
_SAID_CHARS = 2000


@dataclass(frozen=True)
class Server:
    """A broker that listens."""

    name: str
    version: str
    address: Address
    pid: int
    started_at: float = 0.0

    @property
    def bootstrap(self) -> str:
        """The address as clients want it."""
        return f"{self.address[0]}:{self.address[1]}"

    def cpu_seconds(self) -> float:
        """User and system time of all its threads so far."""
        return process_cpu_seconds(self.pid)

    def resident_mb(self) -> float:
        """Memory that it has now."""
        return resident_mb(self.pid)

    def peak_resident_mb(self) -> float:
        """The most that it ever had."""
        return peak_resident_mb(self.pid)


@dataclass(frozen=True)
class Missing:
    """A broker that cannot be had here, and why."""

    name: str
    version: str
    reason: str


Contender = Server | Missing


def free_port() -> int:
    """A port of localhost that nobody listens on."""
    with socket.create_server((LOCALHOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def started(
    name: str, version: str, command: Sequence[str], port: int, stop_s: int = STOP_S
) -> Iterator[Server]:
    """The server that this command runs, from when its port is open until the end of the block.

    A guard ends it even if this process is killed, and kills it if it takes `stop_s` to stop. `started_at` is
    when the guard had started it.
    """
    with tempfile.TemporaryFile() as log:
        guard = subprocess.Popen(
            [sys.executable, "-I", process_guard.__file__, str(stop_s), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        with guard:  # closes its input, which ends the server, and waits
            assert guard.stdout is not None
            server = Server(
                name, version, (LOCALHOST, port), int(guard.stdout.readline()), time.perf_counter()
            )
            try:
                if not _listens(guard, port):
                    raise RuntimeError(f"{name} {version} did not listen on port {port}")
                yield server
            except Exception as error:
                log.seek(0)
                said = log.read().decode(errors="replace").strip()[-_SAID_CHARS:]
                error.add_note(f"{name} {version} said: {said or 'nothing'}")
                raise


def allow_connections(count: int) -> None:
    """Let this process, and the servers it starts, have `count` connections open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 1000
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def _listens(guard: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + READY_S
    while guard.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((LOCALHOST, port), 1).close()
        except ConnectionRefusedError:
            time.sleep(_POLL_S)
        else:
            return True
    return False
