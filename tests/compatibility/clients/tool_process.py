"""Kafka's command-line tools for the scripts, all run in one Java process by ToolRunner."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from typing import NamedTuple


class Run(NamedTuple):
    """What a run of a tool left behind."""

    code: int
    printed: str
    complaints: str


class ToolProcess:
    """The Java process; `tool` runs a main class and fails as the tool does."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [*command, "ToolRunner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def attempt(self, main_class: str, *arguments: str, text: str = "") -> Run:
        """Run a tool to its end, well or badly."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        fields = [text, main_class, *arguments]
        line = " ".join(base64.b64encode(field.encode()).decode() for field in fields)
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n").split(" ")
        if len(answer) != 3:
            raise AssertionError(f"Java ended during {main_class}")
        printed, complaints = (base64.b64decode(each).decode(errors="replace") for each in answer[1:])
        return Run(int(answer[0]), printed, complaints)

    def tool(self, main_class: str, *arguments: str, text: str = "") -> str:
        """What the tool printed; it must end with code 0."""
        run = self.attempt(main_class, *arguments, text=text)
        if run.code != 0:
            lines = [line.strip() for line in (run.complaints + run.printed).splitlines()]
            said = [line for line in lines if line and not line.startswith(("at java.base", "at ToolRunner"))]
            raise AssertionError(f"ended with {run.code}: {' | '.join(said)[:400]}")
        return run.printed

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
