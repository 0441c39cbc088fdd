"""Fetched chunks of one partition on their way to its reader, and whether more may be fetched.

`ChunkQueue.room` decides that anew each time, from what is queued and from the partition's share of memory:

    OPEN    below the limit
    FULL    at the limit. Usually lasts milliseconds, so fetches of the broker's other partitions are kept
            short meanwhile.
    PARKED  at the limit, and the reader took no chunk for max.processing.time. The others are fetched as if
            the partition were not there, until the reader has taken all chunks.

No locks and no clock: the feed has both.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from ottla.fetching.budget import FetchBudget
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.typed_records import NO_SCHEMAS, KeyAndValue, TypedRecords, typed_records


@dataclass(frozen=True, slots=True)
class FetchedDataChunk:
    """Records of one partition in order, as Arrow columns (`ottla.records.columns`).

    `fetch_offset` is the offset that was requested. `next_offset` is where to continue after the chunk:
    commit it once the chunk is processed. It is not always the last record's offset + 1. `high_watermark` is
    the log's end when the chunk was fetched. The batch is never empty.
    """

    topic_partition: TopicAndPartition
    batch: pa.RecordBatch
    fetch_offset: int
    next_offset: int
    high_watermark: int
    nbytes: int
    schemas: KeyAndValue = NO_SCHEMAS

    def decoded(self) -> TypedRecords:
        """Decode keys and values by their schemas: `table` has the records, `refused` the bad ones with
        reasons.
        """
        return typed_records(self.batch, self.schemas)

    @property
    def table(self) -> pa.Table:
        """The records that can be decoded, with typed columns `key` and `value`.

        Decodes at each use, as `decoded`.
        """
        return self.decoded().table


class Room(Enum):
    """Whether a partition may be fetched."""

    OPEN = "open"
    FULL = "full"
    PARKED = "parked"


class ChunkQueue:
    """At most `chunks_max` chunks; their bytes count against a budget."""

    __slots__ = (
        "_budget",
        "_chunks",
        "_chunks_max",
        "_is_parked",
        "_patience_ms",
        "_waiting_since_ms",
        "nbytes",
    )

    def __init__(self, *, chunks_max: int, patience_ms: float, budget: FetchBudget) -> None:
        self._budget = budget
        self._chunks: deque[FetchedDataChunk] = deque()
        self._chunks_max = chunks_max
        self._patience_ms = patience_ms
        self._waiting_since_ms = 0.0
        self._is_parked = False
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def is_parked(self) -> bool:
        """Whether the reader was too slow and has not caught up yet."""
        return self._is_parked

    def put(self, chunk: FetchedDataChunk, now_ms: float) -> None:
        """Append a chunk. Nothing is refused here: `room` is checked before a fetch."""
        if not self._chunks:
            self._waiting_since_ms = now_ms
        self._chunks.append(chunk)
        self._hold(chunk.nbytes)

    def extend_last(self, next_offset: int) -> bool:
        """Let the last chunk cover the offsets up to `next_offset`, which have no records.

        Returns False if there is no chunk.
        """
        if not self._chunks:
            return False
        self._chunks[-1] = replace(self._chunks[-1], next_offset=next_offset)
        return True

    def take(self, now_ms: float) -> FetchedDataChunk | None:
        """Take the oldest chunk; None if there is none."""
        if not self._chunks:
            return None
        chunk = self._chunks.popleft()
        self._hold(-chunk.nbytes)
        self._waiting_since_ms = now_ms
        if not self._chunks:
            self._is_parked = False
        return chunk

    def clear(self) -> None:
        """Drop all chunks, after a seek."""
        self._chunks.clear()
        self._hold(-self.nbytes)
        self._is_parked = False

    def _hold(self, nbytes: int) -> None:
        self.nbytes += nbytes
        self._budget.hold(nbytes)

    def room(self, now_ms: float, *, share_bytes: int, expected_bytes: int, pending_bytes: int = 0) -> Room:
        """Return whether a chunk of about `expected_bytes` may be requested.

        If `pending_bytes` is not 0, a chunk of about that size has been received and is not queued yet.
        `share_bytes` is what this queue may hold at present. One chunk is always allowed, however large:
        otherwise a small share would stop a partition.
        """
        if self._is_parked:
            return Room.PARKED
        count = len(self._chunks) + (pending_bytes > 0)
        held = self.nbytes + pending_bytes + expected_bytes
        if count < self._chunks_max and (count == 0 or held <= share_bytes):
            return Room.OPEN
        if self._chunks and now_ms - self._waiting_since_ms >= self._patience_ms:
            self._is_parked = True
            return Room.PARKED
        return Room.FULL
