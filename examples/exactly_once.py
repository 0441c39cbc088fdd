"""Results and positions in one database transaction: a crash neither loses nor repeats a record.

Prints:

    crashed after storing some rows
    stored 1000 rows, 1000 different ones
"""

from __future__ import annotations

import sqlite3

from ottla import EmbeddedBroker, OffsetLedger, PartitionConsumer, Producer, TopicAndPartition

ROWS = 1000


class Crash(Exception):
    """Stands for a power cut."""


def store_orders(bootstrap: str, database: sqlite3.Connection, *, crash_after: int = -1) -> None:
    """Store the orders that are not stored yet, each chunk in a transaction with its position."""
    ledger = OffsetLedger(database, group_id="billing")
    ledger.create_table()
    with PartitionConsumer(bootstrap_servers=bootstrap) as consumer:
        partitions = [TopicAndPartition("orders", number) for number in consumer.partitions("orders")]
        for topic_partition, offset in ledger.start(partitions).items():  # where the last run stopped
            consumer.consume_partition(*topic_partition, offset)
        missing = ROWS - database.execute("SELECT count(*) FROM orders").fetchone()[0]
        for number, chunk in enumerate(consumer.chunks()):
            rows = [(int(value),) for value in chunk.batch["value"].to_pylist()]
            with ledger.transaction() as cursor:
                cursor.executemany("INSERT INTO orders VALUES (?)", rows)
                ledger.record(cursor, chunk.topic_partition, chunk.next_offset)
                if number == crash_after:
                    raise Crash  # the rows of this chunk are rolled back together with its position
            missing -= len(rows)
            if not missing:
                return


def main() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders", 2)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(ROWS):
                producer.send("orders", str(number), partition=number % 2)

        database = sqlite3.connect(":memory:")
        database.execute("CREATE TABLE orders (number INTEGER)")
        try:
            store_orders(broker.bootstrap, database, crash_after=1)
        except Crash:
            print("crashed after storing some rows")
        store_orders(broker.bootstrap, database)
        count, different = database.execute("SELECT count(*), count(DISTINCT number) FROM orders").fetchone()
        print("stored", count, "rows,", different, "different ones")
        database.close()


if __name__ == "__main__":
    main()
