"""How far the next micro-batch goes: admission control, without a broker and without a clock.

maxOffsetsPerTrigger is divided among partitions by how far each is behind, and every partition that is
behind gets at least one record, so that a small one does not starve beside a large one.
minOffsetsPerTrigger holds a batch back until there is enough for it, or maxTriggerDelay has passed since
the last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ottla.spark.offset_json import Offsets

MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """What the options say about the size of a batch. None is no limit."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = MAX_TRIGGER_DELAY_MS


def backlog(start: Offsets, latest: Offsets) -> int:
    """How many offsets there are to read; partitions that are new count whole."""
    return sum(max(0, end - start.get(place, 0)) for place, end in latest.items())


def is_held_back(waiting: int, since_last_batch_ms: float, limits: Limits) -> bool:
    """Whether a batch waits for more records."""
    if limits.min_offsets is None:
        return False
    return waiting < limits.min_offsets and since_last_batch_ms < limits.max_delay_ms


def limited(start: Offsets, latest: Offsets, most: int | None) -> Offsets:
    """Where the batch ends: at most so many offsets behind `start`, or a few more, by the rule above.

    `start` has every partition of `latest`. A partition whose log ends before its start (a topic that was
    made anew) is not held back: what to do about it is decided by whoever plans the batch.
    """
    sizes = {place: end - start[place] for place, end in latest.items() if end > start[place]}
    total = sum(sizes.values())
    if most is None or total <= most:
        return dict(latest)
    ends = dict(latest)
    for place, size in sizes.items():
        share = most * size / total
        ends[place] = min(
            latest[place], start[place] + (math.ceil(share) if share < 1 else math.floor(share))
        )
    return ends
