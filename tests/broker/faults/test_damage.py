"""Damage below the recovery point: that partition is not served, the others are; the log names the place."""

from __future__ import annotations

import logging
import os
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.metrics import collected
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.faults.batches import HEADER, batch
from tests.broker.faults.raw_client import LIST_OFFSETS, RawClient

CORRUPT_MESSAGE, STORAGE_ERROR = 2, 56
BATCH_BYTES = len(batch((b"k", b"value")))
NOON = time.time_ns() // 1_000_000 - 3_600_000


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
    assert f"ottla log repair {data_dir} --dry-run" in lines[0]


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


def test_a_torn_end_is_cut_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
        told = metrics(broker)
    assert told["ottla_recovery_cut_bytes"] == [
        ({"topic": "t", "partition": 0}, len(batch((b"k", b"torn"))) - 3)
    ]
    lines = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    size = len(batch((b"k", b"torn"))) - 3
    assert len(lines) == 1
    assert lines[0].startswith(
        f"t-0: {size} bytes were cut from byte {3 * BATCH_BYTES} of 00000000000000000000.log on"
    )
    assert lines[0].endswith("the log ends at offset 3 now")
    caplog.clear()
    with EmbeddedBroker(tmp_path):
        pass
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


def metrics(broker: EmbeddedBroker) -> dict[str, list[object]]:
    service = broker._running()
    faults = service.cluster.runtime.turn.faults
    found = broker._call(lambda: collected(service.cluster.store, [], faults))
    return {metric.name: list(metric.samples) for metric in found}


def test_foreign_bytes_behind_a_log_are_cut_before_anything_is_appended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a clean stop too, where logs are trusted: a produce behind them was acknowledged, then lost."""
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t")
        with RawClient(broker.port) as client:
            assert client.produce("t", batch((b"k", b"value"))).error_code == 0
    with (tmp_path / "t-0" / "00000000000000000000.log").open("ab") as segment:
        segment.write(b"fifty bytes of something that is no batch of ours")
    with EmbeddedBroker(tmp_path) as broker, RawClient(broker.port) as client:
        assert client.produce("t", batch((b"k", b"next"))).base_offset == 1
        assert [record.value for record in client.records("t")] == [b"value", b"next"]
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with EmbeddedBroker(tmp_path) as broker, RawClient(broker.port) as client:
        assert [record.value for record in client.records("t")] == [b"value", b"next"]
    lines = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert lines[0].startswith(
        f"t-0: 49 bytes were cut from byte {BATCH_BYTES} of 00000000000000000000.log on"
    )


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("what", ["cut", "empty", "file", "directory"])
def test_a_log_that_ends_below_its_recovery_point_is_refused(
    tmp_path: Path, is_clean: bool, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """To go on from its end would give offsets a second time, to other records."""
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t", 2)
        with RawClient(broker.port) as client:
            for _ in range(3):
                assert client.produce("t", batch((b"k", b"value"))).error_code == 0
    segment = tmp_path / "t-0" / "00000000000000000000.log"
    if what == "file":
        segment.unlink()
    elif what == "directory":
        shutil.rmtree(segment.parent)
    else:
        os.truncate(segment, BATCH_BYTES if what == "cut" else 0)
    if not is_clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    for _ in range(2):
        with EmbeddedBroker(tmp_path) as broker, RawClient(broker.port) as client:
            assert client.produce("t", batch((b"k", b"other"))).error_code == STORAGE_ERROR
            assert client.produce("t", batch((b"k", b"other")), 1).error_code == 0
            told = metrics(broker)
        assert (told["ottla_partitions_damaged"], told["ottla_partitions_offline"]) == ([({}, 1)], [({}, 1)])
        lines = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
        assert len(lines) == 1
        assert "t-0 is damaged and not served" in lines[0]
        assert f"ottla log repair {tmp_path} --dry-run" in lines[0]
        caplog.clear()


def test_damage_before_a_batch_does_not_pass_for_the_end_of_its_segment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A fetch behind it went on with the next segment, and the reader never knew of the records between."""
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t", config={"segment.bytes": str(8 * BATCH_BYTES)})
        with RawClient(broker.port) as client:
            for _ in range(20):
                assert client.produce("t", batch((b"k", b"value"))).error_code == 0
    segment = tmp_path / "t-0" / "00000000000000000000.log"
    content = bytearray(segment.read_bytes())
    content[2 * BATCH_BYTES + 9] ^= 0x55  # the size of a batch
    segment.write_bytes(content)
    for index in segment.parent.glob("*0.index"):
        index.write_bytes((7).to_bytes(4, "big") + (7 * BATCH_BYTES).to_bytes(4, "big"))
    with EmbeddedBroker(tmp_path) as broker, RawClient(broker.port) as client:
        assert client.fetch("t", 1).error_code == 0
        for offset in (3, 6):
            assert client.fetch("t", offset).error_code == CORRUPT_MESSAGE
        assert client.fetch("t", 7).error_code == 0
        assert client.fetch("t", 9).error_code == 0
        for _ in range(2):
            broker._thread().wait_for(broker._running().housekeeping.checkpoint())
        told = metrics(broker)
    assert told["ottla_segments_damaged"] == [({"topic": "t", "partition": 0}, 1)]
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert lines == [f"t-0 is damaged: {segment}, byte {2 * BATCH_BYTES}: no batch begins there"]


@pytest.mark.parametrize("start", [0, 3])
def test_damage_does_not_pass_for_the_end_of_what_is_young_enough(tmp_path: Path, start: int) -> None:
    """A look-up by time went on behind it, or told -1 for this partition and for those named after it."""
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t", 2, config={"segment.bytes": str(8 * BATCH_BYTES)})
        with RawClient(broker.port) as client:
            for partition in range(2):
                for number in range(20):
                    data = batch((b"k", b"value"), timestamp=NOON + number)
                    assert client.produce("t", data, partition).base_offset == number
    segment = tmp_path / "t-0" / "00000000000000000000.log"
    content = bytearray(segment.read_bytes())
    content[2 * BATCH_BYTES + 9] ^= 0x55  # the size of a batch
    segment.write_bytes(content)
    segment.with_suffix(".index").write_bytes(struct.pack(">ii", 7, 7 * BATCH_BYTES))
    with EmbeddedBroker(tmp_path) as broker, RawClient(broker.port) as client:
        log = broker._running().cluster.store.partition("t", 0).log
        assert log is not None
        broker._call(lambda: log.delete_records(start))
        asked = [ListOffsetsPartition(partition_index=index, timestamp=NOON + 5) for index in range(2)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])
        found = client.call(request, LIST_OFFSETS).topics[0].partitions
        assert [(answer.error_code, answer.offset) for answer in found] == [(CORRUPT_MESSAGE, -1), (0, 5)]
