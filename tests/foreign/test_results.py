"""What the runner makes of the reports of foreign suites."""

from __future__ import annotations

from tests.foreign import kgo, results
from tests.foreign.kafkajs import outcomes
from tests.foreign.results import FAILED, KNOWN, PASSED, SKIPPED, Result, of_pytest, report


def test_what_jest_tells() -> None:
    def test(title: str, status: str) -> dict[str, object]:
        return {"fullName": title, "status": status, "failureMessages": ["why"]}

    tests = [
        test("Producer produces messages", "failed"),
        test("Broker > describeAcls request", "failed"),
        test("Broker > any name", "passed"),
        test("Broker > another name", "pending"),
    ]
    told = list(outcomes("a run", {"testResults": [{"assertionResults": tests}]}))
    assert [(each.outcome, each.test) for each in told] == [
        (FAILED, "Producer produces messages"),
        (KNOWN, "Broker > describeAcls request"),
        (PASSED, "Broker > any name"),
        (SKIPPED, "Broker > another name"),
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
    b_test.go:1: not here
--- SKIP: TestB (0.00s)
=== RUN   TestD
=== PAUSE TestD
=== RUN   TestE
=== PAUSE TestE
=== CONT  TestE
=== CONT  TestD
    d_test.go:2: not yet
=== NAME  TestE
[12:00:00] a line of the client
--- SKIP: TestD (0.00s)
--- FAIL: TestE (0.00s)
    e_test.go:3: as Go told it before 1.14
=== RUN   TestC
panic: test timed out"""
    told = kgo.outcomes("kgo", text.splitlines(), kgo.OUTDATED)
    assert [(each.test, each.outcome, each.detail) for each in told] == [
        ("TestA", PASSED, ""),
        ("Test848RegexBrokerResolves", KNOWN, kgo.OUTDATED["Test848RegexBrokerResolves"]),
        ("TestB", SKIPPED, "b_test.go:1: not here"),
        ("TestD", SKIPPED, "d_test.go:2: not yet"),
        ("TestE", FAILED, "e_test.go:3: as Go told it before 1.14"),
        ("TestC", FAILED, "panic: test timed out"),
    ]


def test_what_pytest_tells() -> None:
    text = """<testsuites><testsuite><testcase name="a"/>
<testcase name="b"><failure message="why"/></testcase>
<testcase name="c"><skipped message="old"/></testcase></testsuite></testsuites>"""
    told = list(of_pytest("run", text, {}))
    assert [(each.test, each.outcome, each.detail) for each in told] == [
        ("a", PASSED, ""),
        ("b", FAILED, "why"),
        ("c", SKIPPED, "old"),
    ]


def test_the_page_shows_what_is_stored() -> None:
    assert results.PAGE.read_text() == results.page(results.stored_runs())
