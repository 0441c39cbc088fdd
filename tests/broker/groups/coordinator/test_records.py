"""The records of `__consumer_offsets` against bytes that Kafka's own classes wrote.

tests/golden/group_records.jsonl was made with `MessageUtil.toVersionPrefixedByteBuffer` of the generated
classes in kafka-group-coordinator 3.9.1 and 4.1.1; `bytes` values are hexadecimal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.coordination.effects import Record
from ottla.broker.coordination.led_partitions import partition_for
from ottla.broker.groups.coordinator.records import (
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
    read,
    read_key,
)
from ottla.model.errors import RemoteProtocolError

GOLDEN = Path(__file__).parents[3] / "golden" / "group_records.jsonl"
ROWS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
OFFSET_KEY = offset_tombstone(OffsetKey(group="g", topic="t", partition=3)).key
GROUP_KEY = group_tombstone("g").key


def rows(kind: str, *versions: int) -> list[tuple[int, bytes, Any]]:
    found = [row for row in ROWS if row["kind"] == kind and (not versions or row["version"] in versions)]
    return [(row["version"], bytes.fromhex(row["bytes"]), row["values"]) for row in found]


def group_value(values: dict[str, Any]) -> GroupValue:
    members = [
        MemberValue(
            subscription=bytes.fromhex(member.pop("subscription")),
            assignment=bytes.fromhex(member.pop("assignment")),
            **member,
        )
        for member in values.pop("members")
    ]
    return GroupValue(members=members, **values)


def test_the_golden_file_has_every_version() -> None:
    covered = {(row["kind"], row["version"]) for row in ROWS}
    values = {(kind, version) for kind in ("OffsetValue", "GroupValue") for version in range(5)}
    assert covered == values | {("OffsetKey", 0), ("OffsetKey", 1), ("GroupKey", 2)}


def test_keys_are_read_in_all_versions_and_written_as_kafka_does() -> None:
    for version, data, values in rows("OffsetKey"):
        key = OffsetKey(**values)
        assert read_key(data) == key
        assert version == 0 or offset_tombstone(key) == Record(data, None)
    for _, data, values in rows("GroupKey"):
        assert read_key(data) == GroupKey(**values)
        assert group_tombstone(values["group"]) == Record(data, None)


def test_offsets_are_read_in_all_versions() -> None:
    for _, data, values in rows("OffsetValue"):
        assert read(Record(OFFSET_KEY, data)) == (read_key(OFFSET_KEY), OffsetValue(**values))


def test_offsets_are_written_as_v3_and_with_own_retention_as_v1() -> None:
    key = OffsetKey(group="g", topic="t", partition=3)
    for _, data, values in rows("OffsetValue", 3):
        assert offset_record(key, OffsetValue(**values)).value == data
    with_expiry = [row for row in rows("OffsetValue", 1) if row[2]["expire_timestamp"] != -1]
    assert with_expiry
    for _, data, values in with_expiry:
        assert offset_record(key, OffsetValue(leader_epoch=5, **values)).value == data


def test_groups_are_read_in_all_versions_and_written_as_v3() -> None:
    for version, data, values in rows("GroupValue"):
        stored = group_value(values)
        assert read(Record(GROUP_KEY, data)) == (GroupKey(group="g"), stored)
        assert version != 3 or group_record("g", stored) == Record(GROUP_KEY, data)


def test_tombstones_and_unknown_keys() -> None:
    assert read(Record(OFFSET_KEY, None)) == (read_key(OFFSET_KEY), None)
    assert read(Record(GROUP_KEY, None)) == (GroupKey(group="g"), None)
    assert read(Record(b"\0\3\0\1g", b"\0\0\0\0\0\1")) is None
    assert read(Record(b"\x7f\xff", None)) is None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (Record(b"", None), "key in __consumer_offsets: 0 bytes hold no version"),
        (Record(OFFSET_KEY[:-1], None), "OffsetKey v1"),
        (Record(OFFSET_KEY, b"\0\5"), "OffsetValue v5 in __consumer_offsets: known are 0 to 4"),
        (Record(OFFSET_KEY, b"\xff\xff"), "OffsetValue v-1"),
        (Record(GROUP_KEY, b"\0\3\0"), "GroupValue v3"),
    ],
)
def test_damaged_records_are_refused(record: Record, message: str) -> None:
    with pytest.raises(RemoteProtocolError, match=message):
        read(record)


def test_every_cut_of_a_value_is_refused_with_the_protocols_own_error() -> None:
    for kind, key in (("OffsetValue", OFFSET_KEY), ("GroupValue", GROUP_KEY)):
        for _, data, _ in rows(kind):
            for size in range(len(data)):
                with pytest.raises(RemoteProtocolError):
                    read(Record(key, data[:size]))


def test_the_partition_of_a_group_is_kafkas() -> None:
    # "polygenelubricants".hashCode() is Integer.MIN_VALUE, whose absolute value is not a number above 0.
    assert partition_for("polygenelubricants") == 0
    assert partition_for("") == 0
    assert partition_for("console-consumer-1") == abs(sum_hash("console-consumer-1")) % 50
    assert partition_for("g", 7) == ord("g") % 7


def sum_hash(text: str) -> int:
    total = sum(ord(one) * 31 ** (len(text) - 1 - at) for at, one in enumerate(text)) & 0xFFFFFFFF
    return total - 2**32 if total >= 2**31 else total
