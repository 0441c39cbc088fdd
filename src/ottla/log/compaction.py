"""Compaction: of each key, only the last value stays. Offsets never change; gaps appear.

1. `KeyOffsets` is filled from the dirty part: sealed segments that were not yet compacted.
2. Segments from the start of the log to the end of the map are copied, in groups that fit one segment, into a
   `.log.cleaned` file; a record stays if no later one of its key is known, and it is not a tombstone that is
   old enough. The file is flushed, renamed to `.swap` (which decides), and put in the place of the group.

Tombstones (null values) stay for delete.retention.ms after they became clean, so that a reader who saw the
value sees its end. As in Kafka before 3.1 the times of the files tell: a segment older than the last clean
segment by more than that loses its tombstones.

A group's last batch stays, empty if it must, so that the file covers the group's offsets: recovery needs that
to know what it replaces. The last batch of each producer stays for its sequence number. Control batches stay.
May run in another thread than the owner's only while the owner leaves the log alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.log import file_names
from ottla.log.batch_header import BatchHeader
from ottla.log.batch_rewrite import with_records, without_records
from ottla.log.config import LogConfig
from ottla.log.key_offsets import KeyOffsets
from ottla.log.offset_index import ENTRY_BYTES, RELATIVE_OFFSET_MAX
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.model.errors import StorageError
from ottla.records.messages import binary_values
from ottla.records.reader import decode

KEYS_MAX = 1_000_000  # about 150 MB of dictionary: the memory limit of a whole broker
WRITE_BYTES = 1 << 20


class Compaction(NamedTuple):
    """What a run did. `first_dirty_offset` is where the next one starts: keep it in a checkpoint."""

    first_dirty_offset: int
    bytes_before: int
    bytes_after: int
    records_dropped: int


class Record(NamedTuple):
    """What the choice looks at."""

    offset: int
    key: bytes | None
    is_tombstone: bool


class Keeping(NamedTuple):
    """The rule of one run. Records at and above `mapped_to` are not known yet and stay."""

    keys: KeyOffsets
    drop_tombstones: bool

    def keeps(self, record: Record) -> bool:
        """Whether a record stays."""
        if record.offset >= self.keys.mapped_to:
            return True
        if record.key is None or self.keys.is_superseded(record.key, record.offset):
            return False
        return not (record.is_tombstone and self.drop_tombstones)


def cleanable_segments(log: PartitionLog, now_ms: int) -> list[Segment]:
    """All but the active segment, up to the first with a record younger than min.compaction.lag.ms."""
    lag, found = log.config.min_compaction_lag_ms, []
    for segment in log.segments[:-1]:
        if lag and segment.largest_timestamp > now_ms - lag:
            break
        found.append(segment)
    return found


def dirty_ratio(log: PartitionLog, first_dirty_offset: int, now_ms: int) -> float:
    """Bytes of cleanable segments that were not compacted yet, against all of theirs.

    A log is due when it is above min.cleanable.dirty.ratio; the dirtiest first.
    """
    segments = cleanable_segments(log, now_ms)
    total = sum(segment.size for segment in segments)
    dirty = sum(segment.size for segment in segments if segment.next_offset > first_dirty_offset)
    return dirty / total if total else 0.0


def grouped(segments: Sequence[Segment], config: LogConfig) -> list[list[Segment]]:
    """Neighbouring segments that fit into one, by bytes, index entries and the width of relative offsets."""
    groups: list[list[Segment]] = []
    size = entries = 0
    for segment in segments:
        size += segment.size
        entries += segment.offset_index.count + 1
        fits = (
            groups
            and size <= config.segment_bytes
            and entries * ENTRY_BYTES <= config.segment_index_bytes
            and segment.next_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, entries = segment.size, segment.offset_index.count + 1
    return groups


def compact(log: PartitionLog, first_dirty_offset: int, now_ms: int, keys_max: int = KEYS_MAX) -> Compaction:
    """Run once over the log. Replaced segments' files stay as `.deleted` until `log.purge()`.

    Raises StorageError; the log is then as before, or partly compacted, and always right.
    """
    before = log.size
    segments = cleanable_segments(log, now_ms)
    keys = KeyOffsets(keys_max)
    keys.mapped_to = max(first_dirty_offset, log.start_offset)
    for segment in segments:
        if segment.next_offset > keys.mapped_to and not _map(segment, keys):
            break
    reached = [segment for segment in segments if segment.base_offset < keys.mapped_to]
    horizon_ms = _tombstone_horizon(reached, first_dirty_offset, log.config)
    last_of_producer = {header.producer_id: header.base_offset for header in log.headers()}
    dropped = 0
    for group in grouped(reached, log.config):
        dropped += _Cleaner(log, keys, horizon_ms, last_of_producer).clean(group)
    return Compaction(keys.mapped_to, before, log.size, dropped)


def _tombstone_horizon(segments: Sequence[Segment], first_dirty_offset: int, config: LogConfig) -> int:
    """Segments last written at or before this lose their tombstones."""
    clean = [segment for segment in segments if segment.next_offset <= first_dirty_offset]
    return clean[-1].modified_ms - config.delete_retention_ms if clean else 0


def _map(segment: Segment, keys: KeyOffsets) -> bool:
    """Note the last offset of each key of a segment; False if the map is full."""
    for header in segment.file.headers(0):
        if header.last_offset < keys.mapped_to:
            continue
        for record in _records(segment, header):
            if record.offset >= keys.mapped_to and not keys.add(record.key, record.offset):
                return False
        keys.mapped_to = max(keys.mapped_to, header.last_offset + 1)
    keys.mapped_to = max(keys.mapped_to, segment.next_offset)
    return True


def _records(segment: Segment, header: BatchHeader) -> Iterator[Record]:
    rows = decode(segment.file.read(header.position, header.size)).batch
    nulls = rows.column("value").is_null().to_pylist()
    offsets = rows.column("offset").to_numpy().tolist()
    for fields in zip(offsets, binary_values(rows.column("key")), nulls, strict=True):
        yield Record(*fields)


class _Cleaner:
    """Copies one group."""

    def __init__(
        self, log: PartitionLog, keys: KeyOffsets, horizon_ms: int, last_of_producer: dict[int, int]
    ) -> None:
        self._log = log
        self._keys = keys
        self._horizon_ms = horizon_ms
        self._last_of_producer = last_of_producer
        self._records_dropped = 0
        self._changed = False

    def clean(self, group: list[Segment]) -> int:
        """Replace the group, unless nothing would change; the number of records dropped."""
        files = self._log.file_system
        path = file_names.segment_file(
            self._log.path, group[0].base_offset, file_names.LOG + file_names.CLEANED
        )
        modified_ms = group[-1].modified_ms
        try:
            fd = files.open(path)
            try:
                files.truncate(fd, 0)
                size = 0
                for piece in _pieces(self._entries(group)):
                    size += files.write_all(fd, piece, size)
                files.sync(fd)
            finally:
                os.close(fd)
            if not (self._changed or len(group) > 1) or not size:
                files.remove(path)
                return 0
            files.set_modified(path, modified_ms)
        except OSError as error:
            raise StorageError(f"{path}: cannot write the compacted segment: {error}") from error
        self._log.replace_segments(group, path)
        return self._records_dropped

    def _entries(self, group: list[Segment]) -> Iterator[bytes]:
        """What stays of each batch of the group."""
        last = _last_header(group)
        for segment in group:
            keeping = Keeping(self._keys, segment.modified_ms <= self._horizon_ms)
            for header in segment.file.headers(0):
                entry = segment.file.read(header.position, header.size)
                if header.is_control:
                    yield entry
                    continue
                records = list(_records(segment, header))
                kept = {record.offset for record in records if keeping.keeps(record)}
                self._records_dropped += len(records) - len(kept)
                is_last = header.last_offset == last.last_offset
                is_needed = is_last or self._is_last_of_producer(header)
                if kept and len(kept) == len(records):
                    yield entry
                elif kept:
                    self._changed = True
                    yield with_records(memoryview(entry), header, kept)
                    if is_last and header.magic < 2 and max(kept) < header.last_offset:
                        yield without_records(header)  # a wrapper ends where its last message does
                elif is_needed and not records and header.magic == 2:
                    yield entry  # empty already
                else:
                    self._changed = True
                    if is_needed:
                        yield without_records(header)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        return header.producer_id >= 0 and self._last_of_producer[header.producer_id] == header.base_offset


def _last_header(group: list[Segment]) -> BatchHeader:
    for segment in reversed(group):
        headers = list(segment.file.headers(segment.offset_index.lookup(segment.next_offset)))
        if headers:
            return headers[-1]
    return BatchHeader(0, 0, -1, -1, 2, 0, -1, -1, 0)  # the group is empty, and so is the copy


def _pieces(entries: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Entries in lists that are worth a system call."""
    piece: list[bytes] = []
    size = 0
    for entry in entries:
        piece.append(entry)
        size += len(entry)
        if size >= WRITE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
