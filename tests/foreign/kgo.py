"""franz-go's own tests of its client (kgo), against our broker: groups, transactions, producing."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from ottla import EmbeddedBroker
from tests.foreign.results import FAILED, KNOWN, PASSED, SKIPPED, Result
from tools.peer_cache import go_test_program

MODULE, PACKAGE = "github.com/twmb/franz-go@v1.22.2", "pkg/kgo"
BROKERS = 3
RECORDS = 20_000
"""Instead of half a million for each test of a group."""
RUN_S = 3_600
TURN = re.compile(r"^=== (?:RUN|CONT|NAME|PAUSE) +(\w+)")
"""Whose lines come now."""
TOLD = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)")
REASON = re.compile(r"\w+\.go:\d+: ")
"""What a test says itself; other lines are of the client."""
OUTDATED = {
    "Test848RegexBrokerResolves": "it wants __consumer_offsets for an expression; this broker leaves its own "
    "topics out: a group that reads its own commits never ends",
}
OUTCOMES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}


def results(place: Path) -> Iterator[Result]:
    """Run all tests. Raises Unavailable where there is no Go, or no module."""
    program = go_test_program(MODULE, PACKAGE)
    log = place / "kgo.log"
    with EmbeddedBroker(brokers=BROKERS) as broker, log.open("wb") as out:
        environment = {
            **os.environ,
            "KGO_SEEDS": broker.bootstrap,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(RECORDS),
        }
        command = [str(program), "-test.v", f"-test.timeout={RUN_S}s"]
        subprocess.run(command, cwd=place, env=environment, stdout=out, stderr=out, timeout=RUN_S + 60)
    yield from outcomes("kgo", log.read_text(errors="replace").splitlines(), OUTDATED)


def outcomes(run: str, lines: list[str], known: Mapping[str, str]) -> Iterator[Result]:
    """The results of the tests that Go's test program has told of; parts of tests are left out.

    `known` says of failing tests why they fail.
    """
    words: dict[str, str] = {}
    said: dict[str, list[str]] = {}
    test = ""
    for line in lines:
        if match := TURN.match(line):
            test = match[1]
            said.setdefault(test, [])
        elif match := TOLD.match(line):
            word, test = match.groups()
            words[test] = word
        elif test:
            said[test].append(line.strip())
    for test, own in said.items():
        word = words.get(test, "FAIL")
        if word == "PASS":
            yield Result(run, test, PASSED)
        elif word == "FAIL" and test in known:
            yield Result(run, test, KNOWN, known[test])
        else:
            reasons = [line for line in own if REASON.match(line)] or own
            yield Result(run, test, OUTCOMES[word], " ".join(reasons[-2:])[:300] or "it did not end")
