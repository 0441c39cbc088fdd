"""The code blocks of a page of the documentation, and a shell that runs them as a reader would."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.cli.main import main

ROOT = Path(__file__).parents[1]
SPARK_PAGES = ("pipeline.md", "spark.md")
"""Their blocks run in the Spark session that tests share."""
KAFKA, ZOOKEEPER = "127.0.0.1:9092", "127.0.0.1:2181"
_FENCE = re.compile(r"^```(\w*) ?(.*)\n((?:.*\n)*?)```$|^## (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PageBlock:
    """A block below a heading of the second level; `caption` is what follows its language."""

    section: str
    language: str
    caption: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block without comments; a line that ends in a backslash goes on."""
        whole = self.text.replace("\\\n", " ")
        return [bare for line in whole.splitlines() if (bare := line.partition("  #")[0].strip())]


def page_blocks(page: str, section: str | None = None) -> list[PageBlock]:
    """Return the blocks of a page in docs, or of one of its sections."""
    blocks, heading = [], ""
    for language, caption, text, found in _FENCE.findall((ROOT / "docs" / page).read_text()):
        if found:
            heading = found
        elif section in (None, heading):
            blocks.append(PageBlock(heading, language, caption, text))
    return blocks


class PageShell:
    """Runs blocks in an empty directory, with the addresses of the test's servers; /tmp is the directory."""

    def __init__(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, bootstrap: str, zookeeper: str = ""
    ) -> None:
        profile = directory / "config.toml"
        profile.write_text(f'[profiles.default]\nbootstrap.servers = "{bootstrap}"\n')
        monkeypatch.setenv("OTTLA_CONFIG", str(profile))
        monkeypatch.chdir(directory)
        self._directory = directory
        self._monkeypatch = monkeypatch
        self._own = {KAFKA: bootstrap, ZOOKEEPER: zookeeper, "/tmp/": f"{directory}/"}

    def follow(self, page: str, section: str) -> None:
        """Run all blocks of a section in their order; blocks with a file's name become that file."""
        blocks = page_blocks(page, section)
        assert blocks, f"{page} has no section {section}"
        for block in blocks:
            if block.caption.endswith((".py", ".toml")):
                (self._directory / block.caption).write_text(self._with_own_addresses(block.text))
            elif block.language == "python":
                self.run_python(block)
            else:
                assert block.language == "sh", block
                for command in block.commands:
                    self.run(command)

    def run_python(self, block: PageBlock, names: Mapping[str, object] | None = None) -> dict[str, object]:
        """Run a block, with more names; returns all names that it leaves."""
        left: dict[str, object] = {"__name__": "__main__", **(names or {})}
        exec(compile(self._with_own_addresses(block.text), block.section, "exec"), left)
        return left

    def run(self, command: str) -> None:
        """A command of ours runs in this process, pytest in its own; what installs or serves is left out."""
        given, _, command = self._with_own_addresses(command).rpartition(" | ")
        program, *arguments = shlex.split(command)
        if program == "pytest":
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
                cwd=self._directory,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        elif program == "ottla" and arguments[0] != "up":
            lines = " ".join(shlex.split(given)[1:]) + "\n"
            self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
            assert main(arguments) == 0, command
        else:
            assert program == "pip" or command.startswith("ottla up "), command

    def _with_own_addresses(self, text: str) -> str:
        for shown, own in self._own.items():
            text = text.replace(shown, own)
        return text
