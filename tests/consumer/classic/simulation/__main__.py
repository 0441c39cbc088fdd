"""Run seeds: `python -m tests.consumer.classic.simulation --seeds 10000`; repeat one: `--seed 17 --trace`."""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.consumer.classic.simulation.scenario import Scenario


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.consumer.classic.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many seeds to run (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (%(default)s)")
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds) if given.seed is None else (given.seed,)
    started = time.process_time()
    settled_ms = []
    redelivered = handed_out = 0
    for seed in seeds:
        try:
            outcome = Scenario(seed, is_tracing=given.trace).run()
        except Exception:  # noqa: BLE001  (whatever it is, the seed is to be told)
            traceback.print_exc()
            sys.stdout.write(
                f"seed {seed} failed: python -m tests.consumer.classic.simulation --seed {seed} --trace\n"
            )
            return 1
        settled_ms.append(outcome.settled_ms)
        redelivered += outcome.redelivered
        handed_out += outcome.handed_out
    settled_ms.sort()
    median_ms = settled_ms[len(settled_ms) // 2]
    sys.stdout.write(
        f"{len(settled_ms)} seeds in {time.process_time() - started:.1f} CPU seconds: {handed_out} messages, "
        f"{redelivered} of them again; settled after {median_ms / 1000:.0f} s (median) and "
        f"{settled_ms[-1] / 1000:.0f} s (longest)\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
