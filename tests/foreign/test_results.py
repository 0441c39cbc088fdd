"""What the runner makes of the reports of foreign suites."""

from __future__ import annotations

from tests.foreign import kafka_python_suite, kgo, results
from tests.foreign.kafkajs import outcomes
from tests.foreign.results import FAILED, KNOWN, PASSED, SKIPPED, Result, report


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
    told = [Result("a run", "one", PASSED), Result("a run", "two", FAILED, "why")]
    assert report(told) == "failed: a run, two: why\na run: 1 passed, 1 failed"


def test_what_go_tells() -> None:
    text = """=== RUN   TestA
=== RUN   TestA/part
--- PASS: TestA (0.10s)
    --- PASS: TestA/part (0.10s)
=== RUN   Test848RegexBrokerResolves
--- FAIL: Test848RegexBrokerResolves (1.00s)
=== RUN   TestB
--- SKIP: TestB (0.00s)
    b_test.go:1: not here
=== RUN   TestC
panic: test timed out"""
    told = [(each.test, each.outcome) for each in kgo.outcomes("kgo", text.splitlines())]
    assert told == [
        ("TestA", PASSED),
        ("Test848RegexBrokerResolves", KNOWN),
        ("TestB", SKIPPED),
        ("TestC", FAILED),
    ]


def test_what_pytest_tells() -> None:
    text = """<testsuites><testsuite><testcase name="a"/>
<testcase name="b"><failure message="why"/></testcase>
<testcase name="c"><skipped message="old"/></testcase></testsuite></testsuites>"""
    told = list(kafka_python_suite.outcomes("run", text))
    assert [(each.test, each.outcome, each.detail) for each in told] == [
        ("a", PASSED, ""),
        ("b", FAILED, "why"),
        ("c", SKIPPED, "old"),
    ]


def test_the_page_shows_what_is_stored() -> None:
    assert results.PAGE.read_text() == results.page(results.stored_runs())
