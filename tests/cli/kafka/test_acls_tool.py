"""kafka-acls beside Kafka's own, on a real Kafka and on the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla import EmbeddedBroker
from tests.cli.kafka.conftest import Era, ours

TOOL = "org.apache.kafka.tools.AclCommand"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANN = "--allow-principal User:ann "
LINES = (
    f"--add {ANN} --topic orders --operation Read --operation describeconfigs --allow-host 10.0.0.1",
    f"--add {ANN} --topic orders --operation Read --operation Write --allow-host 10.0.0.1",
    "--add --deny-principal User:eve --cluster --operation Alter",
    "--add --allow-principal User:* --group team- --resource-pattern-type prefixed",
    f"--add {ANN} --producer --topic out --transactional-id tx --idempotent",
    f"--add {ANN} --consumer --producer --topic both --group g",
    "--add --allow-principal User:root --user-principal User:ann --operation CreateTokens",
    "--list",
    "--list --topic orders --topic out",
    "--list --group team-a --resource-pattern-type match",
    "--list --principal User:ann --principal User:eve",
    f"--remove --force {ANN} --topic both --operation Create",
    "--remove --force --topic orders",
    "--list --topic both --topic orders",
)


def lines_of(text: str) -> list[str]:
    """Kafka's order is that of a hash map over enumerations: another one in each process."""
    return sorted(line.removeprefix(" ") for line in text.splitlines())


@pytest.fixture
def rules_at(new: Era) -> Iterator[str]:
    """An embedded broker with an authorizer."""
    with EmbeddedBroker(
        properties={"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    ) as broker:
        yield broker.bootstrap


def test_rules_as_kafka_4(new: Era, rules_at: str) -> None:
    """Kafka's tool on Kafka, ours on ours: then Kafka's on ours and ours on Kafka see the same."""
    for line in LINES:
        theirs = new.tool(TOOL, "--bootstrap-server", new.kafka.bootstrap, *line.split())
        found = ours("kafka-acls", "--bootstrap-server", rules_at, *line.split())
        assert (found.code, lines_of(found.printed)) == (theirs.code, lines_of(theirs.printed)), line
    left = ("--list",)
    crossed = new.tool(TOOL, "--bootstrap-server", rules_at, *left)
    assert lines_of(ours("kafka-acls", "--bootstrap-server", new.kafka.bootstrap, *left).printed) == lines_of(
        crossed.printed
    )
    for resource in ("--cluster", "--group g", "--topic *", "--user-principal User:ann"):
        ours(
            "kafka-acls", "--bootstrap-server", new.kafka.bootstrap, "--remove", "--force", *resource.split()
        )


@pytest.mark.parametrize(
    ("line", "text"),
    [("--remove --topic asked", "y\n"), (f"--remove {ANN} --topic asked --operation Read", "n\n")],
)
def test_before_rules_are_removed_the_tool_asks(new: Era, rules_at: str, line: str, text: str) -> None:
    add = f"--add {ANN} --topic asked --operation Read".split()
    for at in (rules_at, new.kafka.bootstrap):
        ours("kafka-acls", "--bootstrap-server", at, *add)
    theirs = new.tool(TOOL, "--bootstrap-server", new.kafka.bootstrap, *line.split(), text=text)
    found = ours("kafka-acls", "--bootstrap-server", rules_at, *line.split(), text=text)
    # Kafka's asks only at a terminal, and this one is none.
    assert found == (0, theirs.printed.partition("Error while")[0], "")
    after = ours("kafka-acls", "--bootstrap-server", rules_at, "--list", "--topic", "asked")
    assert ("asked" in after.printed) is (text == "n\n")
    ours("kafka-acls", "--bootstrap-server", new.kafka.bootstrap, "--remove", "--force", "--topic", "asked")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--list --add",
        "--list --allow-principal User:a",
        "--add --topic t",
        "--add --allow-principal User:a",
        "--add --topic t --principal User:a",
        "--add --topic t --resource-pattern-type any --allow-principal User:a",
        "--add --producer --group g --allow-principal User:a",
        "--add --producer --topic t --operation Read --allow-principal User:a",
        "--add --idempotent --topic t --allow-principal User:a",
        "--add --consumer --topic t --allow-principal User:a",
    ],
)
def test_what_makes_no_sense_is_refused_with_kafkas_words(new: Era, line: str) -> None:
    arguments = ("--bootstrap-server", new.kafka.bootstrap, *line.split())
    theirs, found = new.tool(TOOL, *arguments), ours("kafka-acls", *arguments)
    assert (found.code, found.complaints.splitlines()[0]) == (theirs.code, theirs.complaints.splitlines()[0])


@pytest.mark.parametrize(
    ("resource", "operation"),
    [("--topic t", "ClusterAction"), ("--group g", "Write"), ("--transactional-id x", "Read")],
)
def test_operations_that_a_resource_has_not(new: Era, resource: str, operation: str) -> None:
    line = f"--add --allow-principal User:a --operation {operation} {resource}"
    arguments = ("--bootstrap-server", new.kafka.bootstrap, *line.split())
    theirs, found = new.tool(TOOL, *arguments), ours("kafka-acls", *arguments)
    told = [run.complaints.splitlines()[0].partition(" operations ") for run in (found, theirs)]
    assert told[0][0] == told[1][0]
    assert sorted(told[0][2].strip("[]").split(", ")) == sorted(told[1][2].strip("[]").split(", "))


def test_a_broker_without_an_authorizer_says_so(new: Era) -> None:
    with EmbeddedBroker() as broker:
        arguments = ("--bootstrap-server", broker.bootstrap, "--list")
        theirs, found = new.tool(TOOL, *arguments), ours("kafka-acls", *arguments)
    assert (found.code, found.printed.splitlines()[0]) == (theirs.code, theirs.printed.splitlines()[0])
