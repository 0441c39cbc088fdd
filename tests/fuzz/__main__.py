"""python -m tests.fuzz [--count N] [--seed S] [--only wire|records|frames] [--replay HEX | --journal FILE]"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from ottla import kernels
from tests.fuzz import harness, targets


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Hostile inputs by the million."
    )
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs in all (1,000,000)")
    parser.add_argument("--seed", type=int, help="repeat a run; random if not given")
    parser.add_argument("--only", choices=list(targets.ALL), help="one target instead of all")
    parser.add_argument("--failures", type=int, default=harness.FAILURES_MAX, help="stop after so many (5)")
    parser.add_argument("--replay", metavar="HEX", help="feed this one input to --only")
    parser.add_argument("--journal", type=Path, help="feed the input that a dead process left in this file")
    parsed = parser.parse_args(given)
    if parsed.replay is not None and parsed.only is None:
        parser.error("--replay needs --only")
    return parsed


def main(given: list[str]) -> int:
    options = arguments(given)
    kernels.use("compiled")
    if options.journal is not None:
        return replay(*harness.read_journal(options.journal))
    if options.replay is not None:
        return replay(options.only, bytes.fromhex(options.replay))
    seed = secrets.randbits(32) if options.seed is None else options.seed
    names = [options.only] if options.only else list(targets.ALL)
    say(f"fuzzing {', '.join(names)}: {options.count:,} inputs, --seed {seed}")
    report = harness.run(
        [targets.ALL[name]() for name in names],
        options.count,
        seed,
        failures_max=options.failures,
        alone=True,
    )
    say(*report.lines(), *map(str, report.failures))
    return 1 if report.failures else 0


def replay(name: str, data: bytes) -> int:
    """Feed one input, with all checks."""
    report = harness.Report(0)
    target = targets.ALL[name]()
    harness.attempt(target, data, report, thorough=True, seconds_max=harness.SECONDS_MAX)
    if not report.failures:
        harness.trace(target, data, report)
    say(*(f"{target}: {word}" for target, word in report.outcomes), *map(str, report.failures))
    return 1 if report.failures else 0


def say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
