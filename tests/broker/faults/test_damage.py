"""Damage in the middle of a log: that partition is not served, the others are; the log names the place."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.faults.batches import HEADER, batch
from tests.broker.faults.raw_client import LIST_OFFSETS, RawClient

STORAGE_ERROR = 56
BATCH_BYTES = len(batch((b"k", b"value")))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Three partitions of ten batches; in the second, batch 4 is damaged after an unclean stop."""
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t", 3)
        with RawClient(broker.port) as client:
            for partition in range(3):
                for number in range(10):
                    assert client.produce("t", batch((b"k", b"value")), partition).base_offset == number
    (tmp_path / ".kafka_cleanshutdown").unlink()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).unlink()
    segment = tmp_path / "t-1" / "00000000000000000000.log"
    content = bytearray(segment.read_bytes())
    content[4 * BATCH_BYTES + HEADER.size + 5] ^= 0xFF
    segment.write_bytes(content)
    return tmp_path


@pytest.fixture
def broker(data_dir: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(data_dir) as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


def test_the_damaged_partition_answers_a_storage_error(client: RawClient) -> None:
    assert client.fetch("t", 0, 1).error_code == STORAGE_ERROR
    assert client.produce("t", batch((b"k", b"v")), 1).error_code == STORAGE_ERROR
    asked = ListOffsetsPartition(partition_index=1, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    assert client.call(request, LIST_OFFSETS).topics[0].partitions[0].error_code == STORAGE_ERROR


def test_the_others_are_served(client: RawClient) -> None:
    assert client.topics() == {"t": 3}
    for partition in (0, 2):
        assert len(client.records("t", partition)) == 10
        assert client.produce("t", batch((b"k", b"v")), partition).base_offset == 10


def test_the_log_names_the_file_and_the_place(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(data_dir):
        pass
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert len(lines) == 1
    assert "t-1" in lines[0]
    assert "00000000000000000000.log" in lines[0]
    assert str(4 * BATCH_BYTES) in lines[0].replace(",", "")


def test_nothing_is_thrown_away(data_dir: Path) -> None:
    """Until a person decides: the bytes stay, and each start finds the damage again."""
    segment = data_dir / "t-1" / "00000000000000000000.log"
    content = segment.read_bytes()
    for _ in range(2):
        with EmbeddedBroker(data_dir) as broker, RawClient(broker.port) as client:
            assert client.fetch("t", 0, 1).error_code == STORAGE_ERROR
            assert client.fetch("t", 0, 0).error_code == 0
    assert segment.read_bytes() == content


def test_a_topic_with_a_damaged_partition_can_be_deleted_and_stays_deleted(
    data_dir: Path, broker: EmbeddedBroker, client: RawClient
) -> None:
    assert client.delete("t") == 0
    assert client.topics() == {}
    broker.stop()
    with EmbeddedBroker(data_dir) as again, RawClient(again.port) as other:
        assert other.topics() == {}
        assert other.create("t", 3) == 0
        assert other.produce("t", batch((b"k", b"v")), 1).base_offset == 0


def test_a_torn_end_is_cut_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t")
        with RawClient(broker.port) as client:
            for _ in range(3):
                assert client.produce("t", batch((b"k", b"value"))).error_code == 0
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with (tmp_path / "t-0" / "00000000000000000000.log").open("ab") as segment:
        segment.write(bytes(batch((b"k", b"torn")))[:-3])
    with EmbeddedBroker(tmp_path) as broker, RawClient(broker.port) as client:
        assert [record.value for record in client.records("t")] == [b"value"] * 3
        assert client.produce("t", batch((b"k", b"next"))).base_offset == 3
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
