"""Rounds that failed, and what came of them when the same command was run again."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.proof.rounds import Result, run_round

SEED = "OTTLA_SEED"


@dataclass(frozen=True)
class Failure:
    """A round that failed. `passed` is the commit where its command passed last, "" if it has not since."""

    part: str
    command: str
    date: str
    commit: str
    passed: str = ""
    cause: str = ""

    @property
    def seed(self) -> int:
        """The seed of the round."""
        return int(self._parts[0][SEED])

    @property
    def _parts(self) -> tuple[dict[str, str], list[str]]:
        """What the command sets, and the arguments of Python."""
        words = shlex.split(self.command)
        at = words.index("python")
        return dict(word.split("=", 1) for word in words[:at]), words[at + 1 :]

    def run_again(self, cause: str = "") -> Result:
        """Run its command on what is checked out now."""
        began = time.monotonic()
        environment, arguments = self._parts
        code, said = run_round(arguments, self.seed, added=environment)
        return Result(
            self.part,
            seconds=round(time.monotonic() - began, 1),
            seeds=[self.seed],
            failed=self.command if code else "",
            said=said if code else "",
            again=self.command,
            cause=cause or self.cause,
        )


def failures(runs: Sequence[Mapping[str, Any]]) -> list[Failure]:
    """All failures, oldest first, each with what its command came to when it was run last."""
    found: dict[str, Failure] = {}
    for run in runs:
        for part in run["parts"]:
            command = part.get("again") or part["failed"]
            if not command:
                continue
            known = found.get(command, Failure(part["part"], command, run["date"], run["commit"]))
            passed = "" if part["failed"] else run["commit"]
            cause = part.get("cause") or known.cause
            found[command] = Failure(known.part, command, known.date, known.commit, passed, cause)
    return list(found.values())
