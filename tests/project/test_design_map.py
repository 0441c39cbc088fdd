"""The map in docs/DESIGN.md leads to functions that exist, and answers the questions of a first reader."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (.+) \| `([\w/]+\.py)` \| `([\w.]+)` \|$", re.M)

# The words that a reader looks for in the map → the function where the behaviour is decided.
QUESTIONS = {
    "produce refused size": "log/validation.py checked",
    "classic member decides rebalance": "consumer/classic/rebalancer.py Rebalancer.group_changed",
    "coordinated member rebalance in progress": "consumer/coordinated/member.py GroupConsumerMember._refused",
    "checksum fetched batch verified": "kernels/entry_scan.py scan_entries",
    "offsets group stored ZooKeeper": "offsets/zookeeper_offsets.py ZooKeeperOffsets.commit",
    "old segments deleted": "log/retention.py expired_count",
    "Spark micro-batch offsets": "spark/stream_planner.py StreamPlanner.latest_offset",
    "Spark micro-batch limited": "spark/admission.py limited",
    "retry keeps order": "producer/partition_queue.py PartitionQueue._may_send",
    "unknown nearest name": "model/did_you_mean.py hint",
    "reader slow fetching stops": "fetching/chunk_queue.py ChunkQueue.room",
    "log repaired start kill": "log/recovery.py load_segments",
    "mirror commits target acknowledged": "mirror/stream.py MirrorStream.checkpoint",
    "fetch refused unknown epoch": "broker/storage/partition.py Partition.led_log",
    "OffsetFetch": "broker/groups/coordinator/offsets.py fetched",
    "auto.offset.reset": "fetching/cursor.py lookup_time",
    "max.poll.interval.ms": "consumer/coordinated/group_member.py CoordinatedMember._leave_if_too_slow",
    "max.connections": "broker/serving/traffic.py Traffic.admit",
    "producer id fenced": "broker/transactions/coordinator/producers.py ProducerRequests._start",
    "offset time looked up": "log/time_lookup.py offset_for_timestamp",
    "compressed too large": "records/compression.py Arena.append",
    "request refused too many elements": "wire/primitives.py DecodeBudget.take",
    "producers restart": "broker/producer_state/producer_restart.py load",
    "committed offsets expire": "broker/groups/coordinator/expiry.py expired_records",
    "topic deleted": "broker/storage/topic_changes.py TopicChanges.deletion",
}


def section_of_the_map() -> str:
    text = (ROOT / "docs" / "DESIGN.md").read_text()
    return text.split("## The map")[1].split("\n## ")[0]


def names_in(path: Path) -> set[str]:
    """Functions and classes of a module, and methods as Class.method."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return names


def test_every_row_of_the_map_exists() -> None:
    section = section_of_the_map()
    rows = ROW.findall(section)
    assert len(rows) == section.count("\n| ") - 1 >= 20
    missing = []
    for _, file, name in rows:
        path = ROOT / "src" / "ottla" / file
        if not path.exists() or name not in names_in(path):
            missing.append(f"{file}: {name}")
    assert missing == []


@pytest.mark.parametrize("words", QUESTIONS)
def test_a_first_reader_is_led_to_the_function(words: str) -> None:
    """The first row that has all the words of the question is the right one."""
    rows = ROW.findall(section_of_the_map())
    matches = [
        f"{file} {name}"
        for behaviour, file, name in rows
        if all(word.lower() in behaviour.lower() for word in words.split())
    ]
    assert matches[:1] == [QUESTIONS[words]]
