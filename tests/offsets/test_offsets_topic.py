"""The topic of offsets stays small: a million commits, and the log has the last one of each partition.

1,000 partitions of four groups are committed a thousand times, over the wire. Then the raw topic is read back
and decoded, and a broker that starts from the same directory answers from it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ottla import EmbeddedBroker, replay
from ottla.broker.coordination.effects import Record
from ottla.broker.groups.coordinator.records import OffsetKey, OffsetValue, read
from ottla.client.client_config import ClientConfig
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets, OffsetAndMetadata
from ottla.offsets.coordinator_messages import commit_request
from ottla.wire.api.offset_commit import (
    OffsetCommitPartitionResponse,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
)
from ottla.wire.client_connection import ClientConnection
from ottla.wire.schema import decode, encode
from tests.scale import sized
from tests.waiting import wait_for

OFFSETS_TOPIC = "__consumer_offsets"
GROUPS = [f"group-{number}" for number in range(4)]
PARTITION_COUNT = 250
COMMIT_COUNT = sized(40_000, 1_000_000)
ROUND_COUNT = COMMIT_COUNT // (len(GROUPS) * PARTITION_COUNT)
LOG_COUNT = 2
SEGMENT_BYTES = 256 << 10
RECORD_BYTES_MIN, RECORD_BYTES_MAX = 40, 64
"""Of one commit, with its part of the batch's header."""

PLACES = [TopicAndPartition("t", number) for number in range(PARTITION_COUNT)]
VERSION = 8
MARK = 0x0123456789ABCDEF
HEADER_BYTES = 5  # the correlation id, 0, and no tags
ANSWER = bytes(HEADER_BYTES) + b"".join(
    encode(
        OffsetCommitResponse(
            topics=[
                OffsetCommitTopicResponse(
                    name="t",
                    partitions=[
                        OffsetCommitPartitionResponse(partition_index=number)
                        for number in range(PARTITION_COUNT)
                    ],
                )
            ]
        ),
        VERSION,
    )
)
"""That all is well, which is the same every time."""


def position(group: int, round_number: int) -> npt.NDArray[np.int64]:
    """What a group commits in a round: another offset for each partition, and in each round."""
    return np.arange(PARTITION_COUNT, dtype=np.int64) * 10_000_000 + group * 1_000_000 + round_number


class Committer:
    """OffsetCommit requests of one group, encoded once: only the offsets in them change."""

    def __init__(self, group: str) -> None:
        marked = commit_request(group, dict.fromkeys(PLACES, OffsetAndMetadata(MARK)))
        parts = ClientConnection(client_id="committer").send(marked, version=VERSION).parts
        self.frame = np.frombuffer(bytearray(b"".join(parts)), dtype=np.uint8)
        data, mark = self.frame.tobytes(), MARK.to_bytes(8, "big")
        first = data.index(mark)
        stride = data.index(mark, first + 1) - first
        assert data.count(mark) == PARTITION_COUNT
        self._offsets = np.ndarray(PARTITION_COUNT, ">i8", self.frame, first, (stride,))

    def commit(self, connection: socket.socket, offsets: npt.NDArray[np.int64]) -> bytes:
        """The answer, as it came."""
        self._offsets[:] = offsets
        connection.sendall(self.frame.data)
        size = int.from_bytes(_received(connection, 4), "big")
        return _received(connection, size)


def _received(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        assert piece, "the broker hung up"
        data += piece
    return bytes(data)


def log_files(directory: Path) -> Iterator[Path]:
    for number in range(LOG_COUNT):
        yield from (directory / f"{OFFSETS_TOPIC}-{number}").glob("*.log")


def log_bytes(directory: Path) -> int:
    total = 0
    for one in log_files(directory):
        with suppress(FileNotFoundError):  # the cleaner took it meanwhile
            total += one.stat().st_size
    return total


def commit_a_million_times(broker: EmbeddedBroker) -> None:
    """The first time as a client does, which asks for the coordinator; then as fast as a socket takes it."""
    with kafka_offsets(broker) as offsets:
        for number, group in enumerate(GROUPS):
            first = position(number, 0).tolist()
            offsets.commit(group, dict(zip(PLACES, [OffsetAndMetadata(one) for one in first], strict=True)))
    committers = [Committer(group) for group in GROUPS]
    with socket.create_connection(("127.0.0.1", broker.port), 60) as connection:
        for round_number in range(1, ROUND_COUNT):
            for number, one in enumerate(committers):
                answer = one.commit(connection, position(number, round_number))
                assert answer == ANSWER, decode(OffsetCommitResponse, VERSION, answer[HEADER_BYTES:])


def kafka_offsets(broker: EmbeddedBroker) -> KafkaOffsets:
    return KafkaOffsets(ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap}))


def raw_records(bootstrap: str) -> Iterator[tuple[OffsetKey, OffsetValue]]:
    """The topic as anybody can read it, decoded."""
    for message in replay(OFFSETS_TOPIC, bootstrap_servers=bootstrap).messages():
        assert message.key is not None
        entry = read(Record(message.key, message.value))
        assert entry is not None
        key, value = entry
        assert isinstance(key, OffsetKey)
        assert isinstance(value, OffsetValue)
        yield key, value


def test_a_million_commits_leave_a_bounded_log_that_has_the_last_of_each(tmp_path: Path) -> None:
    properties = {
        "offsets.topic.num.partitions": str(LOG_COUNT),
        "offsets.topic.segment.bytes": str(SEGMENT_BYTES),
        "log.cleaner.backoff.ms": "500",
        "log.segment.delete.delay.ms": "0",
    }
    last = {
        (group, *place): int(offset)
        for number, group in enumerate(GROUPS)
        for place, offset in zip(PLACES, position(number, ROUND_COUNT - 1), strict=True)
    }
    # What cannot be compacted is the active segment of each partition; before it, each key is there once.
    bytes_max = LOG_COUNT * SEGMENT_BYTES + len(last) * RECORD_BYTES_MAX
    with EmbeddedBroker(tmp_path, properties=properties) as broker:
        broker.create_topic("t", PARTITION_COUNT)
        commit_a_million_times(broker)
        wait_for(lambda: log_bytes(tmp_path) <= bytes_max)

        found = list(raw_records(broker.bootstrap))
        assert {(key.group, key.topic, key.partition): value.offset for key, value in found} == last
        assert len(last) <= len(found) <= bytes_max // RECORD_BYTES_MIN < 20_000

        broker.stop()
        broker.start()
        with kafka_offsets(broker) as offsets:
            stored = {
                (group, *place): one.offset
                for group in GROUPS
                for place, one in offsets.fetch_all(group).items()
            }
        assert stored == last
