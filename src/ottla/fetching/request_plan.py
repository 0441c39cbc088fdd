"""Which partitions to ask a broker for next, how much of each, and how long it may wait. Pure.

Partitions stand in turns: what got data, or has none, goes to the back. So whoever is at the front has waited
longest, and from Fetch 3 on the first partition with data gets at least one batch, however large. A request
takes partitions from the front until they are likely to fill an answer; the rest has its turn later.
Partitions at their log's end cost an answer nothing and do not count.

Before Fetch 3 there is no limit for the whole answer. There, what is asked for is the limit, and everything
that was asked goes to the back, or those at the log's end would hold the front for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.fetching.budget import Budget
from ottla.fetching.config import FetchConfig
from ottla.fetching.cursor import Cursor
from ottla.fetching.feed import Want
from ottla.fetching.places import TopicAndPartition
from ottla.model.cluster_view import NO_TOPIC_ID
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic

LIMITED_SINCE = 3
"""Fetch has a limit for the whole answer, and the order of partitions counts."""
TOPIC_IDS_SINCE = 13
FULL_WAIT_MS = 5
"""A reader is about to take a chunk: the broker shall not be waiting for others by then."""
RESPONSE_BYTES = 2 << 20
"""More in one answer only makes it leave the processor's cache before it is decoded."""
NO_SESSION, FULL_FETCH = 0, -1


class Asked(NamedTuple):
    """What one partition is asked for; an answer counts while all of it still holds."""

    cursor: Cursor
    generation: int
    offset: int
    size: int

    @property
    def is_current(self) -> bool:
        """Whether the cursor still waits for this very answer."""
        cursor = self.cursor
        return (
            cursor.generation == self.generation and cursor.position == self.offset and cursor.lookup is None
        )


@dataclass(slots=True)
class FetchPlan:
    """`asked` by partition, in order. If it is empty, the next thing to do is at `wake_at_ms`, if ever.

    `held_bytes` of the budget are for the answer.
    """

    asked: dict[TopicAndPartition, Asked] = field(default_factory=dict)
    held_bytes: int = 0
    max_wait_ms: int = 0
    max_bytes: int = 0
    wake_at_ms: float | None = None

    def wake_by(self, at_ms: float) -> None:
        """There is something to look at then."""
        self.wake_at_ms = at_ms if self.wake_at_ms is None else min(self.wake_at_ms, at_ms)


class Turn(NamedTuple):
    """What is wanted of a partition, and how much of it may be asked for."""

    cursor: Cursor
    want: Want
    size: int


def plan_fetch(
    turns: Iterable[Turn],
    config: FetchConfig,
    *,
    budget: Budget,
    now_ms: float,
    is_limited: bool,
) -> FetchPlan:
    """The next request. `turns` has each partition, the longest waiting first.

    What the answer will take is held of the budget at once, so that a turn that is made later sees it.
    """
    plan = FetchPlan(max_wait_ms=config.fetch_wait_max_ms)
    most = config.fetch_message_max_bytes
    target = min(config.fetch_max_bytes, max(RESPONSE_BYTES, most)) if is_limited else config.fetch_max_bytes
    filled = 0
    for cursor, want, size in turns:
        if want is Want.FULL:
            plan.max_wait_ms = min(plan.max_wait_ms, FULL_WAIT_MS)
            plan.wake_by(now_ms + config.max_processing_time_ms)  # then it may be parked
        elif want is Want.PARKED:
            # It comes back when its reader is done, which nobody tells the broker.
            plan.max_wait_ms = min(plan.max_wait_ms, max(FULL_WAIT_MS, config.max_processing_time_ms))
        elif want is Want.FETCH and cursor.retry_at_ms > now_ms:
            plan.wake_by(cursor.retry_at_ms)
        elif want is Want.FETCH and cursor.can_be_asked:
            likely = cursor.likely_bytes(size) if is_limited else size
            if plan.asked and filled + likely > target:
                break
            plan.asked[cursor.feed.topic_partition] = Asked(cursor, cursor.generation, cursor.ahead, size)
            filled += likely
            plan.held_bytes += cursor.chunk_bytes(likely)
            budget.hold(cursor.chunk_bytes(likely))
    plan.max_bytes = target
    if plan.wake_at_ms is not None:
        plan.max_wait_ms = max(0, min(plan.max_wait_ms, int(plan.wake_at_ms - now_ms)))
    return plan


def newest_version(cursors: Iterable[Cursor]) -> int | None:
    """The highest Fetch version that can name these topics: from 13 on all of them need ids."""
    return None if all(one.topic_id != NO_TOPIC_ID for one in cursors) else TOPIC_IDS_SINCE - 1


def fetch_request(plan: FetchPlan, config: FetchConfig) -> FetchRequest:
    """The plan as a request, in order; neighbours of one topic stand together."""
    topics: list[FetchTopic] = []
    name: str | None = None
    for (topic, partition), asked in plan.asked.items():
        if topic != name:
            name = topic
            topics.append(FetchTopic(topic=topic, topic_id=asked.cursor.topic_id, partitions=[]))
        topics[-1].partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=asked.cursor.leader_epoch,
                fetch_offset=asked.offset,
                partition_max_bytes=asked.size,
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
    )
