"""Programs that get a signal while they wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.waiting import PATIENCE_S


def interrupted(program: str, *arguments: str) -> str:
    """Run Python code that prints "waiting" and waits, send it SIGINT, return what it wrote to stderr."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n", process.communicate()[1]
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode not in {0, -signal.SIGKILL}
    return complaint


def signal_another_thread(pid: int, number: signal.Signals) -> None:
    """Send a signal that a thread takes which is not the main one: no wait of the main thread ends by it.

    That is what a signal comes to if it arrives when Python has just looked for signals and is about to wait.
    The thread must not be about to end. Linux gives a signal to the thread whose number is named.
    """
    others = [int(name) for name in os.listdir(f"/proc/{pid}/task") if int(name) != pid]
    os.kill(min(others), number)
