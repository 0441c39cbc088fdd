"""kafka-groups beside Kafka's own."""

from __future__ import annotations

import pytest

from ottla.admin import Admin, TopicAndPartition
from tests.cli.kafka.conftest import Era, created, ours

TOOL = "org.apache.kafka.tools.GroupsCommand"
TOPIC = "listed-groups"


@pytest.fixture(scope="module")
def groups(new: Era) -> None:
    """One whose name is longer than a column."""
    created(new, TOPIC)
    with Admin(bootstrap_servers=new.kafka.bootstrap) as admin:
        for name in ("listed", "listed-with-a-name-of-many-letters"):
            admin.alter_group_offsets(name, {TopicAndPartition(TOPIC, 0): 0})


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("line", ["", "--consumer", "--share", "--group-type classic", "--protocol nothing"])
def test_the_tool_prints_what_kafkas_prints(new: Era, line: str) -> None:
    at = ("--bootstrap-server", new.kafka.bootstrap, "--list")
    theirs, found = new.tool(TOOL, *at, *line.split()), ours("kafka-groups", *at, *line.split())
    assert (found.code, sorted(found.printed.splitlines())) == (0, sorted(theirs.printed.splitlines()))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "Command must include exactly one action: --list."),
        ("--list --share --consumer", 'Option "[consumer]" can\'t be used with option "[share]"'),
        ("--list --group-type nonsense", "--group-type must be a valid group type."),
    ],
)
def test_what_makes_no_sense_is_refused_with_kafkas_words(new: Era, line: str, complaint: str) -> None:
    found = ours("kafka-groups", "--bootstrap-server", new.kafka.bootstrap, *line.split())
    assert found.code == 1
    assert complaint in found.complaints
