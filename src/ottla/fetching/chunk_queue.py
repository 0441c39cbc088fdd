"""Fetched chunks of one partition on their way to its reader, and whether more may be fetched.

    OPEN ── so many chunks or bytes wait ──▶ FULL ── the reader takes none for max.processing.time ──▶ PARKED
      ▲                                        │                                                          │
      └──────── the reader takes one ──────────┘                                                          │
      └──────────────────────────────── the reader has taken all ─────────────────────────────────────────┘

FULL is a matter of milliseconds, so fetches of the broker's other partitions are kept short meanwhile; PARKED
lasts, and they go on as if the partition were not there. No locks and no clock: the feed has both.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from ottla.fetching.budget import Budget
from ottla.fetching.places import TopicAndPartition


@dataclass(frozen=True, slots=True)
class FetchedDataChunk:
    """Records of one partition in order, as Arrow columns (`ottla.records.columns`).

    `fetch_offset` is what was asked for, `next_offset` where to go on behind it: to be committed once the
    chunk is processed. It is not always the last record's offset + 1. `high_watermark` is the log's end when
    the chunk was fetched. The batch is never empty.
    """

    topic_partition: TopicAndPartition
    batch: pa.RecordBatch
    fetch_offset: int
    next_offset: int
    high_watermark: int
    nbytes: int


class Room(Enum):
    """Whether a partition may be fetched."""

    OPEN = "open"
    FULL = "full"
    PARKED = "parked"


class ChunkQueue:
    """At most `chunks_max` chunks, whose bytes are held of a budget."""

    __slots__ = (
        "_budget",
        "_chunks",
        "_chunks_max",
        "_is_parked",
        "_patience_ms",
        "_waiting_since_ms",
        "nbytes",
    )

    def __init__(self, *, chunks_max: int, patience_ms: float, budget: Budget) -> None:
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
        """Append. What was fetched is kept, so nothing is refused here: `room` is asked before."""
        if not self._chunks:
            self._waiting_since_ms = now_ms
        self._chunks.append(chunk)
        self._hold(chunk.nbytes)

    def extend_last(self, next_offset: int) -> bool:
        """Offsets without records follow the last chunk: it covers them too. False if there is none."""
        if not self._chunks:
            return False
        self._chunks[-1] = replace(self._chunks[-1], next_offset=next_offset)
        return True

    def take(self, now_ms: float) -> FetchedDataChunk | None:
        """The oldest chunk, if there is one."""
        if not self._chunks:
            return None
        chunk = self._chunks.popleft()
        self._hold(-chunk.nbytes)
        self._waiting_since_ms = now_ms
        if not self._chunks:
            self._is_parked = False
        return chunk

    def clear(self) -> None:
        """Forget all chunks: the reader goes elsewhere."""
        self._chunks.clear()
        self._hold(-self.nbytes)
        self._is_parked = False

    def _hold(self, nbytes: int) -> None:
        self.nbytes += nbytes
        self._budget.hold(nbytes)

    def room(self, now_ms: float, *, share_bytes: int, expected_bytes: int, pending_bytes: int = 0) -> Room:
        """Whether one more chunk of about `expected_bytes` may be asked for.

        A chunk of about `pending_bytes` has been received and is not in the queue yet, if they are not 0;
        `share_bytes` is what this queue may hold at present. One chunk is always allowed, however large, or a
        small share would stop a partition.
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
