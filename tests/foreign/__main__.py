"""Run suites of others against our broker: python -m tests.foreign [librdkafka] [kafkajs --kafkajs CHECKOUT]

librdkafka is fetched and built, which takes minutes, once. kafkajs' tests are in its repository only: give
the directory of a checkout. The exit code is 1 if a test of theirs failed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

os.environ.setdefault("OTTLA_PEER_SECONDS", "3600")

from tests.foreign import kafkajs, librdkafka
from tests.foreign.results import FAILED, Result, report
from tools.peer_cache import Unavailable


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.foreign")
    parser.add_argument("suite", nargs="*", choices=["librdkafka", "kafkajs"], default=["librdkafka"])
    parser.add_argument("--run", default="", help="only the runs of librdkafka with this in their name")
    parser.add_argument("--kafkajs", type=Path, help="a checkout of kafkajs")
    chosen = parser.parse_args(arguments)
    work = Path(mkdtemp(prefix="ottla-foreign-"))
    results: list[Result] = []
    try:
        for result in _results(chosen, work):
            results.append(result)
            sys.stdout.write(f"{result.outcome:11}{result.run}, {result.test}\n")
            sys.stdout.flush()
    except Unavailable as error:
        sys.stdout.write(f"missing: {error}\n")
        return 1
    sys.stdout.write(f"\n{report(results)}\nlogs: {work}\n")
    return 1 if any(each.outcome == FAILED for each in results) else 0


def _results(chosen: argparse.Namespace, work: Path) -> Iterator[Result]:
    if "librdkafka" in chosen.suite:
        yield from librdkafka.results(work, chosen.run)
    if "kafkajs" in chosen.suite:
        if chosen.kafkajs is None:
            raise Unavailable("kafkajs' tests are in its repository only: --kafkajs CHECKOUT")
        yield from kafkajs.results(work, chosen.kafkajs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
