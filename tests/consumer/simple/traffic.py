"""Who writes what the tests read."""

from __future__ import annotations

import time

from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.metadata import ClusterMetadata
from ottla.consumer.simple import FetchRequest, FetchRequestBuilder
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.log.record_sets import batch
from tests.waiting import PATIENCE_S

NAMES_UNTIL = 12  # of Produce: later versions have ids


def write(bootstrap: str, topic: str, *values: bytes, partition: int = 0, broker_version: str = "") -> None:
    """Each value in a batch of its own, so that offsets and sizes are known. Makes the topic if need be."""
    config = ClientConfig.from_properties({"bootstrap.servers": bootstrap, "broker.version": broker_version})
    magic = 0 if broker_version else 2
    now_ms = int(time.time() * 1000)
    with ClusterMetadata(config) as metadata:
        node = metadata.leader(topic, partition).node
    with Connection.open(node.address, config) as connection:
        for value in values:
            data = bytes(batch((None, value), timestamp=now_ms, magic=magic))
            part = ProducePartition(index=partition, records=data)
            topics = [ProduceTopic(name=topic, partition_data=[part])]
            request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
            deadline = time.monotonic() + PATIENCE_S
            # A broker that has just made a topic refuses for a while.
            while error := _produced(connection, request):
                assert time.monotonic() < deadline, error
                time.sleep(0.02)


def _produced(connection: Connection, request: ProduceRequest) -> int:
    (told,) = connection.call(request, at_most=NAMES_UNTIL).responses[0].partition_responses
    return told.error_code


def one_fetch(topic: str, offset: int = 0, fetch_size: int = 100_000, partition: int = 0) -> FetchRequest:
    """A request for one partition that does not wait."""
    return FetchRequestBuilder().add_fetch(topic, partition, offset, fetch_size).build()
