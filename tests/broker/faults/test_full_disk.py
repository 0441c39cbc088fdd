"""A disk without room: writes are refused with an error, reads go on, and with room again so does everything.

The broker runs on a tmpfs of a few megabytes in a mount namespace of its own, which goes with the process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.model.error_codes import Code
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchTopic
from tests.broker.faults.batches import batch
from tests.broker.faults.broker_process import BrokerProcess
from tests.broker.faults.raw_client import METADATA, RawClient

STORAGE_ERROR, NOT_COORDINATOR = 56, 16
DISK_MB = 8
MOUNTED = 'mount -t tmpfs -o size=$1m tmpfs "$2" && shift 2 && exec "$@"'


def on_a_small_disk(path: Path) -> list[str]:
    return [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        MOUNTED,
        "sh",
        str(DISK_MB),
        str(path),
    ]


class Disk:
    """The small disk, seen from outside of its namespace."""

    def __init__(self, path: Path, pid: int) -> None:
        self.path = Path(f"/proc/{pid}/root{path}")
        self._ballast = self.path / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 16, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    path = tmp_path / "disk"
    path.mkdir()
    wrapper = on_a_small_disk(path)
    if (
        not shutil.which("unshare")
        or subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no tmpfs can be mounted here: it needs unshare and user namespaces")
    settings = {"offsets.topic.num.partitions": "2", "log.segment.bytes": str(1 << 20)}
    with BrokerProcess(path / "data", settings, wrapper=wrapper, log_path=tmp_path / "log") as broker:
        with broker.client() as client:
            assert client.create("t", 2) == 0
            assert client.produce("t", batch((b"k", b"first"))).base_offset == 0
            client.call(FindCoordinatorRequest(key="g"), 1)
            assert commit(client, 1) == 0
        yield broker
        assert broker.surprises == []


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with broker.client() as client:
        yield client


@pytest.fixture
def disk(broker: BrokerProcess) -> Disk:
    return Disk(broker.data_dir.parent, broker.pid)


def commit(client: RawClient, offset: int) -> int:
    item = OffsetCommitPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = [OffsetCommitTopic(name="t", partitions=[item])]
    answer = client.call(OffsetCommitRequest(group_id="g", topics=topics), 7)
    return answer.topics[0].partitions[0].error_code


def committed(client: RawClient) -> int:
    wanted = [OffsetFetchTopic(name="t", partition_indexes=[0])]
    answer = client.call(OffsetFetchRequest(group_id="g", topics=wanted), 5)
    return answer.topics[0].partitions[0].committed_offset


def test_writing_until_it_is_full_and_on_when_there_is_room(client: RawClient, disk: Disk) -> None:
    """Batches of 100 KB until one does not fit, over several rolls."""
    value = os.urandom(100_000)
    answers: list[Any] = []
    while not answers or answers[-1].error_code == 0:
        assert len(answers) < DISK_MB * 20, "the disk never was full"
        answers.append(client.produce("t", batch((b"k", value))))
    assert answers[-1].error_code == STORAGE_ERROR
    assert answers[-1].base_offset == -1
    taken = [answer.base_offset for answer in answers[:-1]]
    assert taken == list(range(1, len(taken) + 1))
    assert [record.value for record in client.records("t")] == [b"first", *[value] * len(taken)]
    assert client.delete("t") == 0  # which needs no room, or hardly any
    disk.fill()
    disk.free()
    assert client.create("t", 2) == 0
    assert client.produce("t", batch((b"k", b"again"))).base_offset == 0


def test_every_write_is_refused_and_every_read_is_served(client: RawClient, disk: Disk) -> None:
    disk.fill()
    large = batch((b"k", bytes(100_000)))
    assert client.produce("t", large).error_code == STORAGE_ERROR
    assert client.produce("t", large, 1).error_code == STORAGE_ERROR
    assert [record.value for record in client.records("t")] == [b"first"]
    assert client.offset("t", partition=1) == 0
    created = 0  # what is left of the last page of the journal takes some, and directories need no room
    while not client.create(f"empty{created}"):
        created += 1
        assert created < 200
    assert client.create("more", 3) == STORAGE_ERROR
    assert "more" not in client.topics()
    wanted = MetadataRequest(topics=[MetadataTopic(name="other")], allow_auto_topic_creation=True)
    assert client.call(wanted, METADATA).topics[0].error_code != 0
    assert not [path for path in (disk.path / "data").iterdir() if path.name.startswith(("more", "other"))]
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    # Its line is shorter than that of a topic, and may fit. If not, the code makes the client ask again.
    assert client.call(request, 2).error_code in (Code.NONE, Code.COORDINATOR_NOT_AVAILABLE)
    disk.free()
    assert client.produce("t", large).base_offset == 1
    assert client.produce("t", large, 1).base_offset == 0
    assert client.create("more", 3) == 0
    assert [record.offset for record in client.records("t")] == [0, 1]


def test_a_commit_that_cannot_be_written_is_refused_and_not_remembered(client: RawClient, disk: Disk) -> None:
    error, offset = 0, 1
    disk.fill()
    while not error:  # what is left of the last page of the log takes some
        offset += 1
        assert offset < 200
        error = commit(client, offset)
    assert error == NOT_COORDINATOR
    assert committed(client) == offset - 1
    assert client.fetch("t").error_code == 0
    disk.free()
    assert commit(client, 1000) == 0
    assert committed(client) == 1000


def test_an_idempotent_producer_repeats_what_did_not_fit(client: RawClient, disk: Disk) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    producer_id = client.call(request, 2).producer_id

    def send(sequence: int) -> tuple[int, int]:
        row = (b"k", b"%d" % sequence + bytes(50_000))
        data = batch(row, producer_id=producer_id, producer_epoch=0, sequence=sequence)
        answer = client.produce("t", data, 1)
        return answer.error_code, answer.base_offset

    assert send(0) == (0, 0)
    disk.fill()
    assert send(1) == (STORAGE_ERROR, -1)
    assert send(1) == (STORAGE_ERROR, -1)
    disk.free()
    assert send(1) == (0, 1)
    assert send(1) == (0, 1)  # its answer got lost, say
    assert send(2) == (0, 2)
    assert [record.offset for record in client.records("t", 1)] == [0, 1, 2]


def test_a_stop_without_room_ends_and_says_so(broker: BrokerProcess, client: RawClient, disk: Disk) -> None:
    assert client.produce("t", batch((b"k", bytes(10_000)))).error_code == 0
    disk.fill()
    code = broker.stop()
    assert code in {0, 1}  # a clean mark needs no room on a tmpfs, or a little
    assert code == 0 or "No space left" in broker.log
