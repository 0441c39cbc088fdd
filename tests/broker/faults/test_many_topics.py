"""Thousands of topics and partitions at once: others are served while they are made and deleted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.wire.api.create_topics import CreateTopic, CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.broker.faults.batches import batch
from tests.broker.faults.raw_client import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    METADATA,
    PRODUCE,
    RawClient,
    answered,
    frame,
    produce_request,
)
from tests.waiting import wait_for

UNKNOWN, EXISTS, INVALID_TOPIC = 3, 36, 17
TOPIC = 2
TOPICS, PARTITIONS = 200, 1000


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(num_partitions=1) as broker:
        broker.create_topic("honest")
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


def wanted(name: str, partitions: int = 1) -> CreateTopic:
    return CreateTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])


def test_others_are_served_while_a_topic_of_many_partitions_is_made_and_deleted(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    answer = answered(
        broker.port, client, CreateTopicsRequest(topics=[wanted("large", PARTITIONS)]), CREATE_TOPICS
    )
    assert answer.topics[0].error_code == 0
    with RawClient(broker.port) as other:
        assert other.produce("large", batch((b"k", b"v")), PARTITIONS - 1).base_offset == 0
    deleted = answered(broker.port, client, DeleteTopicsRequest(topic_names=["large"]), DELETE_TOPICS)
    assert deleted.responses[0].error_code == 0
    assert not list(broker.data_dir.glob("large-[0-9]*[0-9]"))


def test_others_are_served_while_many_topics_are_made_and_deleted(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    names = [f"t{number}" for number in range(TOPICS)]
    topics = [*map(wanted, names), wanted("a.b"), wanted("a_b"), wanted("honest")]
    answer = answered(broker.port, client, CreateTopicsRequest(topics=topics), CREATE_TOPICS)
    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes == dict.fromkeys(names, 0) | {"a.b": 0, "a_b": INVALID_TOPIC, "honest": EXISTS}
    with RawClient(broker.port) as other:
        assert set(names) < set(other.topics())
    request = DeleteTopicsRequest(topic_names=[*names, "a.b", "nothing"])
    codes = {topic.name: topic.error_code for topic in answered(broker.port, client, request, 3).responses}
    assert codes == dict.fromkeys([*names, "a.b"], 0) | {"nothing": UNKNOWN}


def test_others_are_served_while_metadata_creates_many_topics(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    topics = [MetadataTopic(name=f"auto{number}") for number in range(TOPICS)] + [MetadataTopic(name="a b")]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    answer = answered(broker.port, client, request, METADATA)
    assert [topic.error_code for topic in answer.topics] == [0] * TOPICS + [INVALID_TOPIC]
    assert all(topic.partitions[0].leader_id == 0 for topic in answer.topics[:-1])


def test_others_are_served_while_metadata_names_what_does_not_exist(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    topics = [MetadataTopic(name=f"unknown{number}") for number in range(20_000)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    answer = answered(broker.port, client, request, METADATA)
    assert {topic.error_code for topic in answer.topics} == {UNKNOWN}
    assert len(answer.topics) == len(topics)


def test_others_are_served_while_settings_of_many_topics_are_described(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    """As consoles ask for all topics at once: that took half a millisecond for each."""
    resources = [DescribeConfigsResource(resource_type=TOPIC, resource_name="honest")] * 1000
    request = DescribeConfigsRequest(resources=resources)
    results = answered(broker.port, client, request, 1).results
    assert len(results) == len(resources)
    assert all(result.error_code == 0 and result.configs for result in results)


def test_who_leaves_during_a_creation_leaves_a_whole_topic(broker: EmbeddedBroker) -> None:
    with RawClient(broker.port) as client:
        client.send(frame(CreateTopicsRequest(topics=[wanted("left", PARTITIONS)]), CREATE_TOPICS))
    with RawClient(broker.port) as other:
        wait_for(lambda: other.topics().get("left") == PARTITIONS)


def test_a_broker_that_stops_during_a_creation_finishes_it(broker: EmbeddedBroker) -> None:
    with EmbeddedBroker() as one:
        with RawClient(one.port) as client:
            client.send(frame(CreateTopicsRequest(topics=[wanted("t", PARTITIONS)]), CREATE_TOPICS))
            wait_for(lambda: "t" in one._running().cluster.store.catalog.topics)
        one.stop()
        one.start()
        with RawClient(one.port) as client:
            assert client.topics() == {"t": PARTITIONS}


def test_others_are_served_while_one_request_writes_to_many_partitions(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    """Each first record makes files. The answer has all of them, and what is sent behind it stays behind."""
    broker.create_topic("wide", PARTITIONS)
    items = [ProducePartition(index=index, records=batch((b"k", b"v"))) for index in range(PARTITIONS + 1)]
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[ProduceTopic(name="wide", partition_data=items)]
    )
    answers = answered(broker.port, client, request, PRODUCE).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [0] * PARTITIONS + [UNKNOWN]
    client.send(frame(request, PRODUCE) + frame(produce_request("wide", batch((b"k", b"v"))), PRODUCE, 2))
    assert client.answer(request, PRODUCE, 1).responses[0].partition_responses[0].base_offset == 1
    last = client.answer(request, PRODUCE, 2).responses[0].partition_responses[0]
    assert last.base_offset == 2
