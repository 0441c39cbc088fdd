"""python -m tests.proof [--hours 0.33] [--only PART …] [--seed S]: run the proof, and write its page.

Every part gets its share of the time, and is run round by round with new seeds until that is over. As many
parts run at once as there are processors. Those whose last result is oldest come first: where a machine is
too slow for all of them, the next run begins with the others. The result is added to docs/reliability.jsonl,
and docs/reliability.md is made from that file.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from random import Random, SystemRandom
from types import MappingProxyType
from typing import Any

from tests.proof import page
from tests.proof.parts import PARTS, Part

HOURS = 1 / 3
ROUND_S_MAX = 1800
"""A round that takes longer than this hangs."""
SAID_CHARACTERS = 2000
FIGURE = "figure: "
"""Lines that a part prints with this before them are shown on the page."""
ALL_SKIPPED = re.compile(r"\n\d+ skipped in [^\n]*\s*$")
"""How the report of pytest ends where no test ran."""


@dataclass
class Result:
    """What came of a part: rounds that passed, and the first that did not."""

    part: str
    rounds: int = 0
    seconds: float = 0.0
    seeds: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    figures: list[str] = field(default_factory=list)
    failed: str = ""
    skipped: bool = False
    said: str = ""


_rounds: set[subprocess.Popen[bytes]] = set()
"""The rounds that run now: an interruption ends them."""


def run_part(part: Part, budget_s: float, chance: Random) -> Result:
    """Run rounds until the time is over or a round fails. A round that would end far too late is left out."""
    result = Result(part.name)
    counts: Counter[str] = Counter()
    began = time.monotonic()
    while True:
        seed = chance.randrange(1 << 31)
        result.seeds.append(seed)
        command = part.command(seed, budget_s)
        code, said = run_round(command, seed, max(ROUND_S_MAX, 2 * budget_s), part.environment)
        result.figures = [line.removeprefix(FIGURE) for line in said.splitlines() if line.startswith(FIGURE)]
        result.seconds = round(time.monotonic() - began, 1)
        if code:
            words = " ".join(command)
            set_first = "".join(f"{name}={value} " for name, value in part.environment.items())
            result.failed, result.said = f"{set_first}OTTLA_SEED={seed} python {words}", said
            break
        if ALL_SKIPPED.search(f"\n{said}"):
            result.skipped, result.said = True, said
            break
        result.rounds += 1
        counts.update(part.counted())
        if result.seconds + result.seconds / result.rounds / 2 >= budget_s:
            break
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
        _rounds.add(process)
        try:
            code = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            _rounds.remove(process)
            if process.poll() is None:
                process.kill()
                process.wait()
        said.seek(0)
        return code, said.read().decode(errors="replace")[-SAID_CHARACTERS:]


def circumstances(seed: int, hours: float) -> dict[str, object]:
    """When, where and of what."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "commit": commit.stdout.strip(),
        "ottla": version("ottla"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processors": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 1),
        "seed": seed,
        "hours": hours,
    }


def sentence(result: Result) -> str:
    """What came of a part, for the terminal."""
    counts = ", ".join(f"{number:,} {name}" for name, number in result.counts.items())
    outcome = f"FAILED: {result.failed}\n{result.said}" if result.failed else "passed"
    outcome = f"skipped: {result.said}" if result.skipped else outcome
    return (
        f"{result.part}: {result.rounds} rounds, {result.seconds} s, {counts or 'nothing counted'}: {outcome}"
    )


def main() -> int:
    """Return 1 if a part has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("--hours", type=float, default=HOURS)
    parser.add_argument("--only", nargs="*", metavar="PART", choices=[part.name for part in PARTS])
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 31))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    chosen = [part for part in PARTS if not options.only or part.name in options.only]
    run = circumstances(options.seed, options.hours)
    results: list[Result] = []
    try:
        run_all(oldest_first(chosen, page.stored_runs()), options, results)
    finally:  # also if it is interrupted: what was done counts
        page.add({**run, "parts": [asdict(result) for result in results]})
    return 1 if any(result.failed for result in results) else 0


def oldest_first(parts: Sequence[Part], runs: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Parts that were never run, then by the run that they were last in."""
    last = {result["part"]: number for number, run in enumerate(runs) for result in run["parts"]}
    return sorted(parts, key=lambda part: last.get(part.name, -1))


def run_all(parts: Sequence[Part], options: argparse.Namespace, results: list[Result]) -> None:
    """Run the parts, some at a time, and add their results; none begins after the time is over."""
    whole = sum(part.weight for part in parts)
    seconds = options.hours * 3600
    deadline = time.monotonic() + seconds

    is_interrupted = threading.Event()

    def run_one(part: Part) -> None:
        if is_interrupted.is_set():
            return
        if results and time.monotonic() > deadline:
            sys.stdout.write(f"{part.name}: no time left\n")
            return
        budget_s = seconds * options.jobs * part.weight / whole
        result = run_part(part, budget_s, Random(f"{options.seed} {part.name}"))
        if is_interrupted.is_set():
            return  # its last round was ended
        results.append(result)
        sys.stdout.write(f"{sentence(result)}\n")
        sys.stdout.flush()

    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            list(pool.map(run_one, parts))
        except BaseException:
            is_interrupted.set()
            for process in [*_rounds]:
                process.terminate()
            raise


if __name__ == "__main__":
    sys.exit(main())
