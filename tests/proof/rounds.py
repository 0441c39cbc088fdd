"""Runs the rounds of a part, each in a process of its own, and says what came of them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import MappingProxyType

from tests.proof.parts import Part

ROUND_S_MAX = 1800
"""A round that takes longer than this hangs."""
ROUND_S_GOAL = 400
"""No round is made larger than what takes about so long."""
SAID_CHARACTERS = 2000
ROOT = f"{Path(__file__).parents[2]}/"
"""Left out of what a round says: where a clone lies is nobody's business."""
FIGURE = "figure: "
"""Lines that a part prints with this before them are shown on the page."""
ALL_SKIPPED = re.compile(r"\n\d+ skipped in [^\n]*\s*$")
"""How the report of pytest ends where no test ran."""


@dataclass
class Result:
    """What came of a part: rounds that passed, and the first that did not.

    `again` is the command of a former failure if that was run again, `cause` why it had failed.
    """

    part: str
    rounds: int = 0
    seconds: float = 0.0
    seeds: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    figures: list[str] = field(default_factory=list)
    failed: str = ""
    skipped: bool = False
    said: str = ""
    again: str = ""
    cause: str = ""

    def __str__(self) -> str:
        counts = ", ".join(f"{number:,} {name}" for name, number in self.counts.items())
        outcome = f"FAILED: {self.failed}\n{self.said}" if self.failed else "passed"
        outcome = f"skipped: {self.said}" if self.skipped else outcome
        done = f"{self.rounds} rounds, {self.seconds} s, {counts or 'nothing counted'}"
        return f"{self.part}: {done}: {outcome}"


running: set[subprocess.Popen[bytes]] = set()
"""The rounds that run now: an interruption ends them."""


def run_part(
    part: Part, budget_s: float, chance: Random, is_interrupted: threading.Event | None = None
) -> Result:
    """Run rounds until the time is over or a round fails. A round that would end far too late is left out,
    and one that was ended by an interruption.

    The first round is a small one. It tells how long a unit takes, so the next may have as many units as fit.
    """
    result = Result(part.name)
    counts: Counter[str] = Counter()
    began = time.monotonic()
    size = 1
    while True:
        seed = chance.randrange(1 << 31)
        result.seeds.append(seed)
        command, environment = part.command(seed, budget_s, size), part.environment_of(size)
        before_s = result.seconds
        code, said = run_round(command, seed, max(ROUND_S_MAX, 2 * budget_s), environment)
        if is_interrupted is not None and is_interrupted.is_set():
            result.seeds.pop()
            break
        result.figures = [line.removeprefix(FIGURE) for line in said.splitlines() if line.startswith(FIGURE)]
        result.seconds = round(time.monotonic() - began, 1)
        if code:
            set_first = "".join(f"{name}={value} " for name, value in environment.items())
            result.failed, result.said = f"{set_first}OTTLA_SEED={seed} python {shlex.join(command)}", said
            break
        if ALL_SKIPPED.search(f"\n{said}"):
            result.skipped, result.said = True, said
            break
        result.rounds += 1
        counts.update(part.counted(size))
        unit_s = max(result.seconds - before_s, 0.1) / size
        left_s = budget_s - result.seconds
        if left_s <= unit_s / 2:
            break
        size = max(1, min(part.size_max, int(left_s / unit_s), int(ROUND_S_GOAL / unit_s)))
    result.counts = dict(counts)
    return result


def run_round(
    arguments: list[str],
    seed: int,
    patience_s: float = ROUND_S_MAX,
    added: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, str]:
    """The exit code of a process, and the end of what it has said."""
    environment = {**os.environ, **added, "OTTLA_SEED": str(seed), "PYTHONMALLOC": "default"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([sys.executable, *arguments], stdout=said, stderr=said, env=environment)
        running.add(process)
        try:
            code = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            running.remove(process)
            if process.poll() is None:
                process.kill()
                process.wait()
        said.seek(0)
        return code, said.read().decode(errors="replace").replace(ROOT, "")[-SAID_CHARACTERS:]
