"""From where to where a replay reads: what users write, and what it means in the logs as they are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla.fetching import EARLIEST, LATEST, UNKNOWN_OFFSET, OffsetReset, TopicAndPartition
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError
from ottla.partition.errors import Untimed
from ottla.records.messages import TimestampType

Moment = int | str | datetime | timedelta
Limits = Moment | Mapping[int, Moment]

_WORDS = {"earliest": EARLIEST, "smallest": EARLIEST, "latest": LATEST, "largest": LATEST}
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OffsetRange(NamedTuple):
    """Offsets from `start` on, `stop` is not among them."""

    start: int
    stop: int


class Bound(NamedTuple):
    """An offset, or a time as ListOffsets has it: milliseconds since 1970, EARLIEST or LATEST."""

    offset: int | None = None
    time: int = LATEST

    @property
    def is_moment(self) -> bool:
        """Whether it is a time of the clock, which records are compared with."""
        return self.offset is None and self.time >= 0

    def __str__(self) -> str:
        if self.offset is not None:
            return f"offset {self.offset}"
        if self.is_moment:
            return datetime.fromtimestamp(self.time / 1000, UTC).isoformat(timespec="milliseconds")
        return "latest" if self.time == LATEST else "earliest"


@dataclass(frozen=True, slots=True)
class LogEnds:
    """A log as it is: its first offset, the one behind its last, and the first one of some times on.

    None for a time is no answer, since the broker cannot tell; UNKNOWN_OFFSET: it has no such record.
    """

    earliest: int
    latest: int
    by_time: Mapping[int, int | None]


@dataclass(frozen=True, slots=True)
class Passage:
    """What to read of one partition. `since_ms` and `until_ms` are times that are left to be looked for
    among the records."""

    offsets: OffsetRange
    since_ms: int | None = None
    until_ms: int | None = None


def parse_bound(given: Moment, now_ms: int) -> Bound:
    """What a user writes: an offset, "earliest", "latest", a time, or how long ago. Raises ConfigError."""
    if isinstance(given, str):
        word = _WORDS.get(given.strip().lower())
        return Bound(time=word) if word is not None else Bound(time=_time_of_text(given))
    if isinstance(given, datetime):
        return Bound(time=_time_of(given))
    if isinstance(given, timedelta):
        return Bound(time=max(0, now_ms - given // _MILLISECOND))
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return Bound(offset=given)
    raise ConfigError(
        f"{given!r} bounds nothing: give an offset from 0 on, 'earliest', 'latest', a datetime with a time"
        " zone, or a timedelta before now"
    )


def _time_of_text(text: str) -> int:
    try:
        return _time_of(datetime.fromisoformat(text.strip()))
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{text!r} is neither 'earliest' nor 'latest', nor a time such as 2026-01-31T12:00:00Z"
        ) from None


def _time_of(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ConfigError(f"{moment} has no time zone, so it is many moments: add tzinfo, or Z to a text")
    # Rounded up: no record has a time between two milliseconds.
    return max(0, -((_EPOCH - moment) // _MILLISECOND))


def parse_bounds(
    name: str, given: Limits, default: Moment, partitions: Iterable[int], now_ms: int
) -> dict[int, Bound]:
    """The bound of each partition; a mapping may leave some of them to the default. Raises ConfigError."""
    numbers = list(partitions)
    if not isinstance(given, Mapping):
        return dict.fromkeys(numbers, parse_bound(given, now_ms))
    strange = sorted(set(given) - set(numbers))
    if strange:
        raise ConfigError(f"{name} has a bound for partition {strange[0]}, which is not read: {numbers} are")
    return {number: parse_bound(given.get(number, default), now_ms) for number in numbers}


def passage(
    place: TopicAndPartition, since: Bound, until: Bound, ends: LogEnds, reset: OffsetReset
) -> Passage:
    """What two bounds mean in a log. Raises ConfigError, KafkaError if the log has no such beginning."""
    both_offsets = since.offset is not None and until.offset is not None
    if (both_offsets and since.offset > until.offset) or (  # type: ignore[operator]
        since.is_moment and until.is_moment and since.time > until.time
    ):
        raise ConfigError(f"{place}: since is behind until; {until} comes before {since}")
    start, since_ms = _begin(place, since, ends, reset)
    stop, until_ms = _end(until, ends)
    return Passage(OffsetRange(start, max(start, stop)), since_ms, until_ms)


def _begin(
    place: TopicAndPartition, since: Bound, ends: LogEnds, reset: OffsetReset
) -> tuple[int, int | None]:
    if since.offset is not None:
        return _within(place, since.offset, ends, reset), None
    if not since.is_moment:
        return (ends.earliest if since.time == EARLIEST else ends.latest), None
    found = ends.by_time[since.time]
    if found is None:
        return ends.earliest, since.time
    return (ends.latest if found == UNKNOWN_OFFSET else found), None


def _within(place: TopicAndPartition, offset: int, ends: LogEnds, reset: OffsetReset) -> int:
    if ends.earliest <= offset <= ends.latest:
        return offset
    if offset < ends.earliest and reset is OffsetReset.SMALLEST:
        return ends.earliest
    raise KafkaError(
        Code.OFFSET_OUT_OF_RANGE,
        f"{place}: since={offset}, and the log has offsets {ends.earliest} to {ends.latest}; give since="
        "'earliest', or auto.offset.reset=smallest to begin at the first offset that is left",
    )


def _end(until: Bound, ends: LogEnds) -> tuple[int, int | None]:
    if until.offset is not None:
        return min(until.offset, ends.latest), None
    if not until.is_moment:
        return (ends.earliest if until.time == EARLIEST else ends.latest), None
    found = ends.by_time[until.time]
    if found is None:
        return ends.latest, until.time
    return (ends.latest if found == UNKNOWN_OFFSET else found), None


@dataclass(slots=True)
class Trimmer:
    """Cuts the batches of a partition, in their order, to a passage."""

    place: TopicAndPartition
    passage: Passage
    is_done: bool = False
    _has_begun: bool = False

    def trim(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What of the batch is within; `is_done` once a record behind the end was seen."""
        start, stop = self.passage.offsets
        first, behind = np.searchsorted(batch.column("offset").to_numpy(), (start, stop)).tolist()
        self.is_done = self.is_done or behind < batch.num_rows
        return self._trim_by_time(batch.slice(first, behind - first))

    def _trim_by_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        since_ms, until_ms = self.passage.since_ms, self.passage.until_ms
        if since_ms is None and until_ms is None:
            return batch
        times = self._times(batch)
        if until_ms is not None and (late := np.flatnonzero(times >= until_ms)).size:
            self.is_done = True
            batch, times = batch.slice(0, int(late[0])), times[: int(late[0])]
        if since_ms is not None and not self._has_begun:
            found = np.flatnonzero(times >= since_ms)
            self._has_begun = bool(found.size)
            batch = batch.slice(int(found[0]) if found.size else batch.num_rows)
        return batch

    def _times(self, batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if (batch.column("timestamp_type").to_numpy() == TimestampType.NONE).any():
            raise Untimed(
                f"{self.place}: the broker cannot look up times (it is older than 0.10.1), and its records of"
                " message format 0 carry none; give since and until as offsets"
            )
        return batch.column("timestamp").view(pa.int64()).fill_null(-1).to_numpy()  # type: ignore[no-any-return]
