"""Run the matrix: `python -m tests.compatibility [CLIENT …]`.

(nothing more)      against our broker; writes docs/compatibility.md when all clients are run
--oracle            against the real Kafka of each client; keeps the outcomes in oracle.jsonl
--bootstrap ADDR    against any broker; prints only
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import groupby
from pathlib import Path

from tests.compatibility import targets
from tests.compatibility.catalog import ALL, BY_NAME, Client
from tests.compatibility.page import page
from tests.compatibility.verdicts import FAILED, PASSED, Report, save
from tools.peers import Unavailable

ORACLE = Path(__file__).with_name("oracle.jsonl")
PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility")
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=", ".join(BY_NAME))
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument("--bootstrap")
    arguments = parser.parse_args()
    wanted = [BY_NAME[name] for name in arguments.clients] or list(ALL)
    if arguments.bootstrap:
        address = targets.Address(arguments.bootstrap)
        reports = [_told(_run(client, nullcontext(address))) for client in wanted]
    elif arguments.oracle:
        reports = list(_oracle(wanted))
        save(ORACLE, reports)
    else:
        reports = [
            _told(_run(client, targets.ottla(with_zookeeper=client.needs_zookeeper))) for client in wanted
        ]
        if not arguments.clients:
            PAGE.write_text(page(reports))
    return 1 if any(report.count(FAILED) for report in reports) else 0


def _oracle(wanted: list[Client]) -> Iterator[Report]:
    for version, clients in groupby(wanted, lambda client: client.oracle):
        with ExitStack() as stack:
            kafka = stack.enter_context(targets.real_kafka(version))
            for client in clients:
                yield _told(_run(client, nullcontext(kafka)))


def _run(client: Client, target: AbstractContextManager[targets.Target]) -> Report:
    try:
        client.command()
        with target as broker:
            return client.run(broker)
    except Unavailable as error:
        return Report(client.name, missing=str(error))


def _told(report: Report) -> Report:
    sys.stdout.write(f"{report.client} {report.version}: {report.missing or ''}\n")
    for verdict in report.verdicts:
        if verdict.outcome != PASSED:
            sys.stdout.write(f"  {verdict.outcome}: {verdict.step}: {verdict.detail}\n")
    sys.stdout.write(f"  {report.count(PASSED)} passed, {report.count(FAILED)} failed\n")
    sys.stdout.flush()
    return report


if __name__ == "__main__":
    raise SystemExit(main())
