"""Processes that a test kills and stops, all forked from one that has imported everything.

A module has `fork_for_each_line(work)` as its main program; `ForkedProcesses(module, …)` is its other end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.waiting import wait_for


def fork_for_each_line(work: Callable[[str], None]) -> None:
    """For each line of the input fork a process that does the work, and print its pid."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            work(line.strip())
            os._exit(0)
        os.write(1, b"%d\n" % pid)


class ForkedProcesses:
    """Running and stopped processes, by pid. All are killed at the end.

    Each is known by a descriptor, too: the pid of one that has ended may soon be that of a stranger.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        self.running: list[int] = []
        self.stopped: list[int] = []
        self._descriptors: dict[int, int] = {}

    def start(self, line: str) -> int:
        """Fork one, which gets the line; return its pid."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{line}\n")
        self._parent.stdin.flush()
        return self.adopt(int(self._parent.stdout.readline()))

    def adopt(self, pid: int) -> int:
        """Take a process that has just been started for one of these; return its pid."""
        self._forget(pid)
        with suppress(ProcessLookupError):
            self._descriptors[pid] = os.pidfd_open(pid)
        self.running.append(pid)
        return pid

    def send(self, pid: int, number: signal.Signals) -> None:
        """Send a signal that ends or stops it. Raises ProcessLookupError if it has ended by itself."""
        self._send(pid, number)
        self.running.remove(pid)
        if number is signal.SIGSTOP:
            self.stopped.append(pid)
            stat = Path(f"/proc/{pid}/stat")
            wait_for(lambda: stat.read_text().rpartition(") ")[2].startswith("T"), "it has stopped")

    def lives(self, pid: int) -> bool:
        """Whether it has not ended, by itself or by a signal."""
        with suppress(ProcessLookupError):
            self._send(pid, 0)
            return True
        self._forget(pid)
        return False

    def kill(self, pid: int) -> None:
        """Kill it if it lives, and wait for its end."""
        if self.lives(pid):
            with suppress(ProcessLookupError):
                self.send(pid, signal.SIGKILL)
            wait_for(lambda: not self.lives(pid), "it has ended", pause=0.001)

    def go_on(self, pid: int) -> None:
        """Let a stopped one go on."""
        self._send(pid, signal.SIGCONT)
        self.stopped.remove(pid)
        self.running.append(pid)

    def close(self) -> None:
        """Kill all; one that failed before has said why."""
        for pid in [*self.running, *self.stopped]:
            with suppress(ProcessLookupError):
                self._send(pid, signal.SIGKILL)
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.close()
        self._parent.wait(60)
        self._parent.stdout.close()

    def _send(self, pid: int, number: int) -> None:
        if pid not in self._descriptors:
            raise ProcessLookupError(pid)
        signal.pidfd_send_signal(self._descriptors[pid], number)

    def _forget(self, pid: int) -> None:
        if pid in self.running:
            self.running.remove(pid)
        if pid in self._descriptors:
            os.close(self._descriptors.pop(pid))
