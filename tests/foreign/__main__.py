"""Run suites of others against our broker: python -m tests.foreign [SUITE …] [--checkout SUITE=DIRECTORY]

Without names all that need no checkout: librdkafka, kgo, sarama, kafka-python, kafka. librdkafka is fetched
and built, which takes minutes, once. The tests of kafkajs and aiokafka are in their repositories only.
Results are stored beside docs/foreign.md. The exit code is 1 if a test of theirs failed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

os.environ.setdefault("OTTLA_PEER_SECONDS", "3600")

from tests.foreign import aiokafka_suite, kafka_python_suite, kafka_suite, kafkajs, kgo, librdkafka, sarama
from tests.foreign.results import FAILED, Result, report, store
from tools.peer_cache import Unavailable


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.foreign")
    parser.add_argument("suite", nargs="*", metavar="SUITE", help=f"some of {', '.join(SUITES)}")
    parser.add_argument("--run", default="", help="only the runs of librdkafka with this in their name")
    parser.add_argument("--checkout", action="append", default=[], metavar="SUITE=DIRECTORY")
    chosen = parser.parse_args(arguments)
    work = Path(mkdtemp(prefix="ottla-foreign-"))
    results: list[Result] = []
    missing = []
    for name in chosen.suite or SUITES.keys() - CHECKED_OUT.keys():
        try:
            for result in SUITES[name](work, chosen):
                results.append(result)
                sys.stdout.write(f"{result.outcome:11}{result.run}, {result.test}\n")
                sys.stdout.flush()
        except Unavailable as error:
            missing.append(f"missing: {error}\n")
    if results:
        store(results)
    sys.stdout.write(f"\n{report(results)}\n{''.join(missing)}logs: {work}\n")
    return 1 if missing or any(each.outcome == FAILED for each in results) else 0


CHECKED_OUT = {"kafkajs": kafkajs.results, "aiokafka": aiokafka_suite.results}
"""Suites that are in no package."""


def _in_checkout(name: str) -> Callable[[Path, argparse.Namespace], Iterator[Result]]:
    def results(work: Path, chosen: argparse.Namespace) -> Iterator[Result]:
        checkouts = dict(each.split("=", 1) for each in chosen.checkout)
        if name not in checkouts:
            raise Unavailable(f"{name}'s tests are in its repository only: --checkout {name}=DIRECTORY")
        return CHECKED_OUT[name](work, Path(checkouts[name]))

    return results


SUITES: dict[str, Callable[[Path, argparse.Namespace], Iterator[Result]]] = {
    "librdkafka": lambda work, chosen: librdkafka.results(work, chosen.run),
    "kgo": lambda work, _: kgo.results(work),
    "sarama": lambda work, _: sarama.results(work),
    "kafka-python": lambda work, _: kafka_python_suite.results(work),
    "kafka": lambda work, _: kafka_suite.results(work),
    **{name: _in_checkout(name) for name in CHECKED_OUT},
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
