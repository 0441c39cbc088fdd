"""Programs that are interrupted (Ctrl-C) while they wait."""

from __future__ import annotations

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
