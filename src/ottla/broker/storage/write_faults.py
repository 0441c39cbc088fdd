"""Writes and flushes that failed: counted for /metrics, and logged without flooding the log.

A full disk fails every produce request of every producer. The first failure is logged at once. Those of the
next seconds are one line together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from ottla.broker.storage.partition import Partition
from ottla.model.errors import StorageError

log = logging.getLogger(__name__)

QUIET_S = 10.0


class WriteFaults:
    """Owned by the broker's loop. `count` is the number of failed writes and flushes of partitions."""

    def __init__(self, loop: asyncio.AbstractEventLoop, quiet_s: float = QUIET_S) -> None:
        self.count = 0
        self._loop = loop
        self._quiet_s = quiet_s
        self._is_quiet = False
        self._unlogged: dict[Partition, StorageError] = {}
        self._unlogged_count = 0

    def note(self, failures: Mapping[Partition, StorageError]) -> None:
        """Count failures, and log them now or with the next line."""
        self.count += len(failures)
        for partition, error in failures.items():
            if self._is_quiet:
                self._unlogged[partition] = error
                self._unlogged_count += 1
            else:
                log.error("%s-%d: records were refused: %s", partition.topic, partition.index, error)
                self._be_quiet()

    def _be_quiet(self) -> None:
        self._is_quiet = True
        self._loop.call_later(self._quiet_s, self.log_rest)

    def log_rest(self) -> None:
        """Log the failures that were held back; if there were any, hold back the next ones for as
        long again.
        """
        self._is_quiet = False
        if not self._unlogged:
            return
        count, partitions = self._unlogged_count, len(self._unlogged)
        error = next(reversed(self._unlogged.values()))
        self._unlogged, self._unlogged_count = {}, 0
        log.error("%d more writes to %d partitions failed, the last one: %s", count, partitions, error)
        self._be_quiet()
