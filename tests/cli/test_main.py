"""The umbrella: help without the weight of what it tells of, and one line for what goes wrong."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

from ottla.cli.main import COMMANDS, KAFKAS_TOOLS, Command, main, main_as_tool
from ottla.model.errors import ConfigError
from ottla.model.version import VERSION

ARRAYS_AND_CLIENTS = {"kazoo", "numba", "numpy", "pyarrow", "pyspark"}
HEAVY = {*ARRAYS_AND_CLIENTS, "asyncio", "socket", "ssl"}


def test_help_names_every_command_and_loads_none() -> None:
    code = "import sys; from ottla.cli.main import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *shown, modules = done.stdout.splitlines()
    for name, command in COMMANDS.items():
        assert any(line.split() == [name, *command.summary.split()] for line in shown), name
    assert not HEAVY & set(modules.split())


def test_help_of_every_command_loads_no_arrays_and_no_clients() -> None:
    code = """import sys
from ottla.cli.main import COMMANDS, main
for name in COMMANDS:
    try:
        main([name, "--help"])
    except SystemExit as ended:
        assert ended.code == 0
print(*sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not ARRAYS_AND_CLIENTS & set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_tells_its_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(import_module(COMMANDS[name].module).run)
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(("usage: ", "Option  "))  # ours, or Kafka's own


def test_kafkas_tools_are_programs_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    scripts = project["project"]["scripts"]
    names = set(KAFKAS_TOOLS) | {f"{name}.sh" for name in KAFKAS_TOOLS}
    assert {name for name in scripts if scripts[name].endswith("main_as_tool")} == names
    for program in ("/usr/bin/kafka-topics", "/opt/kafka/bin/kafka-topics.sh"):
        monkeypatch.setattr(sys, "argv", [program, "--list"])
        assert main_as_tool() == 1
        assert capsys.readouterr().err.startswith("--bootstrap-server must be specified")


def test_no_command_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: ottla COMMAND" in capsys.readouterr().err


def test_an_unknown_command_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zokeeper"]) == 2
    wanted = "ottla: there is no command 'zokeeper', but there is 'zookeeper'; see ottla --help\n"
    assert capsys.readouterr().err == wanted


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--grop", "kitchen"], "--grop kitchen; did you mean --group?"),
        (["--grop=kitchen"], "--grop"),
        ([""], ""),
    ],
)
def test_an_unknown_option_is_told_with_the_nearest(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["consume", "orders", *words])
    assert f"unrecognized arguments: {told}" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ottla {VERSION}\n"


def run(arguments: Sequence[str]) -> int:
    """As a command: what it is told to raise."""
    if arguments[0] == "interrupt":
        raise KeyboardInterrupt
    if arguments[0] == "full":
        raise OSError(errno.ENOSPC, "No space left on device", "tables/orders")
    raise ConfigError(arguments[0])


@pytest.mark.parametrize(
    ("word", "code", "line"),
    [
        ("interrupt", 130, ""),
        ("no", 1, "ottla: no\n"),
        ("full", 1, "ottla: [Errno 28] No space left on device: 'tables/orders'\n"),
    ],
)
def test_what_a_command_raises(
    word: str, code: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "raise", Command(__name__, ""))
    assert main(["raise", word]) == code
    assert capsys.readouterr().err == line


def test_a_reader_that_has_gone_is_no_error_to_tell() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ottla", "--help"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
