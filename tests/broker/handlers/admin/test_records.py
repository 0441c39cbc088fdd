"""DeleteRecords, OffsetForLeaderEpoch and DescribeLogDirs, over a socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.log.leader_epochs import end_of, led_epochs
from ottla.model.error_codes import Code
from ottla.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, LogDirTopic
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.handlers.admin.calls import EARLIEST, LATEST, bound, create, created, produce, topic
from tests.broker.wire_client import Client


def delete_before(
    client: Client, name: str, offset: int, partition: int = 0, *, version: int = 2
) -> tuple[int, int]:
    """The error and the new start."""
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=[asked])], timeout_ms=1000
    )
    (found,) = client.call(request, version).topics[0].partitions
    assert found.partition_index == partition
    return found.error_code, found.low_watermark


# --- delete records -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_delete_records_in_every_version(client: Client, version: int) -> None:
    name = created(client, f"cut-{version}")
    produce(client, name, 5)
    assert delete_before(client, name, 3, version=version) == (Code.NONE, 3)
    assert (bound(client, name, EARLIEST), bound(client, name, LATEST)) == (3, 5)
    assert delete_before(client, name, 1, version=version) == (Code.NONE, 3), "never back"
    assert delete_before(client, name, -1, version=version) == (Code.NONE, 5)
    assert bound(client, name, EARLIEST) == bound(client, name, LATEST) == 5


def test_what_is_not_deleted(clients: list[Client]) -> None:
    client = clients[0]
    create(
        client, topic("led-by-1", assignments={0: [1]}), topic("kept", configs={"cleanup.policy": "compact"})
    )
    created(client, "short")
    produce(client, "short", 2)
    client.call(FindCoordinatorRequest(key="g"), 1)
    assert delete_before(client, "short", 3) == (Code.OFFSET_OUT_OF_RANGE, -1)
    assert delete_before(client, "short", -2) == (Code.OFFSET_OUT_OF_RANGE, -1)
    assert delete_before(client, "short", 0, 1) == (Code.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_before(client, "nowhere", 0) == (Code.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_before(client, "led-by-1", 0) == (Code.NOT_LEADER_OR_FOLLOWER, -1)
    assert delete_before(clients[1], "led-by-1", 0) == (Code.NONE, 0)
    assert delete_before(client, "kept", 0) == (Code.POLICY_VIOLATION, -1)
    assert delete_before(client, "__consumer_offsets", 0) == (Code.INVALID_TOPIC_EXCEPTION, -1)


def test_deleted_segments_leave_the_disk_and_the_start_stays(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        with Client.of(broker.bootstrap) as client:
            created(client, "rolled", segment_bytes="300")
            produce(client, "rolled", 6, size=200)
            files = len(list(tmp_path.glob("rolled-0/*.log")))
            assert delete_before(client, "rolled", 4) == (Code.NONE, 4)
            assert len(list(tmp_path.glob("rolled-0/*.log"))) < files
        broker.stop()
        broker.start()
        with Client.of(broker.bootstrap) as client:
            assert (bound(client, "rolled", EARLIEST), bound(client, "rolled", LATEST)) == (4, 6)


# --- leader epochs --------------------------------------------------------------------------------------


def epoch_end(
    client: Client, name: str, epoch: int, *, current: int = -1, version: int = 4
) -> tuple[int, int, int]:
    """The error, the epoch that was found and where it ended."""
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    topics = [OffsetForLeaderTopic(topic=name, partitions=[asked])]
    (found,) = client.call(OffsetForLeaderEpochRequest(topics=topics), version).topics[0].partitions
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", range(5))
def test_where_an_epoch_ended_in_every_version(client: Client, version: int) -> None:
    name = created(client, f"epoch-{version}")
    produce(client, name, 3)
    epoch = 0 if version >= 1 else -1
    assert epoch_end(client, name, 0, version=version) == (Code.NONE, epoch, 3)
    assert epoch_end(client, name, 7, version=version) == (Code.NONE, -1, -1)


def test_epochs_of_leaders_that_came_and_went(cluster: EmbeddedBroker, clients: list[Client]) -> None:
    create(clients[0], topic("moved", assignments={0: [0, 1]}))
    assert epoch_end(clients[0], "moved", 0) == (Code.NONE, 0, 0), "known, though nothing was written"
    produce(clients[0], "moved", 2)
    cluster.move_leader("moved", 0, 1)
    assert epoch_end(clients[0], "moved", 0)[0] == Code.NOT_LEADER_OR_FOLLOWER
    assert epoch_end(clients[1], "moved", 0) == (Code.NONE, 0, 2)
    assert epoch_end(clients[1], "moved", 1) == (Code.NONE, 1, 2)
    produce(clients[1], "moved", 3)
    assert epoch_end(clients[1], "moved", 0) == (Code.NONE, 0, 2)
    assert epoch_end(clients[1], "moved", 1) == (Code.NONE, 1, 5)
    assert epoch_end(clients[1], "moved", 2) == (Code.NONE, -1, -1)
    assert epoch_end(clients[1], "moved", 0, current=0)[0] == Code.FENCED_LEADER_EPOCH
    assert epoch_end(clients[1], "moved", 0, current=2)[0] == Code.UNKNOWN_LEADER_EPOCH
    assert epoch_end(clients[1], "moved", 0, current=1)[0] == Code.NONE
    assert epoch_end(clients[0], "nowhere", 0)[0] == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_epochs_as_kafka_finds_them() -> None:
    starts = [(0, 0), (2, 70), (5, 90)]
    assert [end_of(epoch, starts, 100) for epoch in range(-1, 7)] == [
        (-1, -1),
        (0, 70),
        (0, 70),
        (2, 90),
        (2, 90),
        (2, 90),
        (5, 100),
        (-1, -1),
    ]
    assert end_of(1, starts[1:], 100) == (1, 70), "its records are gone, and end where others begin"
    assert led_epochs([], 3, 0) == [(3, 0)]
    assert led_epochs(starts, 5, 100) == starts
    assert led_epochs(starts, 7, 100) == [*starts, (7, 100)]
    assert end_of(6, led_epochs(starts, 7, 100), 100) == (5, 100)


# --- log directories ------------------------------------------------------------------------------------


def sizes(client: Client, topics: list[LogDirTopic] | None, version: int = 4) -> dict[str, dict[int, int]]:
    response = client.call(DescribeLogDirsRequest(topics=topics), version)
    (found,) = response.results
    assert found.error_code == Code.NONE
    assert (found.total_bytes > found.usable_bytes > 0) == (version >= 4)
    return {
        one.name: {part.partition_index: part.partition_size for part in one.partitions}
        for one in found.topics
    }


@pytest.mark.parametrize("version", range(5))
def test_sizes_in_every_version(cluster: EmbeddedBroker, clients: list[Client], version: int) -> None:
    name = f"sized-{version}"
    create(clients[0], topic(name, assignments={0: [0], 1: [0], 2: [1]}))
    produce(clients[0], name, 2)
    on_disk = sum(file.stat().st_size for file in (cluster.data_dir / f"{name}-0").glob("*.log"))
    assert on_disk > 0
    found = sizes(clients[0], None, version)
    assert found[name] == {0: on_disk, 1: 0}, "each broker tells of its own"
    assert sizes(clients[1], None, version)[name] == {2: 0}
    asked = [LogDirTopic(topic=name, partitions=[0, 9]), LogDirTopic(topic="nowhere", partitions=[0])]
    assert sizes(clients[0], asked, version) == {name: {0: on_disk}}
    assert sizes(clients[0], [], version) == {}


def test_the_path_is_told(cluster: EmbeddedBroker, client: Client) -> None:
    (found,) = client.call(DescribeLogDirsRequest(topics=None)).results
    assert Path(found.log_dir) == cluster.data_dir.absolute()
