"""Requests that name very many partitions, groups or resources: others are served, nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import (
    OffsetFetchGroup,
    OffsetFetchGroupTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from ottla.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.schema import Request
from tests.broker.faults.batches import batch
from tests.broker.faults.raw_client import FETCH, METADATA, RawClient, answered, frame, framed
from tests.waiting import wait_for

COUNT = 20_000
INDEXES = range(COUNT)
NAMES = [f"g{number}" for number in INDEXES]
UNKNOWN = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(num_partitions=1) as broker:
        broker.create_topic("honest")
        with RawClient(broker.port) as client:  # makes the offsets topic
            assert client.call(FindCoordinatorRequest(key="g", key_type=0), 1).error_code == 0
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


def fetch_of_many(wait_ms: int = 0, topic: str = "nowhere") -> FetchRequest:
    partitions = [FetchPartition(partition=index, partition_max_bytes=1000) for index in INDEXES]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=partitions)],
    )


def list_offsets_of_many() -> ListOffsetsRequest:
    """Ten topics, one of which has most of the partitions."""
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in INDEXES]
    topics = [ListOffsetsTopic(name=f"t{number}", partitions=partitions[:3]) for number in range(9)]
    topics.insert(4, ListOffsetsTopic(name="nowhere", partitions=partitions))
    return ListOffsetsRequest(replica_id=-1, topics=topics)


LONG_REQUESTS: dict[str, tuple[Request[Any], int, tuple[str, ...]]] = {
    "Fetch": (fetch_of_many(), FETCH, ("responses", "partitions", "partition_index")),
    "ListOffsets": (list_offsets_of_many(), 5, ("topics", "partitions", "partition_index")),
    "OffsetCommit": (
        OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitTopic(
                    name="nowhere",
                    partitions=[
                        OffsetCommitPartition(partition_index=index, committed_offset=1) for index in INDEXES
                    ],
                )
            ],
        ),
        5,
        ("topics", "partitions", "partition_index"),
    ),
    "OffsetFetch": (
        OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchTopic(name="nowhere", partition_indexes=list(INDEXES))]
        ),
        5,
        ("topics", "partitions", "partition_index"),
    ),
    "OffsetFetch of groups": (
        OffsetFetchRequest(
            groups=[
                OffsetFetchGroup(
                    group_id="g",
                    topics=[OffsetFetchGroupTopic(name="nowhere", partition_indexes=list(INDEXES))],
                )
            ]
        ),
        8,
        ("groups", "topics", "partitions", "partition_index"),
    ),
    "OffsetForLeaderEpoch": (
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="nowhere",
                    partitions=[OffsetForLeaderPartition(partition=index) for index in INDEXES],
                )
            ]
        ),
        2,
        ("topics", "partitions", "partition"),
    ),
    "DeleteRecords": (
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name="nowhere",
                    partitions=[DeleteRecordsPartition(partition_index=index, offset=0) for index in INDEXES],
                )
            ],
            timeout_ms=1000,
        ),
        1,
        ("topics", "partitions", "partition_index"),
    ),
    "DescribeConfigs": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
                for name in NAMES
            ]
        ),
        1,
        ("results", "resource_name"),
    ),
    "FindCoordinator": (
        FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES),
        4,
        ("coordinators", "key"),
    ),
    "DescribeGroups": (DescribeGroupsRequest(groups=NAMES), 1, ("groups", "group_id")),
    "DeleteGroups": (DeleteGroupsRequest(groups_names=NAMES), 1, ("results", "group_id")),
}


def values(answer: Any, path: tuple[str, ...]) -> list[Any]:
    """What all innermost elements of an answer have in a field."""
    found = [answer]
    for name in path:
        found = [item for value in found for item in _listed(getattr(value, name))]
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", LONG_REQUESTS)
def test_others_are_served_beside_a_long_request(
    name: str, broker: EmbeddedBroker, client: RawClient
) -> None:
    request, version, path = LONG_REQUESTS[name]
    answer = answered(broker.port, client, request, version)
    wanted: list[Any] = NAMES if len(path) == 2 else list(INDEXES)
    if isinstance(request, ListOffsetsRequest):
        wanted = [*range(3)] * 4 + wanted + [*range(3)] * 5
        assert [topic.name for topic in answer.topics] == [topic.name for topic in request.topics]
    assert values(answer, path) == wanted


def test_a_call_behind_a_long_one_is_answered_behind_it(client: RawClient) -> None:
    long, short = fetch_of_many(), MetadataRequest(topics=[])
    client.send(frame(long, FETCH, 1) + frame(short, METADATA, 2))
    answers = client.answer(long, FETCH, 1).responses[0].partitions
    assert [answer.error_code for answer in answers] == [UNKNOWN] * COUNT
    assert client.answer(short, METADATA, 2).controller_id == 0


def test_a_long_request_that_is_damaged_ends_its_connection(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    whole = frame(fetch_of_many(), FETCH)
    client.send(framed(whole[4 : len(whole) // 2]))
    assert client.rest() == b""
    with RawClient(broker.port) as other:
        assert other.produce("honest", batch((b"k", b"v"))).error_code == 0


def test_a_long_fetch_waits_for_records_and_ends_with_its_client(broker: EmbeddedBroker) -> None:
    broker.create_topic("wide", 1000)
    partitions = [FetchPartition(partition=index, partition_max_bytes=1000) for index in range(1000)]
    request = FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="wide", partitions=partitions)],
    )
    stored = broker._running().cluster.store.partition("wide", 999)
    with RawClient(broker.port) as client, RawClient(broker.port) as other:
        client.send(frame(request, FETCH))
        wait_for(lambda: bool(stored.listeners))
        assert other.produce("wide", batch((b"k", b"v")), 999).error_code == 0
        answers = client.answer(request, FETCH, 1).responses[0].partitions
        assert [answer.partition_index for answer in answers if answer.records] == [999]
        wait_for(lambda: not stored.listeners)
        request.topics[0].partitions[999].fetch_offset = 1
        client.send(frame(request, FETCH))
        wait_for(lambda: bool(stored.listeners))
    wait_for(lambda: not stored.listeners)
