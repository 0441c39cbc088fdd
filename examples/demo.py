"""The main job, as far as it exists: ad events into record batches, over the protocol, into Arrow.

    events ── partition, encode ──▶ record batches ── Fetch ──▶ bytes ── decode ──▶ Arrow ──▶ a table

Both ends of the connection are the real protocol state machines; only the socket between them is missing.
Exits with 0 only if every check held.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla import __version__
from ottla.records.builder import encode
from ottla.records.compression import Codec
from ottla.records.hashes import key_partition_column
from ottla.records.reader import decode
from ottla.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from ottla.wire.client_connection import Answer, ClientConnection
from ottla.wire.negotiation import Discovery, Question
from ottla.wire.primitives import Buffer
from ottla.wire.schema import Request, Response
from ottla.wire.server_connection import Call, ServedApis, ServerConnection
from ottla.wire.versions import VersionRange

TOPIC = "ExternalAdService"
EVENTS = 200_000
PARTITIONS = 4
START_MS = 1_700_000_000_000
KINDS = ("view", "click", "buy")


def ad_events() -> pa.Table:
    """Three minutes of ad events, keyed by user."""
    random = np.random.default_rng(seed=7)
    users = random.integers(0, 5_000, EVENTS)
    kinds = random.choice(KINDS, EVENTS, p=(0.90, 0.09, 0.01))
    cents = random.integers(1, 500, EVENTS)
    values = [
        f'{{"user":{user},"kind":"{kind}","cents":{price}}}'
        for user, kind, price in zip(users, kinds, cents, strict=True)
    ]
    return pa.table(
        {
            "key": pa.array([f"user-{user}" for user in users]),
            "value": pa.array(values),
            "timestamp": pa.array(START_MS + np.arange(EVENTS) * 180_000 // EVENTS),
        }
    )


def partitioned(events: pa.Table) -> list[list[memoryview]]:
    """The record batches of each partition, as a producer would send them."""
    places = key_partition_column(events["key"], PARTITIONS)
    codecs = (Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY)
    return [
        encode(events.filter(pc.equal(places, place)), codec=codecs[place], batch_bytes=64 * 1024)
        for place in range(PARTITIONS)
    ]


class Loopback:
    """A client and a broker's side of one connection, each fed with the bytes of the other."""

    def __init__(self, partitions: list[list[memoryview]]) -> None:
        self.partitions = [b"".join(batches) for batches in partitions]
        self.bytes_moved = 0
        served = {
            api.key: VersionRange(0, api.version_newest) for api in (FetchRequest.API, ApiVersionsRequest.API)
        }
        self.ranges = served
        self.client = ClientConnection(client_id="demo")
        self.server = ServerConnection(served=ServedApis(served))

    def discover(self) -> None:
        """Ask the broker for its versions and adopt them."""
        discovery = Discovery(software_version=__version__)
        plan = discovery.start()
        while isinstance(plan, Question):
            plan = discovery.answered(self.ask(plan.request, version=plan.version).message)
        self.client.adopt(plan.versions)

    def ask(self, request: Request[Any], *, version: int | None = None) -> Answer:
        """Send a request and wait for its answer, like a blocking client."""
        self._move(self.client.send(request, version=version).parts, self.server)
        call = self.server.next_event()
        assert isinstance(call, Call)
        self.server.respond(call, self._handle(call))
        self._move(self.server.take_output(), self.client)
        answer = self.client.next_event()
        assert isinstance(answer, Answer)
        return answer

    def _move(self, parts: list[Buffer], target: ClientConnection | ServerConnection) -> None:
        data = memoryview(b"".join(parts))
        self.bytes_moved += len(data)
        while data:
            room = target.get_buffer()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            target.received(count)
            data = data[count:]

    def _handle(self, call: Call) -> Response:
        if isinstance(call.message, ApiVersionsRequest):
            keys = [
                ApiVersion(api_key=key, min_version=served.oldest, max_version=served.newest)
                for key, served in self.ranges.items()
            ]
            return ApiVersionsResponse(api_keys=keys)
        assert isinstance(call.message, FetchRequest)
        return FetchResponse(
            responses=[
                FetchTopicResponse(
                    topic=topic.topic,
                    partitions=[
                        FetchPartitionResponse(
                            partition_index=wanted.partition, records=self.partitions[wanted.partition]
                        )
                        for wanted in topic.partitions
                    ],
                )
                for topic in call.message.topics
            ]
        )


def fetched(connection: Loopback) -> pa.Table:
    """All partitions in one Fetch, decoded."""
    wanted = [FetchPartition(partition=place, partition_max_bytes=1 << 30) for place in range(PARTITIONS)]
    request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=wanted)])
    response = connection.ask(request, version=12).message
    assert isinstance(response, FetchResponse)
    tables = []
    for partition in response.responses[0].partitions:
        assert partition.records is not None
        decoded = decode(partition.records)
        assert decoded.damage is None
        assert decoded.next_offset == decoded.batch.num_rows
        place = pa.array(np.full(decoded.batch.num_rows, partition.partition_index, np.int32))
        tables.append(pa.Table.from_batches([decoded.batch]).append_column("partition", place))
    return pa.concat_tables(tables)


def per_minute(records: pa.Table) -> pa.Table:
    """How many events of each kind in each minute."""
    kind = pc.struct_field(pc.extract_regex(records["value"].cast(pa.string()), r'"kind":"(?P<kind>\w+)"'), 0)
    minute = pc.floor_temporal(records["timestamp"], unit="minute")
    table = pa.table({"minute": minute, "kind": kind})
    return (
        table.group_by(["minute", "kind"])
        .aggregate([([], "count_all")])
        .sort_by([("minute", "ascending"), ("count_all", "descending")])
    )


def main() -> None:
    """Run the whole way and print what happened."""
    print(f"ottla {__version__}: {EVENTS:,} ad events over {PARTITIONS} partitions of {TOPIC}")
    events = ad_events()
    partitions = partitioned(events)
    connection = Loopback(partitions)
    connection.discover()
    fetched(connection)  # the first run compiles the kernels, or loads them from the cache
    started = time.perf_counter()
    records = fetched(connection)
    seconds = time.perf_counter() - started
    print(f"fetched and decoded {records.num_rows:,} records in {seconds * 1e3:.0f} ms")
    for place in range(PARTITIONS):
        rows = pc.sum(pc.equal(records["partition"], place)).as_py()
        size = sum(map(len, partitions[place]))
        batches = len(partitions[place])
        print(f"  partition {place}: {rows:>7,} records in {batches:>3} batches, {size:>9,} bytes")
    print("\nminute               kind      events")
    for row in per_minute(records).to_pylist():
        print(f"{row['minute']:%Y-%m-%d %H:%M}     {row['kind']:<6} {row['count_all']:>9,}")
    assert records.num_rows == EVENTS
    sent = sorted(events["value"].cast(pa.binary()).to_pylist())
    assert sorted(records["value"].to_pylist()) == sent
    print("\nevery event arrived once")


if __name__ == "__main__":
    main()
