"""The records of consumer groups against bytes that Kafka's own classes wrote.

tests/golden/consumer_group_records.jsonl was made with the generated classes of kafka-group-coordinator
4.3.1, behind the number of a key's kind or the version of a value; `metadata` and `topic_id` are hexadecimal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.coordination.effects import Record
from ottla.broker.groups.coordinator.consumer_groups import records
from ottla.model.errors import RemoteProtocolError

GOLDEN = Path(__file__).parents[4] / "golden" / "consumer_group_records.jsonl"
ROWS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
KEYS = [row for row in ROWS if row["kind"].endswith("Key")]
VALUES = [row for row in ROWS if row["kind"].endswith("Value")]
KIND_OF = {kind.__name__: number for number, kind in records._VALUE_TYPES.items()}


def built(kind: str, values: dict[str, Any]) -> Any:
    """Return the declared object with the row's values."""
    inner = {
        "classic_member": "ClassicMemberValue",
        "protocols": "ClassicProtocolValue",
        "topic_partitions": "TargetPartitions",
        "assigned_partitions": "CurrentPartitions",
        "partitions_pending_revocation": "CurrentPartitions",
    }
    made: dict[str, Any] = {}
    for name, value in values.items():
        if name in ("topic_id", "metadata"):
            made[name] = bytes.fromhex(value)
        elif name in inner and isinstance(value, list):
            made[name] = [built(inner[name], item) for item in value]
        elif name in inner and value is not None:
            made[name] = built(inner[name], value)
        else:
            made[name] = value
    return getattr(records, kind)(**made)


@pytest.mark.parametrize("row", KEYS, ids=lambda row: f"{row['prefix']} {row['values']['group']}")
def test_keys(row: dict[str, Any]) -> None:
    group, part = row["values"]["group"], row["values"].get("part", "")
    record = records.record(row["prefix"], group, part, None)
    assert record == Record(bytes.fromhex(row["bytes"]), None)
    assert records.read(record) == (row["prefix"], group, part, None)


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row["kind"])
def test_values(row: dict[str, Any]) -> None:
    stored = built(row["kind"], row["values"])
    kind = KIND_OF[row["kind"]]
    record = records.record(kind, "g", "p", stored)
    assert record.value == bytes.fromhex(row["bytes"])
    found = records.read(record)
    assert found is not None
    assert found[3] == stored


def test_every_kind_is_in_the_golden_file() -> None:
    assert {row["prefix"] for row in KEYS} == records.KINDS
    assert {row["kind"] for row in VALUES} == set(KIND_OF)


def test_every_cut_of_a_value_is_refused_with_the_protocols_own_error() -> None:
    for row in VALUES:
        record = records.record(KIND_OF[row["kind"]], "g", "p", built(row["kind"], row["values"]))
        assert record.value is not None
        for size in range(len(record.value)):
            with pytest.raises(RemoteProtocolError):
                records.read(Record(record.key, record.value[:size]))


def test_other_records_are_left_to_others() -> None:
    assert records.read(Record(b"\0\1\0\1g\0\1t\0\0\0\0", None)) is None
    assert records.read(Record(b"\0\x0b\0\1g", None)) is None  # a share group
    with pytest.raises(RemoteProtocolError, match="2 assignment epochs of 1 partitions"):
        records.epochs_of(
            [records.CurrentPartitions(topic_id=bytes(16), partitions=[1], assignment_epochs=[1, 2])], 3
        )
