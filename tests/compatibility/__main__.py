"""Run the matrix: `python -m tests.compatibility [CLIENT …]`.

(nothing more)      against our broker; writes docs/compatibility.md when all clients are run
--oracle            against the real Kafka of each client; keeps the outcomes in oracle.jsonl
--bootstrap ADDR    against any broker; prints only
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import groupby

from tests.compatibility import targets
from tests.compatibility.catalog import ALL, BY_NAME, Client
from tests.compatibility.page import PAGE, page
from tests.compatibility.verdicts import FAILED, ORACLE, PASSED, Report, save


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility")
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=", ".join(BY_NAME))
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument("--bootstrap")
    arguments = parser.parse_args()
    wanted = [BY_NAME[name] for name in arguments.clients] or list(ALL)
    if arguments.bootstrap:
        address = targets.Address(arguments.bootstrap)
        reports = [_told(client.run(nullcontext(address))) for client in wanted]
    elif arguments.oracle:
        reports = list(_oracle(wanted))
        save(ORACLE, reports)
    else:
        reports = [
            _told(client.run(targets.ottla(with_zookeeper=client.needs_zookeeper))) for client in wanted
        ]
        if not arguments.clients:
            PAGE.write_text(page(reports))
    return 1 if any(report.count(FAILED) for report in reports) else 0


def _oracle(wanted: list[Client]) -> Iterator[Report]:
    for version, clients in groupby(sorted(wanted, key=_oracle_of), _oracle_of):
        with targets.real_kafka(version) as kafka:
            for client in clients:
                yield _told(client.run(nullcontext(kafka)))


def _oracle_of(client: Client) -> str:
    return client.oracle


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
