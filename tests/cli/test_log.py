"""`ottla log`: what programs and people read of it, and its exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import confluent_kafka
import pytest

from ottla import EmbeddedBroker
from ottla.broker.storage.record_batches import batches_of
from tests.broker.faults.batches import batch
from tests.broker.faults.raw_client import RawClient
from tests.cli.kafka.conftest import ours
from tests.waiting import PATIENCE_S

BATCH_BYTES = len(batch((b"k", b"value")))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Ten batches of one record in a partition, after a clean stop."""
    root = tmp_path / "data"
    with EmbeddedBroker(root) as broker:
        broker.create_topic("t")
        with RawClient(broker.port) as client:
            for _ in range(10):
                assert client.produce("t", batch((b"k", b"value"))).error_code == 0
    return root


def log_of(root: Path) -> Path:
    return root / "t-0" / "00000000000000000000.log"


def damage(root: Path) -> bytes:
    """Break the fourth batch, and cut off the last two; returns the broken one."""
    content = bytearray(log_of(root).read_bytes()[: 8 * BATCH_BYTES])
    content[3 * BATCH_BYTES + 70] ^= 1
    log_of(root).write_bytes(content)
    return bytes(content[3 * BATCH_BYTES : 4 * BATCH_BYTES])


def test_a_sound_directory(data: Path) -> None:
    result = ours("log", "check", str(data))
    assert (result.code, result.complaints) == (0, "")
    assert result.printed.endswith(" bytes: nothing is damaged\n")
    assert json.loads(ours("log", "check", str(data), "--format", "json").printed) == {"ok": True, "rows": []}


def test_a_check_finds_everything_changes_nothing_and_ends_with_1(data: Path) -> None:
    damage(data)
    (data / "cleaner-offset-checkpoint").write_bytes(b"\xff\xfe")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    for words in (["check"], ["repair"], ["repair", "--dry-run"], ["repair", "--execute", "--dry-run"]):
        result = ours("log", *words, str(data), "--format", "json")
        assert result.code == 1
        found = json.loads(result.printed)
        assert not found["ok"]
        assert [(row["file"], row["kind"], row["lost_offsets"], row["done"]) for row in found["rows"]] == [
            ("cleaner-offset-checkpoint", "checkpoint", 0, False),
            ("t-0/00000000000000000000.log", "log", 0, False),
            ("t-0", "log", 1, False),
            ("t-0", "log", 2, False),
        ]
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
    text = ours("log", "repair", str(data)).printed
    assert f"t-0/00000000000000000000.log: {BATCH_BYTES} bytes from byte {3 * BATCH_BYTES} on: " in text
    assert "t-0: offsets 3 to 3 are missing\n" in text
    assert "t-0: it ends at offset 8, and was flushed up to 10: it is not served\n" in text
    assert text.endswith("4 damaged; nothing was changed: add --execute\n")


def test_a_repair_keeps_what_is_sound_and_copies_what_it_cuts(data: Path) -> None:
    broken = damage(data)
    result = ours("log", "repair", str(data), "--execute", "--format", "json")
    assert (result.code, result.complaints) == (0, "")
    rows = json.loads(result.printed)["rows"]
    assert [row["done"] for row in rows] == [True, True, True]
    copy = Path(f"{data}.repair/1/t-0/00000000000000000000.log@{3 * BATCH_BYTES}-{4 * BATCH_BYTES}")
    assert rows[0]["copies"] == str(copy)
    assert copy.read_bytes() == broken
    assert ours("log", "check", str(data)).code == 0
    with EmbeddedBroker(data) as broker, RawClient(broker.port) as client:
        assert client.produce("t", batch((b"k", b"next"))).base_offset == 10
        fetched = bytes(client.fetch("t", 0).records or b"")
        offsets = [record.offset for _, records in batches_of(fetched) for record in records]
        assert offsets == [0, 1, 2, 4, 5, 6, 7]
        rest = bytes(client.fetch("t", 8).records or b"")
        assert [record.offset for _, records in batches_of(rest) for record in records] == [10]


def test_copies_go_where_they_are_wanted(data: Path, tmp_path: Path) -> None:
    (data / "ottla.json").write_text("{")
    assert ours("log", "repair", str(data), "--execute", "--copy-to", str(tmp_path / "here")).code == 0
    assert (tmp_path / "here" / "ottla.json").read_text() == "{"
    with EmbeddedBroker(data) as broker, RawClient(broker.port) as client:
        assert len(client.records("t")) == 10


def test_what_cannot_be_looked_at_is_one_line_and_1(data: Path, tmp_path: Path) -> None:
    with EmbeddedBroker(data):
        result = ours("log", "check", str(data))
    assert result.code == 1
    assert result.complaints.startswith(f"ottla: {data} is in use by another broker")
    assert result.complaints.count("\n") == 1
    for name in ("nowhere", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        result = ours("log", "repair", str(tmp_path / name), "--execute")
        assert (result.code, result.complaints.count("\n")) == (1, 1)
        assert os.listdir(tmp_path / "empty") == []


def test_librdkafka_reads_a_repaired_partition_to_its_end(data: Path) -> None:
    """Over the gap of a batch that was cut, and over the empty batch in the place of a lost end."""
    damage(data)
    assert ours("log", "repair", str(data), "--execute").code == 0
    with EmbeddedBroker(data) as broker:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.partition.eof": True}
        )
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        offsets: list[int] = []
        try:
            while True:
                message = consumer.poll(PATIENCE_S)
                assert message is not None
                error = message.error()
                if error is not None:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                    break
                offsets.append(message.offset() or 0)
            assert offsets == [0, 1, 2, 4, 5, 6, 7]
            assert message.offset() == 10
        finally:
            consumer.close()


def test_what_could_not_be_repaired_is_not_counted_as_repaired(data: Path, tmp_path: Path) -> None:
    damage(data)
    (data / "cleaner-offset-checkpoint").write_bytes(b"\xff\xfe")
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "t-0").write_text("a file where a directory is wanted")
    result = ours("log", "repair", str(data), "--execute", "--copy-to", str(tmp_path / "copies"))
    assert result.code == 1
    assert result.printed.endswith("bytes: 3 repaired, 1 not\n")
