"""Run suites of others against our broker: python -m tests.foreign [SUITE …] [--kafkajs CHECKOUT]

Without names all that need no checkout: librdkafka, kgo, kafka-python. librdkafka is fetched and built, which
takes minutes, once. kafkajs' tests are in its repository only: give the directory of a checkout. The results
are stored beside docs/foreign.md. The exit code is 1 if a test of theirs failed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

os.environ.setdefault("OTTLA_PEER_SECONDS", "3600")

from tests.foreign import kafka_python_suite, kafkajs, kgo, librdkafka
from tests.foreign.results import FAILED, Result, report, store
from tools.peer_cache import Unavailable


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.foreign")
    parser.add_argument("suite", nargs="*", metavar="SUITE", help=f"some of {', '.join(SUITES)}")
    parser.add_argument("--run", default="", help="only the runs of librdkafka with this in their name")
    parser.add_argument("--kafkajs", type=Path, help="a checkout of kafkajs")
    chosen = parser.parse_args(arguments)
    work = Path(mkdtemp(prefix="ottla-foreign-"))
    results: list[Result] = []
    missing = []
    for name in chosen.suite or (name for name in SUITES if name != "kafkajs"):
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


def _kafkajs(work: Path, chosen: argparse.Namespace) -> Iterator[Result]:
    if chosen.kafkajs is None:
        raise Unavailable("kafkajs' tests are in its repository only: --kafkajs CHECKOUT")
    return kafkajs.results(work, chosen.kafkajs)


SUITES: dict[str, Callable[[Path, argparse.Namespace], Iterator[Result]]] = {
    "librdkafka": lambda work, chosen: librdkafka.results(work, chosen.run),
    "kgo": lambda work, _: kgo.results(work),
    "kafka-python": lambda work, _: kafka_python_suite.results(work),
    "kafkajs": _kafkajs,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
