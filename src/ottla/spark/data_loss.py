"""Records that a query has to read and that the logs no longer have. Pure.

With failOnDataLoss (the default) this is an error. Without it the query continues with the records that are
left, and a warning says which ones are missing.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.offset_json import Offsets
from ottla.spark.range_planner import TaskRange


class Bounds(NamedTuple):
    """Where the logs of partitions begin and end now."""

    earliest: Offsets
    latest: Offsets


class BatchRanges(NamedTuple):
    """The ranges of a batch that can be read, and a sentence for each loss."""

    ranges: list[TaskRange]
    losses: list[str]


def ranges_between(start: Offsets, end: Offsets, bounds: Bounds) -> BatchRanges:
    """The ranges of a batch, limited to the offsets that the logs have.

    A partition that is not in `start` is new and is read from its beginning. A partition whose end lies
    before its start belongs to a topic that was deleted and created again; it too is read from its
    beginning.
    """
    losses = [
        f"{topic_partition}: it was at offset {offset}, and is not there any more"
        for topic_partition, offset in sorted(start.items())
        if topic_partition not in end
    ]
    ranges: list[TaskRange] = []
    for topic_partition, until in sorted(end.items()):
        if topic_partition not in bounds.earliest:
            losses.append(
                f"{topic_partition}: offsets up to {until} were to be read, and it is not there any more"
            )
            continue
        first, loss = _first_offset(topic_partition, start.get(topic_partition), until, bounds)
        last = min(until, bounds.latest[topic_partition])
        if loss:
            losses.append(loss)
        elif last < until:
            losses.append(
                f"{topic_partition}: offsets up to {until} were to be read, and the log ends at {last}"
            )
        if first < last:
            ranges.append(TaskRange(topic_partition, first, last))
    return BatchRanges(ranges, losses)


def _first_offset(
    topic_partition: TopicAndPartition, begin: int | None, until: int, bounds: Bounds
) -> tuple[int, str]:
    earliest = bounds.earliest[topic_partition]
    if begin is None:
        return (
            earliest,
            f"{topic_partition}: it is new, and begins at offset {earliest} instead of 0" if earliest else "",
        )
    if until < begin:
        return (
            earliest,
            f"{topic_partition}: it was at offset {begin}, and its log now ends at {until}: made anew?",
        )
    if begin < earliest and begin < until:
        return (
            earliest,
            f"{topic_partition}: offsets {begin} to {min(earliest, until) - 1} are not in the log any more",
        )
    return begin, ""
