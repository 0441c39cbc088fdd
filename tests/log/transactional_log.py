"""A log with transactions, written to and read as a broker does it, without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.broker.producer_state import ProducerStates, load, save
from ottla.log.end_markers import EndMarker, marker_batch
from ottla.log.log_config import DAY_MS, LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.undecided import StoredAbort
from ottla.log.validation import checked
from ottla.model.errors import StorageError
from ottla.records.reader import decode
from ottla.records.transactions import AbortedRange
from ottla.wire.api import fetch as wire
from tests.log.faulty_files import FullDisk
from tests.log.record_sets import NOW, batch, open_log

SMALL = LogConfig(segment_bytes=1500, index_interval_bytes=200)


class TransactionalLog:
    """A log with its producers, written to as a broker does it."""

    def __init__(self, path: Path, config: LogConfig = SMALL) -> None:
        self.path, self.config = path, config
        self.disk = FullDisk()
        self.states = ProducerStates()
        self.log: PartitionLog = open_log(path, config, self.disk)

    def stage(
        self, value: bytes | None, producer_id: int = -1, *, key: bytes = b"k", transactional: bool = True
    ) -> int:
        """A record; the offset that it gets."""
        stamp: dict[str, Any] = {}
        if producer_id >= 0:
            state = self.states.get(producer_id)
            sequence = 0 if state is None else state.last_sequence + 1
            epoch = 0 if state is None else state.epoch
            stamp = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        data = batch((key, value), transactional=transactional and producer_id >= 0, **stamp)
        accepted = checked(data, self.config, NOW)
        header = accepted.batches[0]
        if producer_id >= 0:
            assert self.states.check(header) is None
        offset = self.log.append(accepted, NOW).base_offset
        if producer_id >= 0:
            self.states.stage(header, offset)
        return offset

    def end(self, producer_id: int, *, is_commit: bool, epochs: int = 0) -> int:
        """Stage a marker, which begins a later epoch by as many; its offset."""
        state = self.states.get(producer_id)
        epoch = (0 if state is None else state.epoch) + epochs
        marker = EndMarker(producer_id, epoch, 0, is_commit)
        self.states.check_marker(marker)
        aborted = self.states.aborted_by(marker, self.log.next_offset)
        offset = self.log.append(marker_batch(marker, NOW), NOW, 0, aborted).base_offset
        self.states.stage_marker(marker, NOW)
        return offset

    def write(self) -> bool:
        """End the turn; whether it was written."""
        try:
            self.log.write_staged()
        except StorageError:
            self.states.rollback()
            return False
        self.states.commit()
        return True

    def reopen(self, *, is_clean: bool) -> None:
        if is_clean:
            save(self.states, self.log)
            self.log.close()
        else:
            self.log.abandon()
        known = {"clean": is_clean, "start_offset": self.log.start_offset}
        known["recovery_point"] = self.log.recovery_point
        self.log = open_log(self.path, self.config, self.disk, **known)
        self.states = ProducerStates()
        load(self.states, self.log, NOW, DAY_MS)

    @property
    def stable(self) -> int:
        first = self.states.first_unstable
        return self.log.high_watermark if first < 0 else max(first, self.log.start_offset)

    def committed(self, offset: int, max_bytes: int = 400) -> list[tuple[int, bytes | None]]:
        """(offset, value) of all that a reader of committed data gets, by fetches of few bytes."""
        return [(at, value) for at, _, value in self.committed_rows(offset, max_bytes)]

    def committed_rows(self, offset: int, max_bytes: int = 400) -> Iterator[tuple[int, bytes, bytes | None]]:
        """The same with keys."""
        while offset < self.stable:
            data = self.log.read(offset, max_bytes, end_offset=self.stable)
            if not data:
                return
            aborted = [told(item) for item in self.log.aborted(offset, len(data), self.stable)]
            found = decode(data, from_offset=offset, aborted=aborted)
            columns = (found.batch.column(name).to_pylist() for name in ("offset", "key", "value"))
            yield from zip(*columns, strict=True)
            offset = found.next_offset


def told(aborted: StoredAbort) -> AbortedRange:
    """As a fetch response has it."""
    return wire.AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
