"""python -m tests.proof.planted_bugs [NAME …] [--seconds S] [--seed S]: plant bugs; their tests must fail.

Each bug is planted in processes of its own (see `planting`). Before it its test runs without a bug, and must
pass. With --seconds they are planted in an order by the seed until the time is over.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from tests.proof.plants import PLANTS, Plant

ROOT = Path(__file__).parents[2]
PLANTING = Path(__file__).parent / "planting"
TESTS_FAILED = 1
PATIENCE_S = 300
"""A bug may also make a test hang; that is found too."""


def pytest(tests: list[str], plant: Plant | None = None) -> int:
    """The exit code of a run, with a bug or without."""
    environment = {**os.environ, "OTTLA_SEED": "0", "PYTHONMALLOC": "default"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if plant is not None:
        environment["OTTLA_PLANT"] = json.dumps({"module": plant.module, "old": plant.old, "new": plant.new})
        known = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = f"{PLANTING}{os.pathsep}{known}" if known else str(PLANTING)
    # pytest reads the modules of its plugins itself, to rewrite their asserts: ottla is one of them.
    options = ["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", f"--timeout={PATIENCE_S}"]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(
        [*command, *tests],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode


def is_caught(plant: Plant) -> bool:
    """Whether the test beside a bug fails with it."""
    return pytest([plant.caught_by], plant) == TESTS_FAILED


def main(arguments: list[str]) -> int:
    """Return 1 if a bug was not caught, or a test fails without one."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.planted_bugs", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int)
    options = parser.parse_args(arguments)
    chosen = [plant for plant in PLANTS if not options.names or plant.name in options.names]
    if options.seed is not None:
        Random(options.seed).shuffle(chosen)
    end = time.monotonic() + options.seconds
    sound: set[str] = set()
    planted, missed = 0, []
    for plant in chosen:
        if planted and time.monotonic() > end:
            break
        began = time.monotonic()
        if plant.caught_by not in sound and pytest([plant.caught_by]):
            sys.stdout.write(f"{plant.caught_by} fails without a bug\n")
            return 1
        sound.add(plant.caught_by)
        planted += 1
        caught = is_caught(plant)
        if not caught:
            missed.append(plant.name)
        outcome = "caught" if caught else "NOT CAUGHT"
        sys.stdout.write(f"{plant.name}: {outcome} by {plant.caught_by}, {time.monotonic() - began:.1f} s\n")
        sys.stdout.flush()
    text = f"{planted - len(missed)} of {planted} bugs were caught, of {len(PLANTS)} that there are"
    sys.stdout.write(f"figure: {text}{': not ' + ', '.join(missed) if missed else ''}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
