"""Results in a file, a line of JSON each: what was measured, how, when and on what.

A result replaces the one of the same name and unit, so that the file has the last run of each; others stay.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import Result

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "docs" / "benchmarks.jsonl"


def save(result: Result, command: str, file: Path = RUNS) -> None:
    """Put a result of the command into the file, in the place of the last one of its name and unit."""
    lines = file.read_text().splitlines() if file.exists() else []
    kept = {_key(json.loads(line)): line for line in lines}
    line = {**plain(result), "run": run_of(command)}
    kept[_key(line)] = json.dumps(line)
    hidden = file.with_suffix(".new")
    hidden.write_text("".join(f"{line}\n" for line in kept.values()))
    hidden.replace(file)


def _key(line: dict[str, Any]) -> tuple[str, str]:
    return line["name"], line["unit"]


def plain(result: Result) -> dict[str, Any]:
    """The result without single rounds and empty notes."""
    line = asdict(result)
    del line["samples"]
    for peer in line["peers"]:
        del peer["samples"]
        if not peer["note"]:
            del peer["note"]
    return line


def run_of(command: str) -> dict[str, Any]:
    """The circumstances of a run: the command, when, of which commit, how busy and what the machine is."""
    return {
        "command": command,
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": _commit(),
        "load": round(os.getloadavg()[0], 1),
        "machine": f"{os.cpu_count()} cores, {_processor()}, Python {platform.python_version()}",
    }


def _processor() -> str:
    """The name of the processor, where Linux tells it; else its architecture."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()


def _commit() -> str:
    """The short id of what is checked out; "" outside of a clone."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
