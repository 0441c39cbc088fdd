"""Reads topic t into a database, exactly once by the ledger. For tests that kill it.

python -m tests.offsets.ledger_worker DATABASE BOOTSTRAP PARTITIONS RECORDS-OF-EACH

It imports everything, and then forks a worker for each line of its input, so that a killed worker costs no
new interpreter. It prints the worker's pid, a line for every stored transaction, and how the worker ended.
"""

from __future__ import annotations

import os
import sys

from ottla.client.config import ClientConfig
from ottla.fetching import FetchConfig, FetchEngine, Inbox, TopicAndPartition
from ottla.offsets import OffsetLedger
from tests.offsets.database_servers import connect


def tell(text: object) -> None:
    os.write(1, f"{text}\n".encode())


def work(address: str, bootstrap: str, partitions: int, records: int) -> None:
    connection = connect(address)
    ledger = OffsetLedger(connection, "worker")
    mark = "%s" if address.startswith("postgresql") else "?"
    insert = f"INSERT INTO results VALUES ({mark}, {mark}, {mark})"
    starts = ledger.start(TopicAndPartition("t", number) for number in range(partitions))
    config = FetchConfig(fetch_message_max_bytes=1000, fetch_wait_max_ms=50)
    with FetchEngine(ClientConfig.from_properties({"bootstrap.servers": bootstrap}), config) as engine:
        inbox = Inbox()
        for place, offset in starts.items():
            engine.add(place, offset, inbox=inbox)
        while any(position < records for position in ledger.positions.values()):
            chunk = inbox.poll(60_000)
            assert chunk is not None
            rows = [
                (chunk.topic_partition.partition, offset, value.decode())
                for offset, value in zip(
                    chunk.batch["offset"].to_pylist(), chunk.batch["value"].to_pylist(), strict=True
                )
            ]
            with ledger.transaction() as cursor:
                cursor.executemany(insert, rows)
                ledger.record(cursor, chunk.topic_partition, chunk.next_offset)
            tell("stored")
    connection.close()


def main() -> None:
    address, bootstrap, partitions, records = sys.argv[1:]
    tell("ready")
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            tell(os.getpid())
            work(address, bootstrap, int(partitions), int(records))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        tell(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
