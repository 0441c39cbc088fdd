"""What the runner makes of the reports of foreign suites."""

from __future__ import annotations

from tests.foreign.kafkajs import outcomes
from tests.foreign.results import FAILED, KNOWN, PASSED, Result, report


def test_of_a_file_only_tests_of_security_count() -> None:
    def test(title: str, status: str) -> dict[str, object]:
        return {"fullName": title, "status": status, "failureMessages": ["why"]}

    mixed = [test("Producer support SSL connections", "failed"), test("Producer produces messages", "passed")]
    acls = [test("Broker > describeAcls request", "failed"), test("Broker > any name", "passed")]
    files = [
        {"name": "/src/producer/index.spec.js", "assertionResults": mixed},
        {"name": "/src/broker/describeAcls.spec.js", "assertionResults": acls},
    ]
    told = list(outcomes("a run", {"testResults": files}))
    assert [(each.outcome, each.test) for each in told] == [
        (FAILED, "Producer support SSL connections"),
        (KNOWN, "Broker > describeAcls request"),
        (PASSED, "Broker > any name"),
    ]


def test_the_report_counts_each_run_and_names_what_did_not_pass() -> None:
    results = [Result("a run", "one", PASSED), Result("a run", "two", FAILED, "why")]
    assert report(results) == "failed: a run, two: why\na run: 1 passed, 1 failed"
