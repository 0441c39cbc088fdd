"""kafka-share-groups beside Kafka's own, on Kafka 4 and on our broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla import EmbeddedBroker, ShareConsumer
from tests.broker.real_clients import send
from tests.broker.share_groups.share_member import configure_group
from tests.cli.kafka.conftest import Era, ours
from tests.compatibility.clients.tool_process import Run
from tests.waiting import wait_for

TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
TOPIC = "shared-by-a-tool"
LIVE, IDLE = "tool-live", "tool-idle-with-a-name-of-many-letters"


@pytest.fixture(scope="module")
def kafka(new: Era) -> Iterator[str]:
    """Kafka with a share group that has a member and one that has none."""
    yield from _prepared(new, new.kafka.bootstrap)


@pytest.fixture(scope="module")
def embedded(new: Era) -> Iterator[str]:
    """The same in our broker."""
    with EmbeddedBroker() as broker:
        yield from _prepared(new, broker.bootstrap)


@pytest.fixture(params=["kafka", "embedded"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


def _prepared(era: Era, bootstrap: str) -> Iterator[str]:
    topics = "org.apache.kafka.tools.TopicCommand"
    era.tool(topics, "--bootstrap-server", bootstrap, "--create", "--topic", TOPIC, "--partitions", "2")
    send(bootstrap, TOPIC, [b"%d" % number for number in range(10)])
    for group in (LIVE, IDLE):
        configure_group(bootstrap, group)
    _read_all(bootstrap, IDLE)
    with ShareConsumer(TOPIC, group_id=LIVE, bootstrap_servers=bootstrap, client_id="cook") as member:
        wait_for(lambda: member.poll(0.1) is None and len(member.assignment) == 2, "the member has all")
        yield bootstrap


def _read_all(bootstrap: str, group: str) -> None:
    with ShareConsumer(TOPIC, group_id=group, bootstrap_servers=bootstrap) as member:
        read = 0
        while read < 10:
            chunk = member.poll(1)
            read += 0 if chunk is None else chunk.batch.num_rows


def both(era: Era, bootstrap: str, line: str) -> tuple[Run, Run]:
    """What Kafka's tool prints, and ours."""
    words = ["--bootstrap-server", bootstrap, *line.split()]
    return era.tool(TOOL, *words), ours("kafka-share-groups", *words)


@pytest.mark.parametrize(
    "line",
    [
        "--list",
        "--list --state",
        "--list --state Empty",
        f"--describe --group {IDLE}",
        f"--describe --group {LIVE} --verbose",
        f"--describe --group {LIVE} --members",
        f"--describe --group {LIVE} --members --verbose",
        f"--describe --group {IDLE} --members",
        "--describe --all-groups --state",
        f"--describe --group {LIVE} --state --verbose",
        f"--reset-offsets --group {IDLE} --topic {TOPIC}:0 --to-earliest --dry-run",
        f"--reset-offsets --group {IDLE} --all-topics --to-latest --execute",
        f"--reset-offsets --group {IDLE} --all-topics --to-datetime 2020-01-01T00:00:00.000 --execute",
        f"--delete --group {LIVE} --group nobody",
        f"--delete-offsets --group {IDLE} --topic nothing",
    ],
)
def test_the_tool_prints_what_kafkas_prints(new: Era, bootstrap: str, line: str) -> None:
    theirs, found = both(new, bootstrap, line)
    assert (found.code, found.printed) == (theirs.code, theirs.printed)
    assert found.complaints.strip() == theirs.complaints.strip()


@pytest.mark.parametrize(
    "line",
    [
        "--delete-offsets --group nobody --topic nothing",
        "--describe --group nobody",
        f"--reset-offsets --group {LIVE} --topic {TOPIC} --to-latest --dry-run",
        f"--reset-offsets --group tool-new --topic {TOPIC} --to-latest --execute",
        f"--reset-offsets --group {IDLE} --topic nothing --to-latest --execute",
        f"--reset-offsets --group {IDLE} --topic {TOPIC} --to-datetime 2020 --execute",
        f"--delete-offsets --group {LIVE} --topic {TOPIC}",
    ],
)
def test_groups_and_topics_that_are_missing_or_in_use(new: Era, line: str, kafka: str) -> None:
    theirs, found = both(new, kafka, line)
    assert found.printed == theirs.printed or "is not empty" in found.complaints
    assert found.complaints.splitlines()[:1] in ([], theirs.complaints.strip().splitlines()[:1])


def test_offsets_and_groups_are_deleted(new: Era, bootstrap: str) -> None:
    """Each tool in turn, since what one has deleted the other cannot."""
    where = ["--bootstrap-server", bootstrap]
    printed: list[list[str]] = []
    for run in (
        lambda *words: new.tool(TOOL, *where, *words),
        lambda *words: ours("kafka-share-groups", *where, *words),
    ):
        made = run("--reset-offsets", "--group", "made", "--topic", TOPIC, "--to-latest", "--execute")
        forgotten = [run("--delete-offsets", "--group", "made", "--topic", TOPIC) for _ in range(2)]
        described = run("--describe", "--group", "made")
        deleted = run("--delete", "--group", "made")
        printed.append([one.printed for one in (made, *forgotten, described, deleted)])
    assert printed[0] == printed[1]
    assert "no offset information to delete" in printed[1][2]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--list --describe --all-groups",
        "--describe",
        "--describe --all-groups --members --state",
        "--describe --all-groups --state Empty",
        "--list --state Stale",
        "--list --group g",
        "--delete",
        "--delete --group g --all-groups",
        "--delete --group g --topic t",
        "--delete-offsets --group g",
        "--reset-offsets --group g",
        "--reset-offsets --execute",
        "--reset-offsets --group g --dry-run --execute",
        "--reset-offsets --group g --dry-run --to-latest",
        f"--reset-offsets --group g --dry-run --topic {TOPIC} --to-latest --to-earliest",
        f"--reset-offsets --group g --dry-run --topic {TOPIC}",
    ],
)
def test_what_makes_no_sense_is_refused_with_kafkas_words(new: Era, line: str) -> None:
    theirs, found = both(new, new.kafka.bootstrap, line)
    assert found.code == theirs.code == 1
    # Kafka prints lists of flags in an order that changes from run to run.
    ((first, *_), (wanted, *_)) = found.complaints.splitlines(), theirs.complaints.splitlines()
    assert sorted(first.replace(",", "").split()) == sorted(wanted.replace(",", "").split())
