"""A process that opens connections and leaves them alone, until it is told to ask on each of them.

It has its own descriptors: one process may not have enough for the connections to two servers.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys

from benchmarks.broker.load import Address, connected
from benchmarks.broker.memory import answers_versions
from benchmarks.broker.processes import allow_connections
from ottla.model.closing import Closing


class IdleClients(Closing):
    """Such a process. Each connection has had an answer, so that it is known to be accepted."""

    def __init__(self, address: Address, count: int) -> None:
        host, port = address
        program = f"from {__name__} import main; main({host!r}, {port}, {count})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        opened = self._said()
        if opened != count:
            raise RuntimeError(f"{opened} of {count} connections were accepted")

    def answered(self) -> int:
        """How many connections are answered."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return self._said()

    def _said(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """Hang up."""
        self._process.communicate()


def main(host: str, port: int, count: int) -> None:
    """Print how many connections were answered, at first and for each line of input."""
    allow_connections(count)
    with contextlib.ExitStack() as life:
        connections = []
        for _ in range(count):
            connections.append(life.enter_context(connected((host, port))))
            if not answers_versions(connections[-1]):
                break
        print(len(connections), flush=True)
        for _ in sys.stdin:
            print(sum(map(answers_versions, connections)), flush=True)
