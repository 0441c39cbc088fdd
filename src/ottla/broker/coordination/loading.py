"""Loading a partition of a coordinator's topic: all of its records are replayed, then clients are served."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.broker.coordination.effects import Record
from ottla.broker.coordination.topic_records import TopicRecords
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.record_batches import StoredRecord
from ottla.broker.storage.runtime import Runtime
from ottla.log.reading import ColdRead
from ottla.model.errors import OttlaError, RemoteProtocolError
from ottla.wire.primitives import Buffer

log = logging.getLogger(__name__)

AT_ONCE_BYTES = 1 << 16
"""Logs up to this size are loaded in one go, in some 10 ms: less than a client's first retry."""

SLICE_RECORDS = 2000
"""Records of a larger log that are replayed in one turn of the loop: some 10 ms again."""

Replay = Callable[[Record, int | None], None]
"""Applies a record; the second argument is the producer of its transaction if that is open.

Raises RemoteProtocolError.
"""


class PartitionLoads:
    """The loads of one coordinator. Owned by the loop. `finish` gets the number of a partition."""

    def __init__(self, runtime: Runtime, replay: Replay, finish: Callable[[int], None]) -> None:
        self._runtime = runtime
        self._replay_record = replay
        self._finish = finish
        self._loads: dict[int, object] = {}  # by partition: the load that is under way

    def begin(self, partition: Partition) -> None:
        """Load a partition that this broker leads now. If its log is offline, it stays unavailable."""
        if partition.log is None:
            return
        load = self._loads[partition.index] = object()
        self._load(partition, load, TopicRecords(partition.log.start_offset, partition.log.high_watermark))

    def cancel(self, partition: Partition) -> None:
        """Stop loading a partition that another broker leads now."""
        self._loads.pop(partition.index, None)

    def _load(self, partition: Partition, load: object, gathered: TopicRecords) -> None:
        """Read the log, one piece in each turn of the loop, then replay it."""
        if self._loads.get(partition.index) is not load or partition.log is None:
            return  # another broker leads it by now, or it went offline
        is_small = partition.log.size <= AT_ONCE_BYTES
        try:
            while piece := gathered.piece(partition.log):
                if not is_small:
                    run = self._runtime.loop.run_in_executor
                    work = run(self._runtime.readers, _taken, gathered, piece)
                    work.add_done_callback(
                        lambda done: self._loaded(partition, load, gathered, done.result())
                    )
                    return
                gathered.take(piece)
        except OttlaError as error:
            _log_unavailable(partition, error)
        else:
            self._replay(partition, load, gathered.in_order(), gathered.open_producers())

    def _loaded(
        self, partition: Partition, load: object, gathered: TopicRecords, error: OttlaError | None
    ) -> None:
        if error is None:
            self._load(partition, load, gathered)
        else:
            _log_unavailable(partition, error)

    def _replay(
        self,
        partition: Partition,
        load: object,
        records: list[StoredRecord],
        producers: dict[int, int],
        start: int = 0,
    ) -> None:
        """Replay records from `start` on, SLICE_RECORDS in each turn of the loop."""
        if self._loads.get(partition.index) is not load:
            return  # another broker leads it by now
        end = start + SLICE_RECORDS
        for record in records[start:end]:
            try:
                self._replay_record(Record(record.key or b"", record.value), producers.get(record.offset))
            except RemoteProtocolError as error:
                log.error("%s offset %d cannot be loaded: %s", partition, record.offset, error)
        if end < len(records):
            self._runtime.loop.call_soon(self._replay, partition, load, records, producers, end)
            return
        self._finish(partition.index)


def _taken(gathered: TopicRecords, piece: Buffer | ColdRead) -> OttlaError | None:
    """Read and decode a piece in a thread. Returns the error, or None."""
    try:
        gathered.take(piece)
    except OttlaError as error:
        return error
    return None


def _log_unavailable(partition: Partition, error: OttlaError) -> None:
    text = "%s cannot be loaded, so what it coordinates stays unavailable until it is led anew: %s"
    log.error(text, partition, error)
