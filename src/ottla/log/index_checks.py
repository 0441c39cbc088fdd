"""The check of a segment's two indexes against its batches, in one pass over the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.log import file_names
from ottla.log.file_system import REAL
from ottla.log.offset_index import OffsetIndex
from ottla.log.time_index import TimeIndex
from ottla.log.verification import SoundBatch
from ottla.model.record_layout import NO_TIMESTAMP


class IndexCheck:
    """Give it every sound batch in order (`see`), then ask for the `faults`."""

    def __init__(self, directory: Path, base_offset: int) -> None:
        path = file_names.segment_file(directory, base_offset, file_names.INDEX)
        self._offsets = OffsetIndex(path, base_offset, 1, REAL)
        path = file_names.segment_file(directory, base_offset, file_names.TIME_INDEX)
        self._times = TimeIndex(path, base_offset, 2, REAL)
        self._is_sound = {
            file_names.INDEX: self._offsets.load(1 << 62),
            file_names.TIME_INDEX: self._times.load(),
        }
        self._entries = iter(self._offsets.entries())
        self._entry = next(self._entries, None)
        self._time_entries = iter(self._times.entries())
        self._time_entry = next(self._time_entries, None)
        self._newest = NO_TIMESTAMP
        self._next_offset = base_offset

    def see(self, batch: SoundBatch) -> None:
        """Compare the entries that point at this batch."""
        while self._entry is not None and self._entry[1] <= batch.start:
            offset, position = self._entry
            # Zeros are where Kafka begins, and what it allots.
            if position and (position != batch.start or offset < self._next_offset):
                self._is_sound[file_names.INDEX] = False
            self._entry = next(self._entries, None)
        self._newest = max(self._newest, batch.timestamp)
        while self._time_entry is not None and self._time_entry[1] <= batch.last_offset:
            if self._time_entry[0] != self._newest:
                self._is_sound[file_names.TIME_INDEX] = False
            self._time_entry = next(self._time_entries, None)
        self._next_offset = batch.last_offset + 1

    def faults(self, log_bytes: int, *, is_active: bool) -> Iterator[tuple[str, str]]:
        """(suffix, what is wrong) of each index that does not fit the batches."""
        if self._entry is not None and self._entry[1] >= log_bytes:
            self._is_sound[file_names.INDEX] = False
        if not is_active and self._times.last[0] < self._newest:
            self._is_sound[file_names.TIME_INDEX] = False  # a sealed segment's index has its largest time
        for suffix, is_sound in self._is_sound.items():
            index = self._offsets if suffix == file_names.INDEX else self._times
            if not is_sound and index.path.exists():  # one that is missing is rebuilt by the next start
                yield suffix, "its entries do not fit the log"
