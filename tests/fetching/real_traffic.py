"""Numbered records for Apache Kafka, written by our own connections to whoever leads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import cycle

from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.metadata import ClusterMetadata
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.compression import Codec
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.log.record_sets import batch, values
from tests.waiting import wait_for
from tools.peers import KAFKA_0_9, RealKafka

AT_ONCE = 100
NAMES_UNTIL = 12  # of Produce: later versions have ids


def client(*brokers: RealKafka) -> ClientConfig:
    pin = {"broker.version": "0.9"} if brokers[0].version == KAFKA_0_9 else {}
    bootstrap = ",".join(one.bootstrap for one in brokers)
    return ClientConfig.from_properties({"bootstrap.servers": bootstrap, **pin})


def write(
    config: ClientConfig,
    topic: str,
    count: int,
    *,
    magic: int,
    first: int = 0,
    size: int = 100,
    codecs: Sequence[Codec] = (Codec.NONE,),
) -> dict[TopicAndPartition, int]:
    """So many records in each partition, a codec after the other; where the partitions end then."""
    with ClusterMetadata(config) as metadata:
        places = [TopicAndPartition(topic, one.index) for one in metadata.partitions(topic)]
        for place, codec in zip(places, cycle(codecs), strict=False):
            for start in range(first, first + count, AT_ONCE):
                rows = values(start, min(AT_ONCE, first + count - start), size)
                data = bytes(batch(*rows, codec=codec, magic=magic))
                wait_for(partial(is_written, metadata, config, place, data, start))
    return dict.fromkeys(places, first + count)


def is_written(
    metadata: ClusterMetadata, config: ClientConfig, place: TopicAndPartition, data: bytes, offset: int
) -> bool:
    """Whether the leader took it. One that has just started refuses for a while, a dead one is replaced."""
    part = ProducePartition(index=place.partition, records=data)
    topics = [ProduceTopic(name=place.topic, partition_data=[part])]
    try:
        address = metadata.leader(*place).node.address
        with Connection.open(address, config) as connection:
            request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
            (told,) = connection.call(request, at_most=NAMES_UNTIL).responses[0].partition_responses
    except OttlaError:
        metadata.refresh([place.topic])
        return False
    assert told.base_offset in {offset, -1}
    if told.error_code:
        metadata.refresh([place.topic])
    return told.error_code == 0
