"""`python -m build` makes an sdist and a wheel, and the wheel works in an empty virtual environment.

The environment gets the distributions that the wheel's metadata asks for as links into the one that runs the
tests: no package index is needed, and a dependency that the metadata forgets is missing there too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import ottla

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"extra": ""}
SMOKE = """
import importlib.metadata, pathlib, sys
import ottla
from ottla import EmbeddedBroker, GroupConsumer, Producer

assert pathlib.Path(ottla.__file__).is_relative_to(sys.prefix), ottla.__file__
with EmbeddedBroker() as broker:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for value in (b"a", b"b", b"c"):
            producer.send("letters", value)
    settings = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}
    with GroupConsumer("letters", settings, group_id="readers") as consumer:
        messages = iter(consumer)
        assert [next(messages).value for _ in range(3)] == [b"a", b"b", b"c"]
plugins = importlib.metadata.entry_points(group="pytest11")
assert plugins["ottla"].value == "ottla.testing.pytest_plugin"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(ROOT))
    return directory


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("ottla-*-py3-none-any.whl"))


@pytest.fixture(scope="module")
def empty_venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("empty") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", str(venv))
    python = str(venv / "bin" / "python")
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-index",
        "--no-deps",
        "-q",
        str(wheel),
    )
    site_packages = next((venv / "lib").glob("python*/site-packages"))
    for entry in dependency_files(wheel):
        (site_packages / entry.name).symlink_to(entry)
    return venv


def run(*command: str, **variables: str) -> str:
    """What the command prints, run without Python's variables: PYTHONPATH would bring the checkout in."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment | variables, cwd="/"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dependency_files(wheel: Path) -> Iterator[Path]:
    """Entries of site-packages of the distributions that the wheel requires, directly or indirectly."""
    wanted, seen = required(metadata_of(wheel).get_all("Requires-Dist", [])), set[str]()
    while wanted - seen:
        name = (wanted - seen).pop()
        seen.add(name)
        installed = distribution(name)
        wanted |= required(installed.requires or [])
        for top in sorted({file.parts[0] for file in installed.files or () if file.parts[0] != ".."}):
            yield Path(str(installed.locate_file(top)))


def required(lines: list[str]) -> set[str]:
    requirements = [Requirement(line) for line in lines]
    return {need.name for need in requirements if need.marker is None or need.marker.evaluate(ENVIRONMENT)}


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        return message_from_bytes(files.read(f"ottla-{ottla.__version__}.dist-info/METADATA"))


@pytest.mark.timeout(300)
def test_the_wheel_serves_and_reads_in_an_empty_environment(empty_venv: Path) -> None:
    run(
        str(empty_venv / "bin" / "python"),
        "-W",
        "error",
        "-c",
        SMOKE,
        NUMBA_CACHE_DIR=str(empty_venv / "cache"),
    )


def test_its_commands_start(empty_venv: Path) -> None:
    assert run(str(empty_venv / "bin" / "ottla"), "--version").split()[-1] == ottla.__version__
    assert "--bootstrap-server" in run(str(empty_venv / "bin" / "kafka-topics"), "--help")


def test_the_wheel_carries_licence_types_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        licence = files.read(f"ottla-{ottla.__version__}.dist-info/licenses/LICENSE")
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert "ottla/py.typed" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"ottla", "pyspark_ottla", "pyspark_ottla_log", f"ottla-{ottla.__version__}.dist-info"}
    assert metadata_of(wheel)["License-Expression"] == "Apache-2.0"


def test_the_sdist_has_what_builds_tests_and_explains_it(built: Path) -> None:
    with tarfile.open(next(built.glob("ottla-*.tar.gz"))) as files:
        names = {name.split("/", 1)[1] for name in files.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "Makefile"} <= names
    assert {"src/ottla/__init__.py", "tests/conftest.py", "docs/DESIGN.md", "constraints.txt"} <= names
