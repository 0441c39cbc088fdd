"""The main job, as far as it exists: ad events through a Kafka broker, into Arrow, into a table.

    events ── partition, encode ──▶ batches ── Produce ──▶ broker ── Fetch ──▶ decode ──▶ Arrow ──▶ a table

The broker runs in this process and is a real one: any Kafka client could connect to the address that is
printed. The client here is a few lines over a socket. Exits with 0 only if every check held.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla import EmbeddedBroker, __version__
from ottla.records.builder import encode
from ottla.records.compression import Codec
from ottla.records.hashes import key_partition_column
from ottla.records.reader import decode
from ottla.testing.blocking_client import BlockingClient
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic

TOPIC = "ExternalAdService"
EVENTS = 200_000
PARTITIONS = 4
BATCH_ROWS = 1_000
START_MS = 1_700_000_000_000
KINDS = ("view", "click", "buy")
BY_NAME = 12
"""The newest version of Produce and Fetch that calls topics by their names; later ones use ids."""


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
    """The record batches of each partition, as a producer makes them: by the key's hash, each codec once."""
    places = key_partition_column(events["key"], PARTITIONS)
    codecs = (Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY)
    return [batches(events.filter(pc.equal(places, place)), codecs[place]) for place in range(PARTITIONS)]


def batches(rows: pa.Table, codec: Codec) -> list[memoryview]:
    """Each is what one request carries: brokers take one batch a partition, numbered from 0."""
    starts = range(0, rows.num_rows, BATCH_ROWS)
    return [encode(rows.slice(start, BATCH_ROWS), codec=codec)[0] for start in starts]


def produce(client: BlockingClient, partitions: list[list[memoryview]]) -> None:
    """Send every batch and wait for its acknowledgement."""
    for place, pieces in enumerate(partitions):
        for batch in pieces:
            data = ProduceTopic(name=TOPIC, partition_data=[ProducePartition(index=place, records=batch)])
            answer = client.call(
                ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), version=BY_NAME
            )
            acknowledged = answer.responses[0].partition_responses[0]
            assert acknowledged.error_code == 0, acknowledged.error_message


def fetch(client: BlockingClient) -> Iterator[pa.Table]:
    """All records, as often as the broker has more, in Arrow tables with their partition."""
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    while offsets:
        wanted = [
            FetchPartition(partition=place, fetch_offset=offset, partition_max_bytes=1 << 20)
            for place, offset in offsets.items()
        ]
        request = FetchRequest(
            max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=wanted)]
        )
        for answer in client.call(request, version=BY_NAME).responses[0].partitions:
            place = answer.partition_index
            decoded = decode(answer.records or b"", from_offset=offsets[place])
            yield pa.Table.from_batches([decoded.batch]).append_column(
                "partition", pa.array(np.full(decoded.batch.num_rows, place, np.int32))
            )
            offsets[place] = max(decoded.next_offset, offsets[place])
            if offsets[place] == answer.high_watermark:
                del offsets[place]


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


def report(records: pa.Table, partitions: list[list[memoryview]]) -> None:
    """What arrived: by partition, and by minute and kind."""
    for place, pieces in enumerate(partitions):
        rows = pc.sum(pc.equal(records["partition"], place)).as_py()
        size = sum(map(len, pieces))
        print(f"  partition {place}: {rows:>7,} records in {len(pieces):>3} batches, {size:>9,} bytes")
    print("\nminute               kind      events")
    for row in per_minute(records).to_pylist():
        print(f"{row['minute']:%Y-%m-%d %H:%M}     {row['kind']:<6} {row['count_all']:>9,}")


class Stopwatch:
    """Milliseconds since the last look."""

    def __init__(self) -> None:
        self._at = time.perf_counter()

    def ms(self) -> str:
        """As text, and from now on anew."""
        before, self._at = self._at, time.perf_counter()
        return f"{(self._at - before) * 1e3:,.0f} ms"


def main() -> None:
    """Run the whole way and print what happened."""
    print(f"ottla {__version__}: {EVENTS:,} ad events over {PARTITIONS} partitions of {TOPIC}")
    events = ad_events()
    partitions = partitioned(events)
    decode(partitions[0][0])  # the first use compiles the kernels, or loads them from the cache
    watch = Stopwatch()
    with EmbeddedBroker() as broker:
        print(f"a broker listens on {broker.bootstrap} after {watch.ms()}")
        broker.create_topic(TOPIC, PARTITIONS)
        with BlockingClient("127.0.0.1", broker.port) as client:
            watch.ms()
            produce(client, partitions)
            print(f"produced {sum(map(len, partitions))} batches in {watch.ms()}")
            records = pa.concat_tables(fetch(client))
            print(f"fetched and decoded {records.num_rows:,} records in {watch.ms()}")
    report(records, partitions)
    assert records.num_rows == EVENTS
    sent = sorted(events["value"].cast(pa.binary()).to_pylist())
    assert sorted(records["value"].to_pylist()) == sent
    print("\nevery event arrived once")


if __name__ == "__main__":
    main()
