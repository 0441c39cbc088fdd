"""The main job, as far as it exists: ad events through a Kafka broker, into Arrow, into a table.

    events ── Producer ──▶ broker ── PartitionConsumer, while they come ──▶ counts
                              └───── replay, afterwards ──▶ Arrow ──▶ a table

The broker runs in this process and is a real one: any Kafka client could connect to the address that is
printed. Exits with 0 only if every check held.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla import EmbeddedBroker, PartitionConsumer, Producer, __version__, replay

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


def count_online(bootstrap: str, counts: Counter[int]) -> None:
    """Count the events of each partition as they come, until all are there."""
    with PartitionConsumer(bootstrap_servers=bootstrap) as consumer:
        for partition in range(PARTITIONS):
            consumer.consume_partition(TOPIC, partition, "earliest")
        for chunk in consumer.chunks(timeout_ms=60_000):
            counts[chunk.topic_partition.partition] += chunk.batch.num_rows
            if counts.total() == EVENTS:
                return


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


def check(events: pa.Table, records: pa.Table, counts: Counter[int]) -> None:
    """Both ways have every event once, and each user's events in their order."""
    assert records.num_rows == EVENTS
    found = Counter(records["partition"].to_pylist())
    assert found == counts, f"online {counts}, offline {found}"
    by_user = [("key", "ascending"), ("timestamp", "ascending"), ("value", "ascending")]
    columns = ["key", "timestamp", "value"]
    read = records.select(columns).cast(
        pa.schema([("key", "string"), ("timestamp", "int64"), ("value", "string")])
    )
    assert read.sort_by(by_user) == events.select(columns).sort_by(by_user)
    for partition in range(PARTITIONS):
        times = (
            records.filter(pc.equal(records["partition"], partition))["timestamp"].cast("int64").to_numpy()
        )
        assert (np.diff(times) >= 0).all(), f"partition {partition} is out of order"


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
    counts: Counter[int] = Counter()
    watch = Stopwatch()
    with EmbeddedBroker() as broker:
        broker.create_topic(TOPIC, PARTITIONS, config={"retention.ms": "-1"})
        print(f"a broker listens on {broker.bootstrap} after {watch.ms()}")
        online = threading.Thread(target=count_online, args=(broker.bootstrap, counts))
        online.start()
        with Producer(bootstrap_servers=broker.bootstrap, compression_type="lz4") as producer:
            producer.send_batch(TOPIC, events)
            producer.flush()
            print(f"produced in {watch.ms()}, the first use of the kernels among it")
        online.join()
        print(f"read by a consumer that waited for them; it was done {watch.ms()} later")
        with replay(TOPIC, bootstrap_servers=broker.bootstrap) as everything:
            records = pa.Table.from_batches(everything)
        print(f"read again, as a table, in {watch.ms()}")
    for partition in range(PARTITIONS):
        print(f"  partition {partition}: {counts[partition]:>7,} events")
    print("\nminute               kind      events")
    for row in per_minute(records).to_pylist():
        print(f"{row['minute']:%Y-%m-%d %H:%M}     {row['kind']:<6} {row['count_all']:>9,}")
    check(events, records, counts)
    print("\nevery event arrived once")


if __name__ == "__main__":
    main()
