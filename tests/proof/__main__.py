"""python -m tests.proof [--hours 0.33] [--only PART …] [--seed S]: run the proof, and write its page.

Every part gets its share of the time, and is run round by round with new seeds until that is over. As many
parts run at once as there are processors. Those whose last result is oldest come first: where a machine is
too slow for all of them, the next run begins with the others. The result is added to docs/reliability.jsonl,
and docs/reliability.md is made from that file.

python -m tests.proof --again [SEED …] [--because CAUSE]: run the commands of failures that have not passed
since, or of some seeds, and add what came of them and why they had failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from random import Random, SystemRandom
from typing import Any

from tests.proof import page
from tests.proof.failures import failures
from tests.proof.parts import PARTS, Part
from tests.proof.rounds import Result, run_part, running

HOURS = 1 / 3


def circumstances(seed: int, hours: float) -> dict[str, object]:
    """When, where and of what. A commit whose files are changed has a + behind it."""
    results = [f":!{path.relative_to(page.DOCS.parent)}" for path in (page.RUNS, page.PAGE)]
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *results)
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if changed else ""),
        "ottla": version("ottla"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processors": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 1),
        "seed": seed,
        "hours": hours,
    }


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=page.DOCS.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> int:
    """Return 1 if a part has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("--hours", type=float, default=HOURS)
    parser.add_argument("--only", nargs="*", metavar="PART", choices=[part.name for part in PARTS])
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 31))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", nargs="*", type=int, metavar="SEED")
    parser.add_argument("--because", default="", metavar="CAUSE")
    options = parser.parse_args()
    chosen = [part for part in PARTS if not options.only or part.name in options.only]
    run = circumstances(options.seed, options.hours)
    results: list[Result] = []
    try:
        if options.again is not None:
            run_again(options.again, options.because, results)
        else:
            run_all(oldest_first(chosen, page.stored_runs()), options, results)
    finally:  # also if it is interrupted: what was done counts
        if results:
            page.add({**run, "parts": [asdict(result) for result in results]})
    return 1 if any(result.failed for result in results) else 0


def run_again(seeds: Sequence[int], cause: str, results: list[Result]) -> None:
    """Run the failures of these seeds, or those that have not passed since, and add their results."""
    for failure in failures(page.stored_runs()):
        if failure.seed in seeds if seeds else not failure.passed:
            results.append(failure.run_again(cause))
            sys.stdout.write(f"{results[-1]}\n")
            sys.stdout.flush()


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
        result = run_part(part, budget_s, Random(f"{options.seed} {part.name}"), is_interrupted)
        if not (result.rounds or result.failed or result.skipped):
            return  # its first round was ended
        results.append(result)
        sys.stdout.write(f"{result}\n")
        sys.stdout.flush()

    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            list(pool.map(run_one, parts))
        except BaseException:
            is_interrupted.set()
            for process in [*running]:
                process.terminate()
            raise


if __name__ == "__main__":
    sys.exit(main())
