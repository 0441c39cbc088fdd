"""What the tests of the admin APIs ask a broker, in few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.broker.storage.record_batches import batch_of
from ottla.model.error_codes import Code
from ottla.wire.api.create_topics import (
    CreatedTopic,
    CreateTopic,
    CreateTopicAssignment,
    CreateTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic, MetadataTopicResponse
from ottla.wire.api.offset_commit import OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic
from ottla.wire.api.offset_fetch import OffsetFetchGroup, OffsetFetchRequest
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.broker.wire_client import Client

EARLIEST, LATEST = -2, -1


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignments: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> CreateTopic:
    return CreateTopic(
        name=name,
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else replicas,
        assignments=[
            CreateTopicAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreateTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def create(
    client: Client, *topics: CreateTopic, version: int = 7, validate_only: bool = False
) -> list[CreatedTopic]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return client.call(request, version).topics


def created(client: Client, name: str, partitions: int = 1, **configs: str) -> str:
    """A topic that is made for sure; underscores of a config's name are dots."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    (result,) = create(client, topic(name, partitions, configs=settings))
    assert result.error_code == Code.NONE, result.error_message
    return name


def delete(client: Client, *names: str, version: int = 5) -> list[int]:
    response = client.call(DeleteTopicsRequest(topic_names=list(names)), version)
    return [one.error_code for one in response.responses]


def described(client: Client, name: str) -> MetadataTopicResponse:
    """What Metadata tells of a topic, which is not made by that."""
    request = MetadataRequest(topics=[MetadataTopic(name=name)], allow_auto_topic_creation=False)
    (found,) = client.call(request, 12).topics
    return found


def names(client: Client) -> set[str | None]:
    return {one.name for one in client.call(MetadataRequest(topics=None), 12).topics}


def produce(client: Client, name: str, count: int, partition: int = 0, *, size: int = 10) -> None:
    """So many batches of one record."""
    for number in range(count):
        records = batch_of([(None, bytes([number % 256]) * size)], 1_700_000_000_000 + number).data
        data = [ProduceTopic(name=name, partition_data=[ProducePartition(index=partition, records=records)])]
        response = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 9)
        assert response.responses[0].partition_responses[0].error_code == Code.NONE


def bound(client: Client, name: str, special: int, partition: int = 0) -> int:
    """The first or the next offset of a partition."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=special)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[asked])])
    (found,) = client.call(request, 5).topics[0].partitions
    assert found.error_code == Code.NONE
    return found.offset


def commit(client: Client, group: str, name: str, offset: int) -> int:
    partition = OffsetCommitPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitTopic(name=name, partitions=[partition])]
    )
    return client.call(request, 2).topics[0].partitions[0].error_code


def committed(client: Client, group: str) -> dict[str, int]:
    """All offsets of partitions 0 of a group."""
    request = OffsetFetchRequest(groups=[OffsetFetchGroup(group_id=group, topics=None)])
    (found,) = client.call(request, 8).groups
    assert found.error_code == Code.NONE
    return {topic.name: topic.partitions[0].committed_offset for topic in found.topics}
