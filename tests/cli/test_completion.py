"""Completion: bash itself is asked, for every command and every flag of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.cli.completion import words_of_commands
from ottla.cli.main import COMMANDS, KAFKAS_TOOLS
from tests.cli.kafka.conftest import ours

ASK = """
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _ottla; echo "${COMPREPLY[*]}"; }
while IFS= read -r line; do mapfile -t words < <(tr '|' '\\n' <<<"$line"); ask "${words[@]}"; done
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    path = tmp_path_factory.mktemp("completion") / "ottla.bash"
    path.write_text(ours("completion", "bash").printed)
    return path


def completed(script: Path, *lines: str) -> list[list[str]]:
    """What bash offers for the last word of each line; words are apart by |."""
    done = subprocess.run(
        ["bash", "-c", f"source {script}\n{ASK}"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.split() for line in done.stdout.splitlines()]


def test_commands(script: Path) -> None:
    every, some, none = completed(script, "ottla|", "ottla|kafka-con", "ottla|nosuch")
    assert every == list(COMMANDS)
    assert some == [name for name in COMMANDS if name.startswith("kafka-con")]
    assert none == []


def test_flags_of_every_command(script: Path) -> None:
    known = words_of_commands()
    assert known.keys() == COMMANDS.keys()
    names = list(known)
    lines = [f"ottla|{name}|-" for name in names] + [f"ottla|{name}.sh|--" for name in KAFKAS_TOOLS]
    lines += [f"/usr/bin/{name}|--" for name in KAFKAS_TOOLS]
    found = completed(script, *lines)
    assert found[: len(names)] == [list(known[name].flags) for name in names]
    tools = [list(known[name].flags) for name in KAFKAS_TOOLS]
    assert found[len(names) :] == tools + tools
    assert all("--help" in flags for flags in found)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ottla|kafka-topics|--par", ["--partition-size-limit-per-response", "--partitions"]),
        ("ottla|topics|", ["list", "describe", "create", "delete"]),
        ("ottla|topics|list|--format|", ["table", "json", "tsv"]),
        ("ottla|lag|--format|=|j", ["json"]),
        ("ottla|completion|", ["bash", "fish", "zsh"]),
        ("ottla|kafka-run-class|GetO", ["GetOffsetShell"]),
        (
            "kafka-consumer-groups|--to-",
            ["--to-current", "--to-datetime", "--to-earliest", "--to-latest", "--to-offset"],
        ),
        ("ottla|produce|some", []),
    ],
)
def test_what_may_follow(script: Path, line: str, offered: list[str]) -> None:
    assert completed(script, line) == [offered]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(shell: str, tmp_path: Path) -> None:
    printed = ours("completion", shell).printed
    assert "under-replicated-partitions" in printed
    path = tmp_path / f"ottla.{shell}"
    path.write_text(printed)
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(path)], check=True)
