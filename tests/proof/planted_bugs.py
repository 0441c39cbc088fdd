"""python -m tests.proof.planted_bugs [NAME …]: plant each bug, and see that its test fails.

Each bug is planted in processes of its own (see `planting`). First all tests run without a bug: they must
pass.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

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


def main(names: list[str]) -> int:
    """Return 1 if a bug was not caught, or a test fails without one."""
    chosen = [plant for plant in PLANTS if not names or plant.name in names]
    if pytest(sorted({plant.caught_by for plant in chosen})):
        sys.stdout.write("a test fails without a bug\n")
        return 1
    missed = []
    for plant in chosen:
        began = time.monotonic()
        caught = is_caught(plant)
        if not caught:
            missed.append(plant.name)
        outcome = "caught" if caught else "NOT CAUGHT"
        sys.stdout.write(f"{plant.name}: {outcome} by {plant.caught_by}, {time.monotonic() - began:.1f} s\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - len(missed)} of {len(chosen)} bugs were caught\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
