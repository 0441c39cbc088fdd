"""How far one partition is fetched. A cursor belongs to one thread at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.fetching.budget import FetchBudget
from ottla.fetching.feed_interface import BY_RESET_POLICY, Feed, Wanted
from ottla.fetching.fetch_config import OffsetReset
from ottla.model.cluster_view import NO_EPOCH, NO_TOPIC_ID, PartitionLeader
from ottla.model.offset_spec import EARLIEST, LATEST

if TYPE_CHECKING:
    from ottla.fetching.request_plan import FetchTurn

FETCH_BYTES_MIN = 16 << 10
CHUNK_BYTES_MAX = 16 << 20
"""The largest part of a response that is decompressed at once; the rest is requested again."""
CHUNK_BYTES_TIGHT = 1 << 20
"""The same limit while memory is short."""
EXPANSION_MIN = 2.0
"""Columns of ten-byte records take twice the memory of the records.

For compressed records the factor is measured.
"""
UNKNOWN_PART = 8
"""A partition that was never fetched is expected to fill an eighth of its limit, until others show what is
usual: most partitions are short or idle.
"""


def lookup_time(lookup: int, reset: OffsetReset) -> int | None:
    """Return the time for ListOffsets; None if auto.offset.reset leaves the decision to the user."""
    if lookup != BY_RESET_POLICY:
        return lookup
    return {OffsetReset.SMALLEST: EARLIEST, OffsetReset.LARGEST: LATEST}.get(reset)


class ReadReplica(NamedTuple):
    """The replica that the leader has named to read from (KIP-392), until the leader is asked again."""

    broker_id: int
    until_ms: float


@dataclass(slots=True)
class Cursor:
    """The position of a fetch, and what is known for the next one.

    - `position`: everything before it is in the feed.
    - `ahead`: where the next request begins; beyond `position` while a response of `pending_bytes` waits to
      be decoded.
    - `lookup`: LATEST, EARLIEST or BY_RESET_POLICY while the offset has to be looked up.
    - `lag`: how many offsets the log has from `ahead` on; None before the first response.
    - `offset_bytes`: the average size of one offset in a response; 0 before the first record.
    - `failures`: failed tries in a row; `stops`: those that have stopped the partition.
    - `replica`: the replica that is read instead of the leader.
    - `resting`: the last turn, while the partition is at its log's end, nothing waits for its reader, and its
      reader has ordered nothing: then it is requested again without a question.
    """

    feed: Feed
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
    stops: int = 0
    retry_at_ms: float = 0.0
    replica: ReadReplica | None = None
    resting: FetchTurn | None = None

    @property
    def can_rest(self) -> bool:
        """Whether it is at its log's end, and nothing waits for its reader."""
        return self.lag == 0 and not self.pending_bytes and not self.feed.queued_bytes

    @property
    def leader_epoch(self) -> int:
        """The leader's epoch; -1 while it is not known. A leader of another epoch refuses the request."""
        return self.leader.epoch if self.leader is not None else NO_EPOCH

    @property
    def can_be_fetched(self) -> bool:
        """Whether the next offset is known, and the reader wants what is there."""
        is_known = self.lookup is None and not (self.pending_bytes and self.ahead == self.position)
        return is_known and self.ahead < self.feed.stop_offset

    def follow(self, wanted: Wanted) -> None:
        """Go where the reader has sought, if a seek has begun a new generation."""
        if wanted.generation != self.generation:
            self.generation = wanted.generation
            self.succeeded()
            self.stops = 0
            self.go_to(wanted.start) if wanted.start >= 0 else self.look_up(wanted.start)

    def go_to(self, offset: int) -> None:
        """Continue at an offset. Responses to requests for other offsets will be ignored."""
        self.position = self.ahead = offset
        self.lookup = self.resting = None
        self.pending_bytes = 0
        self.fetch_bytes = 0
        self.lag = None

    def look_up(self, time: int) -> None:
        """Continue at an offset that has to be looked up."""
        self.lookup = time
        self.resting = None
        self.pending_bytes = 0

    def rewind(self) -> None:
        """Go back to `position`: requests beyond it are not used."""
        self.ahead = self.position
        self.resting = None
        self.pending_bytes = 0

    def request_bytes(self, most: int, share_bytes: int) -> int:
        """Return how many bytes to request: `most`, or less if many partitions share the memory."""
        fair = max(FETCH_BYTES_MIN, int(min(share_bytes, CHUNK_BYTES_MAX) / self.expansion))
        return min(most, max(fair, self.fetch_bytes))

    def chunk_bytes(self, wire_bytes: int) -> int:
        """Return how much memory `wire_bytes` of a response will probably take at most."""
        return int(wire_bytes * self.expansion)

    def chunk_bytes_max(self, budget: FetchBudget) -> int:
        """Return how many bytes of the next response may be decompressed at once."""
        own_bytes = self.feed.queued_bytes + self.chunk_bytes(self.pending_bytes)
        has_room = budget.share_bytes(own_bytes) >= own_bytes
        return CHUNK_BYTES_MAX if has_room else CHUNK_BYTES_TIGHT

    def likely_bytes(self, most: int, first_bytes: float | None = None) -> int:
        """Return how many bytes this partition will probably fill in a response, at most `most`.

        `first_bytes` is what others have filled the first time.
        """
        if self.lag is None:
            unknown = most // UNKNOWN_PART if first_bytes is None else int(first_bytes)
            return min(most, max(FETCH_BYTES_MIN, unknown))
        return min(most, int(self.lag * self.offset_bytes)) if self.offset_bytes or not self.lag else most

    def learn(self, wire_bytes: int, chunk_bytes: int, offsets: int) -> None:
        """Note that `wire_bytes` of a response became `chunk_bytes` of memory and covered `offsets`.

        The expansion grows at once and shrinks slowly, so that memory does not run out.
        """
        seen = max(EXPANSION_MIN, chunk_bytes / max(1, wire_bytes))
        self.expansion = seen if seen >= self.expansion else 0.9 * self.expansion + 0.1 * seen
        self.offset_bytes = wire_bytes / max(1, offsets)

    def succeeded(self) -> None:
        """Note that the broker answered without an error."""
        self.failures = 0
        self.retry_at_ms = 0.0


class Departure(NamedTuple):
    """A partition that needs another broker, and the error; None if there was none."""

    cursor: Cursor
    reason: Exception | None = None
