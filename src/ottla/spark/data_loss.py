"""What a query was promised and the logs do not have any more. Pure.

With failOnDataLoss (the default) any of it is an error; without, the query goes on with what there is, and
a warning tells what is missing.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.offset_json import Offsets
from ottla.spark.range_planner import OffsetRange


class DataLost(OttlaError):
    """Records that the query was to read are gone. failOnDataLoss=false goes on without them."""


class Bounds(NamedTuple):
    """Where the logs of partitions begin and end now."""

    earliest: Offsets
    latest: Offsets


class Plan(NamedTuple):
    """What can be read of a batch, and a sentence for each thing that is lost."""

    ranges: list[OffsetRange]
    losses: list[str]


def ranges_between(start: Offsets, end: Offsets, bounds: Bounds) -> Plan:
    """The ranges of a batch, cut to what the logs have.

    A partition that `start` does not have is new, and is read from its beginning. One that ends before it
    starts is a topic that was deleted and made anew: it is read from its beginning, too.
    """
    losses = [
        f"{place}: it was at offset {offset}, and is not there any more"
        for place, offset in sorted(start.items())
        if place not in end
    ]
    ranges: list[OffsetRange] = []
    for place, until in sorted(end.items()):
        if place not in bounds.earliest:
            losses.append(f"{place}: offsets up to {until} were to be read, and it is not there any more")
            continue
        first, loss = _first_offset(place, start.get(place), until, bounds)
        last = min(until, bounds.latest[place])
        if loss:
            losses.append(loss)
        elif last < until:
            losses.append(f"{place}: offsets up to {until} were to be read, and the log ends at {last}")
        if first < last:
            ranges.append(OffsetRange(place, first, last))
    return Plan(ranges, losses)


def _first_offset(place: TopicAndPartition, begin: int | None, until: int, bounds: Bounds) -> tuple[int, str]:
    earliest = bounds.earliest[place]
    if begin is None:
        return (
            earliest,
            f"{place}: it is new, and begins at offset {earliest} instead of 0" if earliest else "",
        )
    if until < begin:
        return earliest, f"{place}: it was at offset {begin}, and its log now ends at {until}: made anew?"
    if begin < earliest and begin < until:
        return earliest, f"{place}: offsets {begin} to {min(earliest, until) - 1} are not in the log any more"
    return begin, ""
