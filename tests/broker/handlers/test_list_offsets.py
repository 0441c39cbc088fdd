"""ListOffsets over a socket: both ends, times, and what only some versions know."""

from __future__ import annotations

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.handlers.admin.calls import created
from tests.broker.traffic import fill, offset_at, one, produce
from tests.broker.wire_client import Client
from tests.log.record_sets import NOW, batch

LATEST, EARLIEST, LARGEST, EARLIEST_LOCAL, TIERED = -1, -2, -3, -4, -5
NEWEST = 10
Found = tuple[int, int, int, int]


def found(client: Client, topic: str, timestamp: int, version: int = NEWEST, partition: int = 0) -> Found:
    answer = offset_at(client, topic, timestamp, partition, version=version)
    return answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch


@pytest.fixture(scope="module")
def timed(broker: EmbeddedBroker) -> str:
    """Six records, ten milliseconds apart, in three segments; the last one is older than the fifth."""
    with Client.of(broker.bootstrap) as client:
        topic = created(client, "timed", segment_bytes="1000")
        for number in (0, 1, 2, 3, 5, 4):
            produce(client, topic, one(b"x" * 400, timestamp=NOW + 10 * number))
    return topic


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_the_ends(client: Client, timed: str, version: int) -> None:
    epoch = 0 if version >= 4 else -1
    assert found(client, timed, LATEST, version) == (Code.NONE, 6, -1, epoch)
    assert found(client, timed, EARLIEST, version) == (Code.NONE, 0, -1, epoch)


@pytest.mark.parametrize(
    ("time", "offset"), [(0, 0), (NOW, 0), (NOW + 1, 1), (NOW + 30, 3), (NOW + 31, 4), (NOW + 50, 4)]
)
@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_the_first_record_from_a_time_on(
    client: Client, timed: str, version: int, time: int, offset: int
) -> None:
    stamp = NOW + (50 if offset == 4 else 10 * offset)
    assert found(client, timed, time, version) == (Code.NONE, offset, stamp, 0 if version >= 4 else -1)


@pytest.mark.parametrize("version", [1, 4, NEWEST])
def test_no_record_is_so_young(client: Client, timed: str, version: int) -> None:
    assert found(client, timed, NOW + 51, version) == (Code.NONE, -1, -1, -1)


@pytest.mark.parametrize(
    ("special", "since", "offset", "stamp"),
    [(LARGEST, 7, 4, NOW + 50), (EARLIEST_LOCAL, 8, 0, -1), (TIERED, 9, -1, -1)],
)
@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_special_times(
    client: Client, timed: str, version: int, special: int, since: int, offset: int, stamp: int
) -> None:
    right = (Code.NONE, offset, stamp, 0 if offset >= 0 else -1)
    refused = (Code.UNSUPPORTED_VERSION, -1, -1, -1)
    assert found(client, timed, special, version) == (right if version >= since else refused)


@pytest.mark.parametrize("special", [-6, -100])
def test_special_times_that_nobody_knows(client: Client, timed: str, special: int) -> None:
    assert found(client, timed, special) == (Code.UNSUPPORTED_VERSION, -1, -1, -1)


def test_an_empty_partition(client: Client, topic: str) -> None:
    assert [found(client, topic, special) for special in (LATEST, EARLIEST, EARLIEST_LOCAL)] == 3 * [
        (0, 0, -1, 0)
    ]
    assert [found(client, topic, special) for special in (LARGEST, 0, TIERED)] == 3 * [(0, -1, -1, -1)]


def test_records_inside_of_a_batch_are_told_apart(client: Client, topic: str) -> None:
    rows = [(None, b"%d" % number) for number in range(3)]
    fill(client, topic, [batch(*rows, timestamp=NOW), batch(*rows, timestamp=NOW + 5)])
    assert found(client, topic, NOW + 1)[:3] == (Code.NONE, 3, NOW + 5)


@pytest.mark.parametrize("magic", [0, 1])
def test_times_of_old_formats(client: Client, topic: str, magic: int) -> None:
    produce(client, topic, one(timestamp=NOW, magic=magic), version=2)
    right = (Code.NONE, 0, NOW, 0) if magic else (Code.NONE, -1, -1, -1)
    assert found(client, topic, NOW) == right


@pytest.mark.parametrize(
    ("time", "count", "offsets"),
    [
        (LATEST, 100, [6, 4, 2, 0]),
        (LATEST, 1, [6]),
        (LATEST, 2, [6, 4]),
        (LATEST, 0, []),
        (EARLIEST, 100, [0]),
        (1 << 50, 100, [6, 4, 2, 0]),
        (0, 100, []),
        (NOW - 1, 100, []),
    ],
)
def test_version_0_tells_bases_of_segments_by_the_age_of_their_files(
    client: Client, timed: str, time: int, count: int, offsets: list[int]
) -> None:
    """Kafka 3.9 answers the same."""
    answer = offset_at(client, timed, time, version=0, count=count)
    assert (answer.error_code, answer.old_style_offsets) == (Code.NONE, offsets)


@pytest.mark.parametrize("version", [0, 1, 5, NEWEST])
def test_what_does_not_exist(client: Client, timed: str, version: int) -> None:
    assert offset_at(client, timed, LATEST, 9, version=version).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert offset_at(client, "nowhere", LATEST, version=version).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_several_partitions_at_once(client: Client, timed: str, topic: str) -> None:
    fill(client, topic, [one()], 1)
    asked = {timed: [(0, NOW + 1), (0, LATEST)], topic: [(1, LATEST), (7, LATEST), (1, 0)]}
    topics = [
        ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsPartition(partition_index=index, timestamp=time) for index, time in wanted
            ],
        )
        for name, wanted in asked.items()
    ]
    response = client.call(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
    assert [[one.offset for one in topic.partitions] for topic in response.topics] == [[1, 6], [1, -1, 0]]
    assert response.topics[1].partitions[1].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_epochs_of_asker_and_answer() -> None:
    with EmbeddedBroker(brokers=2) as broker:
        first, second = (Client.of(address) for address in broker.bootstrap.split(","))
        with first, second:
            broker.create_topic("t")
            fill(first, "t", [one(timestamp=NOW)])
            broker.move_leader("t", 0, 1)
            fill(second, "t", [one(timestamp=NOW + 10)])
            assert found(first, "t", LATEST)[0] == Code.NOT_LEADER_OR_FOLLOWER
            assert found(second, "t", LATEST) == (Code.NONE, 2, -1, 1)
            assert found(second, "t", EARLIEST) == (Code.NONE, 0, -1, 0), "of the first record, not of today"
            assert found(second, "t", NOW) == (Code.NONE, 0, NOW, 0)
            assert found(second, "t", NOW + 1) == (Code.NONE, 1, NOW + 10, 1)
            codes = [offset_at(second, "t", LATEST, epoch=epoch).error_code for epoch in (-1, 0, 1, 2)]
            assert codes == [
                Code.NONE,
                Code.FENCED_LEADER_EPOCH,
                Code.NONE,
                Code.UNKNOWN_LEADER_EPOCH,
            ]
