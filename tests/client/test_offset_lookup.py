"""ListOffsets of every version: what is asked, what is answered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ottla import ConfigError, ConnectionLost, EmbeddedBroker, Producer
from ottla.client.client_config import ClientConfig
from ottla.client.list_offsets import OffsetAnswer, OffsetQuestion, list_offsets_request, offset_answers
from ottla.client.metadata import ClusterMetadata
from ottla.client.offset_lookup import OffsetLookup
from ottla.model.error_codes import Code
from ottla.model.offset_spec import EARLIEST, LATEST, UNKNOWN_OFFSET
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

ORDERS = TopicAndPartition("orders", 0)
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def answer(version: int, **fields: object) -> OffsetAnswer:
    row = ListOffsetsPartitionResponse(partition_index=0, **fields)  # type: ignore[arg-type]
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[row])])
    (only,) = offset_answers(response, version)
    return only


def test_version_0_answers_lists_and_later_ones_one_offset() -> None:
    assert answer(0, old_style_offsets=[7, 3, 0]).offsets == (7, 3, 0)
    assert answer(0, old_style_offsets=[7, 3, 0]).offset == 7
    assert answer(0, old_style_offsets=[]).offset == UNKNOWN_OFFSET
    assert answer(1, offset=7, timestamp=5).offset == 7
    assert answer(1, offset=-1).offsets == ()
    assert answer(4, offset=7, timestamp=5, leader_epoch=2)[3:5] == (5, 2)
    refused = answer(4, error_code=Code.NOT_LEADER_OR_FOLLOWER, offset=7)
    assert (refused.error_code, refused.offset) == (Code.NOT_LEADER_OR_FOLLOWER, UNKNOWN_OFFSET)


def test_what_a_version_cannot_carry_is_left_out() -> None:
    question = OffsetQuestion(ORDERS, LATEST, leader_epoch=3)
    oldest = list_offsets_request([question], 0, isolation_level=1, offsets_max=5)
    assert (oldest.isolation_level, oldest.topics[0].partitions[0].max_num_offsets) == (0, 5)
    assert list_offsets_request([question], 2, isolation_level=1).isolation_level == 1


@pytest.fixture(scope="module")
def lookup() -> object:
    """Of a broker with ten records, a second apart."""
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 2, config={"retention.ms": "-1"})
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for n in range(10):
                producer.send("orders", b"v", b"k", 0, int(START.timestamp() * 1000) + 1000 * n)
        config = ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap})
        with ClusterMetadata(config) as metadata:
            one = OffsetLookup(config, metadata)
            yield one
            one.close()
            one.close()
            with pytest.raises(ConnectionLost):
                one.offsets_at({ORDERS: LATEST})


def test_offsets_of_times(lookup: OffsetLookup) -> None:
    other = TopicAndPartition("orders", 1)
    start_ms = int(START.timestamp() * 1000)
    assert lookup.offsets_at({ORDERS: start_ms + 3000, other: start_ms}) == {ORDERS: 3, other: UNKNOWN_OFFSET}
    ends = lookup.ends([ORDERS, other], [start_ms + 1])
    assert (ends[ORDERS].earliest, ends[ORDERS].latest, ends[other].latest) == (0, 10, 0)
    assert ends[ORDERS].by_time == {EARLIEST: 0, LATEST: 10, start_ms + 1: 1}
    assert lookup.for_times({ORDERS: START + timedelta(seconds=9), other: START}) == {
        ORDERS: 9,
        other: None,
    }
    assert lookup.for_times({ORDERS: "latest"}) == {ORDERS: 10}
    assert lookup.tail([ORDERS, other], 3) == {ORDERS: 7, other: 0}
    with pytest.raises(ConfigError, match="time=7"):
        lookup.for_times({ORDERS: 7})
    assert lookup.start(ORDERS, "earliest") == EARLIEST
    assert lookup.start(ORDERS, timedelta(0)) == LATEST
