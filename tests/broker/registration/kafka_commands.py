"""Kafka 0.9.0.1's command-line tools, by their class names; without them tests are skipped by name."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from tools.java_process import java_command
from tools.peers import KAFKA_0_9, Unavailable, kafka_libs

RUN_S = 120


def kafka_0_9_libs() -> Path:
    """The jars of Kafka 0.9.0.1."""
    try:
        return kafka_libs(KAFKA_0_9)
    except Unavailable as missing:
        pytest.skip(f"Kafka {KAFKA_0_9} is not here: {missing}")


def run(libs: Path, main_class: str, *arguments: str, given: str | None = None) -> str:
    """What a tool prints, on both of its outputs; it must end well."""
    done = subprocess.run(
        [*java_command(libs, heap_mb=128), main_class, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
        cwd=tempfile.gettempdir(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
