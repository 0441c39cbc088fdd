"""A running online pipeline: its queries as one, with their progress stored for `ottla pipeline status`."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ottla.spark.offset_json import SparkOffset, from_spark, to_spark
from ottla.spark.pipeline.state import BatchDone, PipelineState, merged, records_between, seconds_behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

_LOOK_S = 0.2
_LAST_EVENTS_S = 10.0


class Recorder(StreamingQueryListener):
    """Stores the progress of one query after each batch. Spark calls it in a thread of its own."""

    def __init__(self, name: str, state: PipelineState) -> None:
        self.name = name
        self.ended = threading.Event()
        self.state = state
        self._run_id = ""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name, as all below
        """Remember the run's id: its end is reported without a name."""
        if event.name == self.name:
            self._run_id = str(event.runId)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Store a completed batch."""
        progress = event.progress
        if progress.name == self.name and progress.sources:
            done = batch_done(json.loads(progress.json), to_spark(self.state.start()))
            if done is not None:
                self.state.keep(done)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing to store."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget the query."""
        if str(event.runId) == self._run_id:
            self.ended.set()


def batch_done(progress: dict[str, Any], start: SparkOffset) -> BatchDone | None:
    """The batch in a query's progress; None if it had no records. The first batch begins at `start`."""
    begin, end, latest = (offsets_in(progress, name) for name in ("startOffset", "endOffset", "latestOffset"))
    records = records_between(begin or start, end)
    if not records:
        return None
    return BatchDone(
        batch=progress["batchId"],
        at=progress["timestamp"],
        records=records,
        seconds=progress.get("durationMs", {}).get("triggerExecution", 0) / 1000,
        latest=latest,
    )


def offsets_in(progress: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The offsets of all sources in a query's progress: its startOffset, endOffset or latestOffset."""
    offsets = [source.get(name) for source in progress["sources"]]
    values = [json.loads(offset) if isinstance(offset, str) else offset for offset in offsets]
    return merged(value for value in values if isinstance(value, dict))


class RunProgress(NamedTuple):
    """A completed batch. `lag`: how many records were left then; `seconds_behind`: how long they
    had waited.
    """

    batch: int
    records: int
    lag: int
    seconds: float
    seconds_behind: float | None


class PipelineRun:
    """Has the methods of a StreamingQuery. For one thread."""

    def __init__(
        self, spark: SparkSession, queries: Sequence[StreamingQuery], recorder: Recorder, busy: threading.Lock
    ) -> None:
        self.queries = tuple(queries)
        self._spark = spark
        self._recorder = recorder
        self._busy = busy
        self._is_closed = False

    @property
    def id(self) -> str:
        """The first query's id, which is the same after each restart."""
        return str(self.queries[0].id)

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name, as all below
        """Whether any of the queries runs."""
        return any(query.isActive for query in self.queries)

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        """The first query's last progress."""
        return self.queries[0].lastProgress

    def batches(self, after: int = -1) -> list[RunProgress]:
        """Completed batches with records, after the given number; Spark remembers the last 100."""
        reports = []
        seen: list[BatchDone] = []
        for progress in self.queries[0].recentProgress:
            report = json.loads(progress.json)
            done = batch_done(report, to_spark(self._recorder.state.start()))
            if done is None:
                continue
            seen.append(done)
            if done.batch > after:
                end = offsets_in(report, "endOffset")
                behind = seconds_behind(seen, from_spark(end), datetime.now(UTC))
                lag = records_between(end, done.latest)
                reports.append(RunProgress(done.batch, done.records, lag, done.seconds, behind))
        return reports

    def exception(self) -> Exception | None:
        """The error that ended it, if any."""
        return next((error for error in (query.exception() for query in self.queries) if error), None)

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802
        """Wait until all queries have ended; returns whether they have. Raises a query's error."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.isActive and self.exception() is None:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            for query in self.queries:
                if query.isActive:
                    query.awaitTermination(_LOOK_S)  # type: ignore[arg-type]
        self._close()
        failure = self.exception()
        if failure is not None:
            raise failure
        return True

    def stop(self) -> None:
        """Stop all queries.

        A running batch is abandoned, and the next run repeats it; nothing is written half.
        """
        for query in self.queries:
            query.stop()
        with self._busy:  # the driver's own part of a batch is finished
            self._close()

    def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for query in self.queries:
            if query.isActive:
                query.stop()
        if not self._recorder.ended.wait(_LAST_EVENTS_S):
            log.warning("Spark has not reported the end of %s", self._recorder.name)
        self._spark.streams.removeListener(self._recorder)
