"""One client's script as a process: its lines become verdicts, and its wish for a restart is granted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress

from tests.compatibility.targets import Target
from tests.compatibility.verdicts import FAILED, Report, Verdict

SCRIPT_SECONDS = 150
OUTPUT_SHOWN = 1500


def converse(client: str, command: Sequence[str], target: Target, seconds: float = SCRIPT_SECONDS) -> Report:
    """Run the script to its end; one that ends early or hangs has a failed step that says so."""
    report = Report(client)
    with tempfile.TemporaryFile("w+", errors="replace") as errors, tempfile.TemporaryDirectory() as work:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=work,
            start_new_session=True,
        )
        late = threading.Timer(seconds, _end, (process,))
        late.start()
        try:
            is_done = _listen(process, report, target)
        finally:
            late.cancel()
            late.join()
            _end(process)
            with suppress(OSError):
                process.communicate()
        if not is_done:
            errors.seek(0)
            detail = f"ended with code {process.returncode} before its last step (limit {seconds} s): "
            report.verdicts.append(
                Verdict("run to the end", FAILED, detail + errors.read()[-OUTPUT_SHOWN:].strip())
            )
    return report


def _end(process: subprocess.Popen[str]) -> None:
    """End a script with all that it has started: tools, members of groups."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _listen(process: subprocess.Popen[str], report: Report, target: Target) -> bool:
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        if not line.startswith("{"):
            continue  # something that the client's library printed
        said = json.loads(line)
        if "version" in said:
            report.version = said["version"]
        elif "ask" in said:
            process.stdin.write("restarted\n" if target.restart() else "cannot\n")
            process.stdin.flush()
        elif "step" in said:
            report.verdicts.append(Verdict(said["step"], said["outcome"], said.get("detail", "")))
        elif "done" in said:
            return True
    return False
