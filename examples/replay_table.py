"""Read the part of a topic between two times into an Arrow table. No group, no commit, nothing is changed.

Prints:

    ranges {0: (5, 10), 1: (5, 10)}
    10 rows, the first at 12:10
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc

from ottla import EmbeddedBroker, Producer, replay

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def main() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 2, config={"retention.ms": "-1"})
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for minute in range(60):
                time_ms = round((NOON + timedelta(minutes=minute)).timestamp() * 1000)
                producer.send("orders", b"order", partition=minute % 2, timestamp_ms=time_ms)

        with replay(
            "orders",
            since=NOON + timedelta(minutes=10),
            until=NOON + timedelta(minutes=20),
            bootstrap_servers=broker.bootstrap,
        ) as part:
            ranges = {partition: (offsets.start, offsets.stop) for partition, offsets in part.ranges.items()}
            print("ranges", ranges)
            table = part.to_table()
        first = pc.min(table["timestamp"]).as_py()
        print(table.num_rows, "rows, the first at", first.astimezone(UTC).strftime("%H:%M"))


if __name__ == "__main__":
    main()
