"""What passes on Apache Kafka passes on our broker, for every client that can be had here."""

from __future__ import annotations

import pytest

from ottla.records.builder import encode
from tests.compatibility.catalog import ALL, Client
from tests.compatibility.page import PAGE
from tests.compatibility.targets import ottla
from tests.compatibility.verdicts import ORACLE, PASSED, load
from tests.interop.rows import our_rows, sample, table
from tests.scale import nightly

pytestmark = pytest.mark.each_alone

PROVEN = load(ORACLE)
OLD_JAVA = {"Java client 3.9", "command-line tools 3.9", "Scala tools 0.9.0.1"}
SELDOM = nightly("many programs of Java; tests of our own tools run these classes as well")


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    """The first use compiles for seconds, on a busy machine for longer than a client would wait."""
    for magic in (0, 1, 2):
        our_rows(b"".join(encode(table(sample(magic)), magic=magic)))


# A cold cache costs the download of a peer, which has a limit of its own, on top of the steps.
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "client",
    [pytest.param(each, id=each.name, marks=SELDOM if each.name in OLD_JAVA else ()) for each in ALL],
)
def test_steps_that_pass_on_kafka_pass_here(client: Client) -> None:
    report = client.run(ottla(with_zookeeper=client.needs_zookeeper))
    if report.missing:
        pytest.skip(f"{client.name}: {report.missing}")
    proven = PROVEN[client.name]
    broken = [
        f"{verdict.step}: {verdict.outcome} here, {proven.get(verdict.step)} on Kafka: {verdict.detail}"
        for verdict in report.verdicts
        if verdict.outcome != proven.get(verdict.step)
    ]
    assert not broken, "\n".join(broken)
    assert [verdict.step for verdict in report.verdicts] == list(proven)


def test_all_steps_pass_on_kafka() -> None:
    assert sorted(PROVEN) == sorted(client.name for client in ALL)
    assert {outcome for steps in PROVEN.values() for outcome in steps.values()} == {PASSED}


def test_page_lists_every_client_and_step() -> None:
    rows = [line.split(" | ")[0].removeprefix("| ") for line in PAGE.read_text().splitlines()]
    assert {*PROVEN, *(step for steps in PROVEN.values() for step in steps)} - set(rows) == set()
