"""Kafka's own programs and small Java programs that use its classes. Where they cannot run, tests skip."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S
from tools.java_process import java_command
from tools.peer_cache import KAFKA_4, KAFKA_CLIENTS, Unavailable, java_classes, kafka_libs

RUN_S = 2 * PATIENCE_S


def kafka_jars(version: str) -> Path:
    """The directory with the jars of a Kafka version."""
    try:
        return kafka_libs(version)
    except Unavailable as missing:
        pytest.skip(f"Kafka {version} is not here: {missing}")


def run_tool(version: str, main_class: str, *arguments: str | Path) -> str:
    """What a tool of Kafka's prints; it must end well."""
    return _run([*java_command(kafka_jars(version)), main_class, *map(str, arguments)])


def run_program(
    source: Path, *arguments: str | Path, version: str = KAFKA_CLIENTS, given: str | None = None
) -> str:
    """What a Java program prints that is compiled against a Kafka version; it must end well."""
    jars = kafka_jars(version)
    try:
        command = java_command(jars, java_classes(source, version), heap_mb=256)
    except Unavailable as missing:
        pytest.skip(f"{source.name} is not run: {missing}")
    return _run(
        [*command, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", source.stem, *map(str, arguments)], given
    )


def dump_log(version: str, *arguments: str | Path) -> str:
    """What DumpLogSegments prints."""
    package = "org.apache.kafka.tools" if version == KAFKA_4 else "kafka.tools"
    return run_tool(version, f"{package}.DumpLogSegments", *arguments)


def _run(command: list[str], given: str | None = None) -> str:
    done = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
        cwd=tempfile.gettempdir(),
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
