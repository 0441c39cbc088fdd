"""The bounds of a replay: as users write them, and the offsets that they mean in a log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.list_offsets import LogEnds
from ottla.consumer.reading.offset_ranges import OffsetRange, ReadRange
from ottla.fetching.fetch_config import OffsetReset
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError
from ottla.model.offset_spec import EARLIEST, UNKNOWN_OFFSET, OffsetOrTime, OffsetSpec, parse_offset_spec
from ottla.model.topic_partition import TopicAndPartition

ReplayBound = OffsetSpec | Mapping[int, OffsetSpec]
"""One bound for all partitions, or a mapping of partition numbers to bounds."""


def parse_bounds(
    name: str, given: ReplayBound, default: OffsetSpec, partitions: Iterable[int], now_ms: int
) -> dict[int, OffsetOrTime]:
    """Return the bound of each partition; partitions that a mapping lacks get the default.

    Raises ConfigError.
    """
    numbers = list(partitions)
    if not isinstance(given, Mapping):
        return dict.fromkeys(numbers, parse_offset_spec(given, now_ms, name=name))
    unknown = sorted(set(given) - set(numbers))
    if unknown:
        raise ConfigError(
            f"{name} has a bound for partition {unknown[0]}, which is not read; the partitions are {numbers}"
        )
    return {number: parse_offset_spec(given.get(number, default), now_ms, name=name) for number in numbers}


def range_to_read(
    topic_partition: TopicAndPartition,
    since: OffsetOrTime,
    until: OffsetOrTime,
    ends: LogEnds,
    reset: OffsetReset,
) -> ReadRange:
    """Return the offsets between two bounds in a log.

    Raises ConfigError; KafkaError if `since` is not in the log.
    """
    both_offsets = since.offset is not None and until.offset is not None
    if (both_offsets and since.offset > until.offset) or (  # type: ignore[operator]
        since.is_timestamp and until.is_timestamp and since.time > until.time
    ):
        raise ConfigError(f"{topic_partition}: since is behind until; {until} comes before {since}")
    start, since_ms = _begin(topic_partition, since, ends, reset)
    stop, until_ms = _end(until, ends)
    return ReadRange(OffsetRange(start, max(start, stop)), since_ms, until_ms)


def _begin(
    topic_partition: TopicAndPartition, since: OffsetOrTime, ends: LogEnds, reset: OffsetReset
) -> tuple[int, int | None]:
    if since.offset is not None:
        return _within(topic_partition, since.offset, ends, reset), None
    if not since.is_timestamp:
        return (ends.earliest if since.time == EARLIEST else ends.latest), None
    offset = ends.by_time[since.time]
    if offset is None:
        return ends.earliest, since.time
    return (ends.latest if offset == UNKNOWN_OFFSET else offset), None


def _within(topic_partition: TopicAndPartition, offset: int, ends: LogEnds, reset: OffsetReset) -> int:
    if ends.earliest <= offset <= ends.latest:
        return offset
    if offset < ends.earliest and reset is OffsetReset.SMALLEST:
        return ends.earliest
    raise KafkaError(
        Code.OFFSET_OUT_OF_RANGE,
        f"{topic_partition}: since={offset}, and the log has offsets {ends.earliest} to {ends.latest}; give"
        " since='earliest', or auto.offset.reset=smallest to begin at the first offset that is left",
    )


def _end(until: OffsetOrTime, ends: LogEnds) -> tuple[int, int | None]:
    if until.offset is not None:
        return min(until.offset, ends.latest), None
    if not until.is_timestamp:
        return (ends.earliest if until.time == EARLIEST else ends.latest), None
    offset = ends.by_time[until.time]
    if offset is None:
        return ends.latest, until.time
    return (ends.latest if offset == UNKNOWN_OFFSET else offset), None
