"""One stream of a mirror: the loop of a thread that reads, sends, and commits what is stored.

    poll ─▶ send ─▶ … ─▶ flush ─▶ note offsets ─▶ commit      every offset.commit.interval.ms,
                                                              before partitions go to others, and at the end

A position is committed only when all records before it are acknowledged. So a mirror that dies anywhere loses
nothing, and what comes twice is what was sent after the last commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from ottla.client.clock import MONOTONIC
from ottla.fetching import TopicAndPartition
from ottla.mirror.offset_runs import Run
from ottla.mirror.outbox import Counts, Outbox
from ottla.mirror.sources import Events, Source
from ottla.model.errors import CorruptRecord

log = logging.getLogger(__name__)

Note = Callable[[Mapping[TopicAndPartition, list[Run]], Mapping[TopicAndPartition, int]], None]
"""Stores which offsets became which, before positions are committed."""


class MirrorStream:
    """`open_source` is called in the stream's own thread."""

    def __init__(
        self,
        open_source: Callable[[Events], Source],
        outbox: Outbox,
        counts: Counts,
        *,
        note: Note,
        unmirrored: frozenset[str],
        commit_interval_ms: float,
        waits_for_each: bool,
        is_stopping: threading.Event,
    ) -> None:
        self._open_source = open_source
        self._outbox = outbox
        self._counts = counts
        self._note = note
        self._unmirrored = unmirrored
        self._commit_interval_ms = commit_interval_ms
        self._waits_for_each = waits_for_each
        self._is_stopping = is_stopping
        self._committed_at_ms = MONOTONIC.now_ms()
        self._source: Source | None = None

    def run(self) -> None:
        """Until the mirror stops. Raises what ends it."""
        with ExitStack() as stack:
            self._source = source = self._open_source(Events(self.checkpoint, self._outbox.forget))
            stack.callback(source.close)
            while not self._is_stopping.is_set():
                self._step(source)
            self.checkpoint()

    def _step(self, source: Source) -> None:
        try:
            chunk = source.poll()
        except CorruptRecord:
            # What is before the damage is copied. It must not be copied by each run that comes to it.
            self.checkpoint()
            raise
        if chunk is not None:
            if chunk.topic_partition.topic in self._unmirrored:
                self._outbox.skip(chunk)
            else:
                self._outbox.send(chunk)
        if self._waits_for_each:
            self._outbox.flush()
        self._outbox.harvest()
        if MONOTONIC.now_ms() - self._committed_at_ms >= self._commit_interval_ms:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Flush, then commit. Raises MirrorFailed, and nothing is committed, if records are not stored."""
        self._outbox.flush()
        self._committed_at_ms = MONOTONIC.now_ms()
        positions = self._outbox.positions
        if not positions or self._source is None:
            return
        self._note(self._outbox.take_runs(), positions)
        if self._source.commit(positions):
            self._outbox.forget(positions)
            self._counts.add(commits=1)
            log.info("%d partitions are committed", len(positions))
