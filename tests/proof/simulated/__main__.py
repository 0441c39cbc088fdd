"""python -m tests.proof.simulated [--first 0] [--seeds 10] [--hours 0.2] [--seconds 0] [--tell]: run seeds.

`--hours` is how long each lasts in virtual time while things go wrong; with `--seconds` no seed begins after
so much real time. A seed that fails is reduced to the faults that it needs.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from ottla import kernels
from ottla.testing.simulation import shrunk
from tests.proof.simulated.scenario import World


def main() -> int:
    """Return 1 if a seed fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.simulated", description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--hours", type=float, default=0.2)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--tell", action="store_true", help="print what happened in each")
    given = parser.parse_args()
    kernels.use("compiled")
    logging.disable(logging.CRITICAL)  # clients tell about every fault
    began, cpu_began = time.monotonic(), time.process_time()
    counts: Counter[str] = Counter()
    hours, ran = 0.0, 0
    for seed in range(given.first, given.first + given.seeds):
        if given.seconds and time.monotonic() - began > given.seconds:
            break
        world = World.of(seed, given.hours * 3600)
        result = world.run(seed)
        if result.error is not None:
            least = shrunk(world.play, result, **world.options)
            sys.stdout.write(f"{least}\nPYTHONHASHSEED=0 python -m tests.proof.simulated --first={seed} ")
            sys.stdout.write(f"--seeds=1 --hours={given.hours} --tell\n")
            return 1
        if given.tell:
            sys.stdout.write(f"{result}\n{result.digest}\n")
        counts += world.counts
        hours += result.simulated_s / 3600
        ran += 1
    cpu_s = time.process_time() - cpu_began
    told = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    sys.stdout.write(f"{ran} seeds, {hours:.1f} simulated hours in {cpu_s:.0f} CPU seconds: {told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
