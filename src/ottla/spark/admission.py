"""How many records the next micro-batch gets. Pure.

maxOffsetsPerTrigger is divided among the partitions in proportion to their backlogs. Every partition with a
backlog gets at least one record, so that a small one does not starve beside a large one.
minOffsetsPerTrigger delays a batch until that many records wait, or until maxTriggerDelay has passed since
the last batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ottla.spark.offset_json import Offsets

MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The options that limit the size of a batch. None means no limit."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = MAX_TRIGGER_DELAY_MS


def backlog(start: Offsets, latest: Offsets) -> int:
    """Return the number of offsets to read. A partition that is not in `start` counts from offset 0."""
    return sum(max(0, end - start.get(topic_partition, 0)) for topic_partition, end in latest.items())


def is_held_back(waiting: int, since_last_batch_ms: float, limits: BatchLimits) -> bool:
    """Whether the next batch has to wait for more records."""
    if limits.min_offsets is None:
        return False
    return waiting < limits.min_offsets and since_last_batch_ms < limits.max_delay_ms


def limited(start: Offsets, latest: Offsets, most: int | None) -> Offsets:
    """Return the end of the batch by partition: about `most` offsets after `start`, by the rule above.

    `start` has every partition of `latest`. A partition whose log ends before its start belongs to a topic
    that was deleted and created again: it is not limited, and the caller decides what to do about it.
    """
    sizes = {
        topic_partition: end - start[topic_partition]
        for topic_partition, end in latest.items()
        if end > start[topic_partition]
    }
    total = sum(sizes.values())
    if most is None or total <= most:
        return dict(latest)
    ends = dict(latest)
    for topic_partition, size in sizes.items():
        share = most * size / total
        ends[topic_partition] = min(
            latest[topic_partition],
            start[topic_partition] + (math.ceil(share) if share < 1 else math.floor(share)),
        )
    return ends
