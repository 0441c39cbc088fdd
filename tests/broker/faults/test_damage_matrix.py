"""Every kind of file, of damage and of stop: it ends as fine, as repaired and told, or as refused in a line.

The directory is opened as a broker opens it. Nothing may be lost in silence, no offset given twice, and
`ottla log repair` must lead to a directory that opens, with every record that was not damaged.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.settings.broker_config import BrokerConfig
from ottla.broker.storage.data_check import check, repair
from ottla.broker.storage.topic_store import TopicStore
from ottla.log.file_system import FileSystem
from ottla.log.partition_log import PartitionLog
from ottla.log.segment_list import damage_in
from ottla.log.validation import checked
from ottla.model.errors import CorruptRecord, KafkaError, StorageError
from ottla.records.messages import MessageSet
from tests.broker.faults.batches import batch
from tests.broker.faults.raw_client import RawClient

START, FLUSHED, END = 3, 40, 60
SETTINGS = {"offsets.topic.num.partitions": "1", "log.flush.offset.checkpoint.interval.ms": "3600000"}
STOPS = ("clean", "kill")
COLUMNS = ("offset", "value")


def make(path: Path, stop: str) -> None:
    """A directory with segments, snapshots and a moved start; the last records came after a checkpoint."""
    source = path if stop == "clean" else path.with_name("running")
    with EmbeddedBroker(source, properties=SETTINGS) as broker:
        broker.create_topic("t", 2, config={"segment.bytes": "1000", "index.interval.bytes": "100"})
        with RawClient(broker.port) as client:
            for number in range(END):
                if number == FLUSHED:
                    service = broker._running()
                    log = service.cluster.store.partition("t", 0).log
                    assert log is not None
                    broker._call(partial(log.delete_records, START))
                    broker._thread().wait_for(service.housekeeping.checkpoint())
                data = batch((b"k", b"value %d" % number), producer_id=7, producer_epoch=0, sequence=number)
                assert client.produce("t", data).base_offset == number
        if stop == "kill":
            shutil.copytree(source, path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("sound")
    for stop in STOPS:
        (root / stop).mkdir()
        make(root / stop / "data", stop)
    return {stop: root / stop / "data" for stop in STOPS}


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk: no power is cut here."""
    monkeypatch.setattr(FileSystem, "sync", lambda *_: None)
    monkeypatch.setattr(FileSystem, "sync_directory", lambda *_: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)


def segments(root: Path) -> list[Path]:
    return sorted((root / "t-0").glob("*.log"))


KINDS: dict[str, Callable[[Path], Path]] = {
    "first log": lambda root: segments(root)[0],
    "flushed log": lambda root: segments(root)[2],
    "unflushed log": lambda root: segments(root)[-2],
    "active log": lambda root: segments(root)[-1],
    "index": lambda root: segments(root)[1].with_suffix(".index"),
    "active index": lambda root: segments(root)[-1].with_suffix(".index"),
    "time index": lambda root: segments(root)[1].with_suffix(".timeindex"),
    "active time index": lambda root: segments(root)[-1].with_suffix(".timeindex"),
    "snapshot": lambda root: sorted((root / "t-0").glob("*.snapshot"))[-1],
    "leader epochs": lambda root: root / "t-0" / "leader-epoch-checkpoint",
    "topic id": lambda root: root / "t-0" / "partition.metadata",
    "directory": lambda root: root / "t-0",
    "recovery points": lambda root: root / "recovery-point-offset-checkpoint",
    "starts": lambda root: root / "log-start-offset-checkpoint",
    "high watermarks": lambda root: root / "replication-offset-checkpoint",
    "cleaner": lambda root: root / "cleaner-offset-checkpoint",
    "checksums": lambda root: root / "ottla-checksums",
    "owner": lambda root: root / "meta.properties",
    "catalog": lambda root: root / "ottla.json",
    "journal": lambda root: root / "ottla.journal",
    "mark of a clean stop": lambda root: root / ".kafka_cleanshutdown",
}


def _flip(data: bytearray, bit: int) -> bytearray:
    if data:
        data[len(data) // 2] ^= bit
    return data


DAMAGES: dict[str, Callable[[bytearray], bytes | bytearray]] = {
    "truncate": lambda data: data[: len(data) // 2],
    "flip": lambda data: _flip(data, 1),
    "flip to no text": lambda data: _flip(data, 0x80),
    "append": lambda data: data + b"fifty bytes that have nothing to do with it.......",
    "zero": lambda data: bytes(len(data)),
}


def damage(path: Path, kind: str) -> None:
    if kind != "delete":
        path.write_bytes(DAMAGES[kind](bytearray(path.read_bytes())))
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


class Opened(NamedTuple):
    """What a start comes to. `refusal` is of the whole directory or of the partition."""

    values: dict[int, bytes]
    end: int
    refusal: str | None
    told: list[str]  # what the log or the reader is told


def opened(root: Path, caplog: pytest.LogCaptureFixture) -> Opened:
    """Open the directory as a broker does, read all there is, append a record, and leave as a kill does."""
    caplog.clear()
    try:
        store = TopicStore(BrokerConfig.from_properties({"log.dir": str(root), **SETTINGS}), lambda: 1)
    except StorageError as error:
        return Opened({}, -1, str(error), [])
    try:
        partition = store.partition("t", 0)
        told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        if partition.log is None:
            return Opened({}, -1, str(store.directory.damaged["t", 0]), told)
        values = dict(readable(partition.log, told))
        told += damage_in(partition.log.segments)  # the broker's log and ottla_segments_damaged tell it
        data = checked(batch((b"k", b"new")), partition.log.config, 1)
        offset = partition.log.append(data, 1).base_offset
        partition.log.write_staged()
        assert dict(readable(partition.log, []))[offset] == b"new"
        return Opened(values, offset, None, told)
    finally:
        store.directory.abandon()


def readable(log: PartitionLog, told: list[str]) -> Iterator[tuple[int, bytes]]:
    offset = log.start_offset
    assert log.high_watermark < 1000
    while offset < log.high_watermark:
        try:
            piece = next(iter(MessageSet(log.read(offset, 1 << 20)).decoded(from_offset=offset)))
            for number, value in zip(*(piece.batch[name].to_pylist() for name in COLUMNS), strict=True):
                if number >= log.high_watermark:  # no checksum covers offsets
                    raise CorruptRecord(f"offset {number} is out of range")
                yield number, value
                offset = number + 1
            if piece.next_offset <= offset and piece.damage is not None:
                raise piece.damage
            offset = max(offset, piece.next_offset)
        except (KafkaError, CorruptRecord, StopIteration) as error:
            told.append(f"a reader is told: {error}")
            offset += 1


CELLS = [
    (kind, how, stop)
    for kind in KINDS
    for how in ("delete", *DAMAGES)
    for stop in STOPS
    if not (kind == "directory" and how != "delete")  # it has no bytes
    and not (kind == "mark of a clean stop" and stop == "kill")
]


@pytest.mark.parametrize(("kind", "how", "stop"), CELLS)
def test_no_damage_is_silent_and_each_can_be_repaired(
    sound: dict[str, Path], tmp_path: Path, kind: str, how: str, stop: str, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "data"
    shutil.copytree(sound[stop], root)
    whole = {number: b"value %d" % number for number in range(START, END)}
    damage(KINDS[kind](root), how)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)

    result = opened(root, caplog)
    if result.refusal is not None:
        assert "\n" not in result.refusal
        assert str(root) in result.refusal
        assert f"ottla log repair {root} --dry-run" in result.refusal
    elif result.values != whole or result.end != END:
        assert result.told, f"lost in silence: {whole.keys() - result.values.keys()}"
    assert result.values.items() <= (whole | {0: b"value 0", 1: b"value 1", 2: b"value 2"}).items()
    assert result.end in (-1, *range(FLUSHED, END + 1)), "an offset that was flushed is given twice"
    assert not (stop == "clean" and -1 < result.end < END), "an offset is given twice"

    found = check(copy)
    is_harmed = result.refusal is not None or result.values != whole
    assert found.findings or not is_harmed or kind in TOLD_BY_THE_START_ONLY
    _, repaired = repair(copy, tmp_path / "copies")
    assert [item.error for item in repaired if item.error] == []
    assert [(item.path, item.damage) for item in check(copy).findings if item.actions] == []
    again = opened(copy, caplog)
    assert again.refusal is None
    assert len(again.values.keys() & whole.keys()) >= len(result.values.keys() & whole.keys())
    assert again.values.items() >= {(n, v) for n, v in whole.items() if kind not in LOGS}, found.findings
    assert again.end >= (END if stop == "clean" else FLUSHED)


LOGS = {"first log", "flushed log", "unflushed log", "active log", "directory", "starts"}
TOLD_BY_THE_START_ONLY = {"starts", "active log"}
