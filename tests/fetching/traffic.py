"""Who writes numbered records to leaders wherever they are; who checks that each was read once, in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.model.closing import Closing
from ottla.model.error_codes import Code
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.compression import Codec
from ottla.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from ottla.wire.schema import Request
from tests.blocking_client import BlockingClient
from tests.log.record_sets import batch, values
from tests.waiting import PATIENCE_S

NAMES_UNTIL = 12  # of Produce: later versions have ids


class Writer(Closing):
    """Record n of a partition has the offset n and the value b"v<n>-…", through brokers that move and die."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._clients: dict[tuple[str, int], BlockingClient] = {}
        self._leaders: dict[TopicAndPartition, tuple[str, int]] = {}
        self.ends: dict[TopicAndPartition, int] = {}

    def write(
        self,
        place: TopicAndPartition,
        count: int,
        *,
        size: int = 20,
        at_once: int = 100,
        codec: Codec = Codec.NONE,
    ) -> None:
        """So many more records, in batches."""
        for first in range(self.ends.get(place, 0), self.ends.get(place, 0) + count, at_once):
            rows = values(first, min(at_once, self.ends.get(place, 0) + count - first), size)
            self._produce(place, bytes(batch(*rows, codec=codec)), first)
        self.ends[place] = self.ends.get(place, 0) + count

    def _produce(self, place: TopicAndPartition, data: bytes, offset: int) -> None:
        part = ProducePartition(index=place.partition, records=data)
        topic = ProduceTopic(name=place.topic, partition_data=[part])
        answer = self.at_leader(
            place,
            ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]),
            lambda told: told.responses[0].partition_responses[0].error_code,
        )
        (told,) = answer.responses[0].partition_responses
        assert told.base_offset == offset, f"{place}: written at {told.base_offset}, not {offset}"

    def delete_before(self, place: TopicAndPartition, offset: int) -> None:
        """Move the start of the log."""
        part = DeleteRecordsPartition(partition_index=place.partition, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=place.topic, partitions=[part])], timeout_ms=10_000
        )
        self.at_leader(place, request, lambda told: told.topics[0].partitions[0].error_code)

    def at_leader(
        self, place: TopicAndPartition, request: Request[Any], error_of: Callable[[Any], int]
    ) -> Any:
        """The answer of the leader, whoever that is by now."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                client = self._leader(place)
                version = min(NAMES_UNTIL, client.version_for(request.API))
                answer = client.call(request, version=version)
                if error_of(answer) == Code.NONE:
                    return answer
                problem: object = error_of(answer)
            except (OSError, OttlaError, LookupError) as error:
                problem = error
            assert time.monotonic() < deadline, f"{place}: {problem}"
            self._forget(place)
            time.sleep(0.01)

    def _leader(self, place: TopicAndPartition) -> BlockingClient:
        if place not in self._leaders:
            with self._any() as client:
                asked = MetadataRequest(topics=[MetadataTopic(name=place.topic)])
                told = client.call(asked)
            (found,) = [one for one in told.topics[0].partitions if one.partition_index == place.partition]
            (node,) = [one for one in told.brokers if one.node_id == found.leader_id]
            self._leaders[place] = (node.host, node.port)
        address = self._leaders[place]
        if address not in self._clients:
            self._clients[address] = BlockingClient(*address)
        return self._clients[address]

    def _any(self) -> BlockingClient:
        failure: Exception | None = None
        for address in self._bootstrap.split(","):
            host, _, port = address.rpartition(":")
            try:
                return BlockingClient(host, int(port))
            except (OSError, OttlaError) as error:
                failure = error
        raise LookupError(f"no broker is up: {failure}")

    def _forget(self, place: TopicAndPartition) -> None:
        address = self._leaders.pop(place, None)
        client = self._clients.pop(address, None) if address else None
        if client is not None:
            client.close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()


class Ledger:
    """What has been read: each record once, in order, with the value that was written."""

    def __init__(self, start: int = 0) -> None:
        self._start = start
        self.nexts: dict[TopicAndPartition, int] = {}

    def enter(self, chunk: FetchedDataChunk) -> None:
        place = chunk.topic_partition
        expected = self.nexts.get(place, self._start)
        offsets = chunk.batch.column("offset").to_pylist()
        assert offsets == list(range(expected, expected + len(offsets))), f"{place}: not from {expected} on"
        for offset, value in zip(offsets, chunk.batch.column("value"), strict=True):
            assert value.as_py().startswith(b"v%d-" % offset)
        self.nexts[place] = chunk.next_offset

    def read(
        self, poll: Callable[[float], FetchedDataChunk | None], ends: dict[TopicAndPartition, int]
    ) -> None:
        """Until all of it is here."""
        deadline = time.monotonic() + PATIENCE_S
        while any(self.nexts.get(place, self._start) < end for place, end in ends.items()):
            chunk = poll(1000)
            if chunk is not None:
                self.enter(chunk)
            assert time.monotonic() < deadline, f"read up to {self.nexts}, not {ends}"
