"""Reads topic t into a database, exactly once by the ledger. For tests that kill it.

python -m tests.offsets.ledger_worker DATABASE BOOTSTRAP PARTITIONS RECORDS-OF-EACH engine|group

It imports everything, and then forks a worker for each line of its input, so that a killed worker costs no
new interpreter. It prints the worker's pid, a line for every stored transaction, and how the worker ended.
A worker reads all partitions by a fetch engine, or as the only member of a group.
"""

from __future__ import annotations

import os
import sys

from ottla.client.client_config import ClientConfig
from ottla.consumer.coordinated import GroupConsumer, RebalanceListener
from ottla.consumer.coordinated.member_state import PartitionSet
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.engine import FetchEngine
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.inbox import Inbox
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import OffsetLedger
from tests.offsets.database_servers import connect


def tell(text: object) -> None:
    os.write(1, f"{text}\n".encode())


class Store:
    """The database: results, and the positions with them."""

    def __init__(self, address: str, records: int) -> None:
        self._connection = connect(address)
        self._records = records
        self.ledger = OffsetLedger(self._connection, group_id="worker")
        mark = "%s" if address.startswith("postgresql") else "?"
        self._insert = f"INSERT INTO results VALUES ({mark}, {mark}, {mark})"

    @property
    def is_full(self) -> bool:
        positions = self.ledger.positions
        return bool(positions) and all(position >= self._records for position in positions.values())

    def put(self, chunk: FetchedDataChunk) -> None:
        columns = zip(chunk.batch["offset"].to_pylist(), chunk.batch["value"].to_pylist(), strict=True)
        rows = [(chunk.topic_partition.partition, offset, value.decode()) for offset, value in columns]
        with self.ledger.transaction() as cursor:
            cursor.executemany(self._insert, rows)
            self.ledger.record(cursor, chunk.topic_partition, chunk.next_offset)
        tell("stored")


def read_by_engine(store: Store, bootstrap: str, partitions: int) -> None:
    starts = store.ledger.start([TopicAndPartition("t", number) for number in range(partitions)], 0)
    config = FetchConfig(fetch_message_max_bytes=1000, fetch_wait_max_ms=50)
    with FetchEngine(ClientConfig.from_properties({"bootstrap.servers": bootstrap}), config) as engine:
        inbox = Inbox()
        for place, offset in starts.items():
            assert isinstance(offset, int)
            engine.add(place, offset, inbox=inbox)
        while not store.is_full:
            chunk = inbox.poll(60_000)
            assert chunk is not None
            store.put(chunk)


class OwnPositions(RebalanceListener):
    """A member that reads on where its results end, whatever the group has committed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.consumer: GroupConsumer | None = None

    def on_assigned(self, partitions: PartitionSet) -> None:
        assert self.consumer is not None
        for place, offset in self._store.ledger.start(partitions, 0).items():
            self.consumer.seek(place, offset)


def read_by_group(store: Store, bootstrap: str, partitions: int) -> None:
    del partitions  # the group knows
    listener = OwnPositions(store)
    listener.consumer = GroupConsumer(
        "t",
        group_id="workers",
        bootstrap_servers=bootstrap,
        group_instance_id="worker",  # the next one need not wait until this one's session is over
        enable_auto_commit=False,
        fetch_message_max_bytes=1000,
        fetch_wait_max_ms=50,
        listener=listener,
    )
    with listener.consumer as consumer:
        while not store.is_full:
            chunk = consumer.poll(60)
            assert chunk is not None
            store.put(chunk)


def main() -> None:
    address, bootstrap, partitions, records, reader = sys.argv[1:]
    read = {"engine": read_by_engine, "group": read_by_group}[reader]
    tell("ready")
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            tell(os.getpid())
            read(Store(address, int(records)), bootstrap, int(partitions))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        tell(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()
