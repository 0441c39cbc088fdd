"""docs/from-the-notes.md: every name on it exists, every line of it works."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

from ottla.cli.kafka.run_class import CLASSES
from ottla.cli.kafka.zookeeper_shell import execute
from ottla.cli.main import COMMANDS
from ottla.consumer.classic.assignors import AssignmentInput, assign_ranges
from ottla.consumer.classic.classic_config import CLASSIC_PROPERTIES
from ottla.consumer.classic.identity import thread_ids
from ottla.log.log_config import LogConfig
from ottla.producer.producer_config import PRODUCER_PROPERTIES
from ottla.zookeeper import broker_znodes, consumer_znodes, paths, topic_znodes
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "from-the-notes.md").read_text()
CODE = re.compile(r"`([^`]+)`")
NAMES = """
KafkaStream MessageAndMetadata FetchedDataChunk ConsumerThreadId StaticTopicCount WildcardTopicCount
PartitionTopicInfo BrokerAndInitialOffset LeaderFinderThread ConsumerFetcherManager ConsumerFetcherThread
ConsumerIterator ByteBufferMessageSet ZKSessionExpireListener ZKTopicPartitionChangeListener
ZKRebalancerListener registerConsumerInZK reflectPartitionOwnershipDecision brokerConsumer MaxProcessingTime
"""
"""Names of the notes that were on no page before."""


def _rows() -> Iterator[list[str]]:
    for line in PAGE.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


NAMED = [
    (CODE.findall(row[1])[0], CODE.findall(row[2])[0])
    for row in _rows()
    if len(row) >= 3 and row[2].startswith("`ottla.") and row[1].startswith("`")
]
ZNODES = [row for row in _rows() if len(row) == 5 and row[1].startswith("`paths.")]
SETTINGS = [row for row in _rows() if len(row) == 3 and row[2] in {"ConsumerConnector", "Producer", "topic"}]
LINES = [row for row in _rows() if len(row) == 2 and row[0].startswith("`kafka-")]


def _resolve(name: str, module: str) -> object:
    found: object = import_module(module)
    for part in name.split("."):
        owner = found
        if is_dataclass(owner) and part in {field.name for field in fields(owner)}:
            return part
        if not hasattr(owner, part) and isinstance(owner, type):
            source = Path(str(import_module(module).__file__)).read_text()
            assert f"self.{part}" in source, f"{owner} has no {part}"
            return part
        found = getattr(owner, part)
    return found


@pytest.mark.parametrize(("name", "module"), NAMED, ids=lambda text: text)
def test_a_name_is_where_the_page_says(name: str, module: str) -> None:
    assert _resolve(name, module) is not None


def test_no_name_of_the_notes_is_forgotten() -> None:
    assert len(NAMED) > 100
    for name in [*NAMES.split(), "commit log"]:
        assert name in PAGE, name


NODES = {
    paths.consumer("billing", "billing_a"): b'{"version":1,"subscription":{"orders":1},"pattern":"static"}',
    paths.owner("billing", "orders", 0): b"billing_a-0",
    paths.offset("billing", "orders", 0): b"17",
    paths.broker(0): b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}',
    paths.topic("orders"): b'{"partitions":{"0":[0]}}',
    paths.partition_state(
        "orders", 0
    ): b'{"version":1,"leader":0,"leader_epoch":0,"controller_epoch":1,"isr":[]}',
}


@pytest.fixture
def session() -> Iterator[MemorySession]:
    with MemoryZooKeeper().session() as memory:
        for path, data in NODES.items():
            memory.create_with_parents(path, data)
        yield memory


@pytest.mark.parametrize("row", ZNODES, ids=lambda row: row[0])
def test_a_node_is_shown_by_its_line(
    row: list[str], session: MemorySession, capsys: pytest.CaptureFixture[str]
) -> None:
    path = eval(CODE.findall(row[1])[0], {"paths": paths})
    words = shlex.split(CODE.findall(row[4])[0])
    assert (words[0], words[3]) == ("zookeeper-shell", path)
    assert execute(session, words[2:]) == 0
    printed = capsys.readouterr().out
    assert printed.strip()
    for name in CODE.findall(row[2]):
        (module,) = (each for each in (consumer_znodes, broker_znodes, topic_znodes) if hasattr(each, name))
        assert getattr(module, name)(path, session.get(path).data) is not None


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row[1])
def test_a_setting_exists(row: list[str]) -> None:
    (name,) = CODE.findall(row[1])
    tables = {"ConsumerConnector": CLASSIC_PROPERTIES, "Producer": PRODUCER_PROPERTIES}
    if row[2] == "topic":
        assert hasattr(LogConfig(), name.replace(".", "_"))
        return
    assert name in {each for setting in tables[row[2]] for each in (setting.name, *setting.synonyms)}


@pytest.mark.parametrize("row", LINES, ids=lambda row: row[0][:60])
def test_a_tool_exists(row: list[str]) -> None:
    """What the lines print is in tests/cli/kafka/test_seed_lines.py."""
    words = shlex.split(CODE.findall(row[0])[0])
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert words[0] in scripts
    assert words[0].removesuffix(".sh") in COMMANDS
    if words[0] == "kafka-run-class.sh":
        assert words[1].rpartition(".")[2] in CLASSES
    assert CODE.findall(row[1])[0].removeprefix("ottla ") in COMMANDS


def test_ten_over_four() -> None:
    streams = thread_ids("g_a", 4)
    shares = assign_ranges(AssignmentInput({"t": streams}, {"t": range(10)}))
    assert [list(shares.values()).count(stream) for stream in streams] == [3, 3, 2, 2]
