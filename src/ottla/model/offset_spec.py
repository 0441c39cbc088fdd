"""The vocabulary for "where in a partition": the same for seek, start, reset, replay and Admin. Pure.

| spec                                  | means                                                          |
|---------------------------------------|----------------------------------------------------------------|
| a number from 0 on                    | that offset                                                    |
| "earliest" (or "smallest", "oldest")  | the first offset of the log                                    |
| "latest" (or "largest", "newest")     | the offset after the last record                               |
| a datetime with a time zone           | the first record with that timestamp or a later one            |
| ISO text, such as 2026-01-31T12:00Z   | the same                                                       |
| a timedelta                           | the same, for the time that long before now                    |

A datetime without a time zone is refused: it would mean another moment on another machine.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import index
from typing import NamedTuple, SupportsIndex

from ottla.model.errors import ConfigError

OffsetSpec = int | str | datetime | timedelta
"""An offset, "earliest", "latest", a datetime with a time zone, ISO text, or a timedelta before now."""

LATEST = -1
EARLIEST = -2
"""Times as ListOffsets writes them: the log's end and its beginning."""

UNKNOWN_OFFSET = -1
"""Instead of an offset: not looked up yet, or there is no such record."""

_WORDS = {
    "earliest": EARLIEST,
    "smallest": EARLIEST,
    "oldest": EARLIEST,
    "latest": LATEST,
    "largest": LATEST,
    "newest": LATEST,
}
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OffsetOrTime(NamedTuple):
    """A parsed OffsetSpec: an offset, or else a time (milliseconds since 1970, EARLIEST or LATEST)."""

    offset: int | None = None
    time: int = LATEST

    @property
    def is_timestamp(self) -> bool:
        """Whether it is a time that records' timestamps are compared with."""
        return self.offset is None and self.time >= 0

    @property
    def start(self) -> int | None:
        """The offset, EARLIEST or LATEST; None for a timestamp, whose offset only a broker knows."""
        if self.is_timestamp:
            return None
        return self.time if self.offset is None else self.offset

    def __str__(self) -> str:
        if self.offset is not None:
            return f"offset {self.offset}"
        if self.is_timestamp:
            return datetime.fromtimestamp(self.time / 1000, UTC).isoformat(timespec="milliseconds")
        return "latest" if self.time == LATEST else "earliest"


def parse_offset_spec(spec: OffsetSpec, now_ms: int, *, name: str = "offset") -> OffsetOrTime:
    """Return what `spec` means at the time `now_ms`. Raises ConfigError, which begins with `name`."""
    if isinstance(spec, str):
        word = _WORDS.get(spec.strip().lower())
        return OffsetOrTime(time=_time_of_text(spec, name) if word is None else word)
    if isinstance(spec, datetime):
        return OffsetOrTime(time=timestamp_ms(spec, name=name))
    if isinstance(spec, timedelta):
        return OffsetOrTime(time=max(0, now_ms - spec // _MILLISECOND))
    if isinstance(spec, SupportsIndex) and not isinstance(spec, bool) and index(spec) >= 0:
        return OffsetOrTime(offset=index(spec))
    raise ConfigError(
        f"{name}={spec!r:.100}: give a number from 0 on, 'earliest', 'latest', a datetime with a time zone,"
        " or a timedelta before now"
    )


def timestamp_ms(moment: datetime, *, name: str = "time") -> int:
    """Return milliseconds since 1970, rounded up; 0 for earlier times.

    Raises ConfigError without a time zone.
    """
    if moment.tzinfo is None:
        raise ConfigError(f"{name}={moment}: it has no time zone; add tzinfo, or Z to a text")
    return max(0, -((_EPOCH - moment) // _MILLISECOND))


def _time_of_text(text: str, name: str) -> int:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(
            f"{name}={text!r:.100}: neither 'earliest' nor 'latest', nor a time such as 2026-01-31T12:00:00Z"
        ) from None
    return timestamp_ms(moment, name=name)
