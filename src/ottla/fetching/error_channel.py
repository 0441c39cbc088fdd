"""The errors of a partition on their way to its reader."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace

from ottla.client.clock import Condition, wait_for
from ottla.fetching.fetch_errors import PartitionError

REPORTS_MAX = 256


class ErrorChannel:
    """Reports that were not taken yet. Any thread may report and take.

    A repeated error is only counted, so a broker that is away for hours gives one report. Above REPORTS_MAX
    the oldest reports are dropped, and counted in `lost`.
    """

    def __init__(self, changed: Condition | None = None) -> None:
        """`changed` guards the reports; by default a condition for threads."""
        self._changed: Condition = changed or threading.Condition(threading.Lock())
        self._reports: deque[PartitionError] = deque()
        self._is_closed = False
        self.lost = 0

    def __len__(self) -> int:
        return len(self._reports)

    def report(self, report: PartitionError) -> None:
        """Add a report."""
        with self._changed:
            if self._reports and self._reports[-1].repeats(report):
                self._reports[-1] = replace(self._reports[-1], times=self._reports[-1].times + 1)
                return
            self._reports.append(report)
            if len(self._reports) > REPORTS_MAX:
                self._reports.popleft()
                self.lost += 1
            self._changed.notify_all()

    @property
    def last(self) -> PartitionError | None:
        """The newest report, which stays here; None if there is none."""
        with self._changed:
            return self._reports[-1] if self._reports else None

    def poll(self, timeout_ms: float | None = 0) -> PartitionError | None:
        """Take the oldest report; None if none comes within `timeout_ms` (None: for ever), or when closed."""
        with self._changed:
            seconds = None if timeout_ms is None else timeout_ms / 1000
            wait_for(self._changed, self.is_ready, seconds)
            return self._reports.popleft() if self._reports else None

    def is_ready(self) -> bool:
        """Whether `poll` would return at once. Called under the lock."""
        return bool(self._reports) or self._is_closed

    def close(self) -> None:
        """No more reports will come."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
