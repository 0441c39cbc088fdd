"""Where the fetching of one partition is. Owned by one thread at a time and handed on whole."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.fetching.feed import BY_RESET_POLICY, PartitionFeed, Wanted
from ottla.model.cluster_view import NO_EPOCH, NO_TOPIC_ID, PartitionLeader

FETCH_BYTES_MIN = 16 << 10
CHUNK_BYTES_MAX = 16 << 20
"""How much one answer may be when it is decompressed; what is left of it is asked for again."""
CHUNK_BYTES_TIGHT = 1 << 20
"""The same if that much memory is not left, which nobody knew before the answer came."""
EXPANSION_MIN = 2.0
"""Records of ten bytes take twice as much as columns; what was compressed takes more, which is measured."""
UNKNOWN_PART = 8
"""A partition that was never asked for is taken to fill an eighth of what it may: most are short or idle, and
what is behind them in the request comes at the latest with the next one."""


@dataclass(slots=True)
class Cursor:
    """`position`: all before it is in the feed. `ahead`: where the next request begins, which is further
    while an answer of `pending_bytes` waits to be decoded. `lookup` is LATEST, EARLIEST or BY_RESET_POLICY
    while the offset has to be asked for. `lag`: how many offsets the log has from `ahead` on; None before the
    first answer. `offset_bytes`: how much of an answer one of them takes; 0 before the first record."""

    feed: PartitionFeed
    generation: int = -1
    position: int = -1
    ahead: int = -1
    lookup: int | None = BY_RESET_POLICY
    leader: PartitionLeader | None = None
    topic_id: bytes = NO_TOPIC_ID
    pending_bytes: int = 0
    lag: int | None = None
    offset_bytes: float = 0.0
    expansion: float = EXPANSION_MIN
    fetch_bytes: int = 0
    failures: int = 0
    retry_at_ms: float = 0.0

    @property
    def leader_epoch(self) -> int:
        """The epoch that the leader is believed to have, so that one of another epoch refuses."""
        return self.leader.epoch if self.leader is not None else NO_EPOCH

    @property
    def can_be_asked(self) -> bool:
        """Whether it is known where the next request begins: not while what came may be damaged at once."""
        return self.lookup is None and not (self.pending_bytes and self.ahead == self.position)

    def follow(self, wanted: Wanted) -> None:
        """The reader began a new generation: go there."""
        if wanted.generation != self.generation:
            self.generation = wanted.generation
            self.place(wanted.start) if wanted.start >= 0 else self.look_up(wanted.start)

    def place(self, offset: int) -> None:
        """Go on at an offset; what is under way from elsewhere will be ignored."""
        self.position = self.ahead = offset
        self.lookup = None
        self.pending_bytes = 0
        self.fetch_bytes = 0
        self.lag = None

    def look_up(self, time: int) -> None:
        """Go on at an offset that has to be asked for."""
        self.lookup = time
        self.pending_bytes = 0

    def rewind(self) -> None:
        """What was asked for ahead is given up: go on behind what is in the feed."""
        self.ahead = self.position
        self.pending_bytes = 0

    def request_bytes(self, most: int, share_bytes: int) -> int:
        """How much to ask for: `most`, less if many partitions share the memory, more if that cut a batch."""
        fair = max(FETCH_BYTES_MIN, int(min(share_bytes, CHUNK_BYTES_MAX) / self.expansion))
        return min(most, max(fair, self.fetch_bytes))

    def chunk_bytes(self, wire_bytes: int) -> int:
        """How much memory so many bytes of an answer will take at most, as far as is known."""
        return int(wire_bytes * self.expansion)

    def likely_bytes(self, most: int) -> int:
        """How much of an answer it will fill that may bring `most`."""
        if self.lag is None:
            return most // UNKNOWN_PART
        return min(most, int(self.lag * self.offset_bytes)) if self.offset_bytes or not self.lag else most

    def learn(self, wire_bytes: int, chunk_bytes: int, offsets: int) -> None:
        """So many bytes became so many, and brought the cursor so far.

        The expansion grows at once and shrinks slowly: memory is what must not run over.
        """
        seen = max(EXPANSION_MIN, chunk_bytes / max(1, wire_bytes))
        self.expansion = seen if seen >= self.expansion else 0.9 * self.expansion + 0.1 * seen
        self.offset_bytes = wire_bytes / max(1, offsets)

    def succeeded(self) -> None:
        """The broker answered without an error."""
        self.failures = 0
        self.retry_at_ms = 0.0
