"""Which partitions to request from a broker next, how much of each, and how long it may wait. Pure.

Partitions are in a queue. A partition that got records, or has none, goes to the back, so the first one has
waited longest. From Fetch 3 on the first partition with records gets at least one batch, however large. A
request takes partitions from the front until they are likely to fill a response. Partitions at their log's
end add nothing to a response and do not count.

Before Fetch 3 there is no limit for the whole response. Then the requested sizes are the limit, and all
requested partitions go to the back; otherwise those at the log's end would stay at the front for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.fetching.budget import FetchBudget
from ottla.fetching.cursor import Cursor
from ottla.fetching.feed_interface import Want
from ottla.fetching.fetch_config import FetchConfig
from ottla.model.cluster_view import NO_TOPIC_ID
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.entries import Entries
from ottla.wire.api.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic

LIMITED_SINCE = 3
"""From this version on Fetch limits the whole response, and the order of partitions matters."""
TOPIC_IDS_SINCE = 13
FULL_WAIT_MS = 5
"""How long the broker may wait while a queue is full: its reader will take a chunk soon."""
RESPONSE_BYTES = 2 << 20
"""A larger response would leave the processor's cache before it is decoded."""
TOGETHER_BYTES = 256 << 10
"""Records of small partitions are decoded and queued together up to this size."""
NO_SESSION, FULL_FETCH = 0, -1


class PartitionRequest(NamedTuple):
    """What is requested of one partition. The response counts only while `is_current`."""

    cursor: Cursor
    generation: int
    offset: int
    size: int

    @property
    def is_current(self) -> bool:
        """Whether the cursor still waits for the response to this request."""
        cursor = self.cursor
        return (
            cursor.generation == self.generation and cursor.position == self.offset and cursor.lookup is None
        )


class ReceivedRecords(NamedTuple):
    """Records that were received and are not decoded yet; their entries, if they are found already."""

    request: PartitionRequest
    answer: FetchPartitionResponse
    scanned: Entries | None = None


def smoothed(average: float | None, value: float) -> float:
    """Return a running average after another value."""
    return value if average is None else 0.9 * average + 0.1 * value


def together(received: Iterable[ReceivedRecords]) -> Iterator[list[ReceivedRecords]]:
    """Yield records in groups of TOGETHER_BYTES."""
    group: list[ReceivedRecords] = []
    nbytes = 0
    for records in received:
        group.append(records)
        nbytes += len(records.answer.records or b"")
        if nbytes >= TOGETHER_BYTES:
            yield group
            group, nbytes = [], 0
    yield group


@dataclass(slots=True)
class FetchPlan:
    """`requests` by partition, in order. If there are none, look again at `wake_at_ms`; None: when woken.

    `held_bytes` of the budget are reserved for the response.
    """

    requests: dict[TopicAndPartition, PartitionRequest] = field(default_factory=dict)
    held_bytes: int = 0
    max_wait_ms: int = 0
    max_bytes: int = 0
    wake_at_ms: float | None = None
    _names: dict[bytes, str] = field(default_factory=dict)

    def names(self) -> dict[bytes, str]:
        """Return the names of the requested topics by their ids."""
        if not self._names:
            self._names = {
                request.cursor.topic_id: topic_partition.topic
                for topic_partition, request in self.requests.items()
            }
        return self._names

    def wake_by(self, at_ms: float) -> None:
        """Look again at `at_ms` at the latest."""
        self.wake_at_ms = at_ms if self.wake_at_ms is None else min(self.wake_at_ms, at_ms)


class FetchTurn(NamedTuple):
    """A partition, what its feed wants, and how many bytes may be requested.

    `request` is there if the partition rests: nothing has changed since it was requested last.
    """

    cursor: Cursor
    want: Want
    size: int
    request: PartitionRequest | None = None


def turn_of(cursor: Cursor, most: int, budget: FetchBudget) -> FetchTurn:
    """Ask the feed what it wants, and go where its reader has sought. A request has at most `most` bytes."""
    if cursor.resting is not None:
        return cursor.resting
    pending_bytes = cursor.chunk_bytes(cursor.pending_bytes)
    share_bytes = budget.share_bytes(cursor.feed.queued_bytes + pending_bytes)
    size = cursor.request_bytes(most, share_bytes)
    wanted = cursor.feed.wanted(
        share_bytes=share_bytes, expected_bytes=cursor.chunk_bytes(size), pending_bytes=pending_bytes
    )
    cursor.follow(wanted)
    return FetchTurn(cursor, wanted.want, size)


def plan_fetch(
    turns: Iterable[FetchTurn],
    config: FetchConfig,
    *,
    budget: FetchBudget,
    now_ms: float,
    is_limited: bool,
    first_bytes: float | None = None,
) -> FetchPlan:
    """Plan the next request. `turns` has all partitions, the one that has waited longest first.

    `first_bytes` is what partitions have usually filled the first time.

    The memory for the response is taken from the budget at once, so that later turns see it.
    """
    plan = FetchPlan(max_wait_ms=config.fetch_wait_max_ms)
    most = config.fetch_message_max_bytes
    target = min(config.fetch_max_bytes, max(RESPONSE_BYTES, most)) if is_limited else config.fetch_max_bytes
    filled = 0
    for cursor, want, size, resting in turns:
        if resting is not None:
            plan.requests[cursor.feed.topic_partition] = resting
        elif want is Want.FULL:
            plan.max_wait_ms = min(plan.max_wait_ms, FULL_WAIT_MS)
            plan.wake_by(now_ms + config.max_processing_time_ms)  # by then the partition may be parked
        elif want is Want.PARKED:
            # The partition is fetched again when its reader has taken all chunks; the broker may still
            # be waiting then.
            plan.max_wait_ms = min(plan.max_wait_ms, max(FULL_WAIT_MS, config.max_processing_time_ms))
        elif want is Want.FETCH and (cursor.retry_at_ms > now_ms or cursor.lookup is not None):
            plan.wake_by(cursor.retry_at_ms)
        elif want is Want.FETCH and cursor.can_be_fetched:
            likely = cursor.likely_bytes(size, first_bytes) if is_limited else size
            if plan.requests and filled + likely > target:
                break
            request = PartitionRequest(cursor, cursor.generation, cursor.ahead, size)
            plan.requests[cursor.feed.topic_partition] = request
            if not likely and cursor.can_rest:
                cursor.resting = FetchTurn(cursor, want, size, request)
            filled += likely
            plan.held_bytes += cursor.chunk_bytes(likely)
            budget.hold(cursor.chunk_bytes(likely))
    plan.max_bytes = target
    if plan.wake_at_ms is not None:
        plan.max_wait_ms = max(0, min(plan.max_wait_ms, int(plan.wake_at_ms - now_ms)))
    return plan


def newest_version(cursors: Iterable[Cursor]) -> int | None:
    """Return the highest Fetch version that can name these topics; None: any version.

    From version 13 on all topics need ids.
    """
    return None if all(cursor.topic_id != NO_TOPIC_ID for cursor in cursors) else TOPIC_IDS_SINCE - 1


def fetch_request(plan: FetchPlan, config: FetchConfig) -> FetchRequest:
    """Return the plan as a request, in its order; neighbours of the same topic share an entry."""
    topics: list[FetchTopic] = []
    name: str | None = None
    for (topic, partition), request in plan.requests.items():
        if topic != name:
            name = topic
            topics.append(FetchTopic(topic=topic, topic_id=request.cursor.topic_id, partitions=[]))
        topics[-1].partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=request.cursor.leader_epoch,
                fetch_offset=request.offset,
                partition_max_bytes=request.size,
            )
        )
    return FetchRequest(
        max_wait_ms=plan.max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=plan.max_bytes,
        isolation_level=int(config.isolation_level),
        session_id=NO_SESSION,
        session_epoch=FULL_FETCH,
        topics=topics,
        rack_id=config.client_rack,
    )
