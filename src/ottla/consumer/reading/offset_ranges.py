"""Ranges of offsets and times, and cutting batches to them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla.model.errors import NoTimestamps
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import TimestampType


class OffsetRange(NamedTuple):
    """The offsets from `start` up to but not including `stop`.

    >>> from ottla import replay
    >>> with replay("orders", since=1, bootstrap_servers="127.0.0.1:9092") as orders:
    ...     print(orders.ranges[0])
    OffsetRange(start=1, stop=3)
    """

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What to read of a partition: offsets. If `since_ms` is set, reading begins at the first record of that
    time or later; if `until_ms` is set, it ends before the first record of that time or later."""

    offsets: OffsetRange
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(slots=True)
class Trimmer:
    """Cuts the batches of a partition, which come in order, to a range."""

    topic_partition: TopicAndPartition
    range: ReadRange
    cut_at: int | None = None
    """The offset of the first record after the end, once it was seen."""
    _has_begun: bool = False

    @property
    def is_done(self) -> bool:
        """Whether a record after the end was seen."""
        return self.cut_at is not None

    def trim(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are in the range. Raises NoTimestamps if times are wanted and records have none."""
        start, stop = self.range.offsets
        offsets = batch.column("offset").to_numpy()
        first, behind = np.searchsorted(offsets, (start, stop)).tolist()
        if behind < batch.num_rows:
            self.cut_at = int(offsets[behind])
        return self._trim_by_time(batch.slice(first, behind - first))

    def _trim_by_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        since_ms, until_ms = self.range.since_ms, self.range.until_ms
        if since_ms is None and until_ms is None:
            return batch
        times = self._times(batch)
        if until_ms is not None and (late := np.flatnonzero(times >= until_ms)).size:
            self.cut_at = batch.column("offset")[int(late[0])].as_py()
            batch, times = batch.slice(0, int(late[0])), times[: int(late[0])]
        if since_ms is not None and not self._has_begun:
            in_time = np.flatnonzero(times >= since_ms)
            self._has_begun = bool(in_time.size)
            batch = batch.slice(int(in_time[0]) if in_time.size else batch.num_rows)
        return batch

    def _times(self, batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if (batch.column("timestamp_type").to_numpy() == TimestampType.NONE).any():
            raise NoTimestamps(
                f"{self.topic_partition}: the broker cannot look up times (it is older than 0.10.1), and its"
                " records of message format 0 carry none; give since and until as offsets"
            )
        return batch.column("timestamp").view(pa.int64()).fill_null(-1).to_numpy()  # type: ignore[no-any-return]
