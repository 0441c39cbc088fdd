"""`ottla pipeline status`: where a pipeline is, once or again and again; and its gauges for Prometheus."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ottla.cli.lag_server import exposition_server
from ottla.cli.output import OutputRows, print_rows
from ottla.model.exposition import Metric, exposition

if TYPE_CHECKING:
    from ottla.spark.pipeline.status import PipelineStatus

_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\033[H", "\033[K", "\033[J"


def show_status(options: argparse.Namespace) -> OutputRows:
    """The rows of `pipeline status`; with --watch, printed until Ctrl-C."""
    while options.watch is not None:
        status = _status(options)
        if sys.stdout.isatty():
            sys.stdout.write(f"{_HOME}{summary(status)}{_REST_OF_LINE}\n")
            print_rows(_rows(status, options.batches), options.format)
            sys.stdout.write(_REST_OF_SCREEN)
        else:
            sys.stdout.write(f"{summary(status)}\n")
        sys.stdout.flush()
        time.sleep(max(0.0, options.watch))
    return _rows(_status(options), options.batches)


def _status(options: argparse.Namespace) -> PipelineStatus:
    from ottla.spark.pipeline.status import status_at

    return status_at(options.pipeline, options.checkpoint or "")


def _rows(status: PipelineStatus, batches: int | None) -> OutputRows:
    if batches is None:
        return OutputRows(
            ("topic", "partition", "offset", "latest", "lag"),
            [tuple(partition) for partition in status.partitions],
        )
    rows: list[Any] = [
        (done.batch, done.at, done.records, done.seconds, round(done.rate) if done.rate else None)
        for done in status.batches[-batches:]
    ]
    return OutputRows(("batch", "at", "records", "seconds", "records_per_second"), rows)


def summary(status: PipelineStatus) -> str:
    """One line: the clock, the last batch, its rate and time, the lag in records and seconds."""
    parts = [datetime.now(UTC).strftime("%H:%M:%S"), f"batch {status.batch}"]
    if status.batches:
        last = status.batches[-1]
        parts += [f"{last.records:,} records in {last.seconds:.1f} s", f"{last.rate:,.0f}/s"]
    parts.append(f"lag {status.lag:,}")
    if status.lag and status.seconds_behind is not None:
        parts.append(f"{status.seconds_behind:,.0f} s behind")
    return "  ".join(parts)


# --- gauges


def gauges(status: PipelineStatus) -> str:
    """The status in Prometheus' text format."""
    by_partition = [
        ({"topic": row.topic, "partition": row.partition}, float(row.lag))
        for row in status.partitions
        if row.lag is not None
    ]
    metrics = [
        Metric("ottla_pipeline_lag_records", "gauge", "Records that are left to read.", by_partition),
        Metric("ottla_pipeline_batch", "gauge", "The last completed batch.", [({}, float(status.batch))]),
    ]
    if status.seconds_behind is not None:
        text = "Since when there is a record to read that is not read."
        metrics.append(Metric("ottla_pipeline_lag_seconds", "gauge", text, [({}, status.seconds_behind)]))
    for last in status.batches[-1:]:
        metrics += [
            Metric("ottla_pipeline_batch_seconds", "gauge", "How long it took.", [({}, last.seconds)]),
            Metric("ottla_pipeline_batch_records", "gauge", "Its records.", [({}, float(last.records))]),
        ]
    return exposition(metrics)


@contextmanager
def served_gauges(where: str | None, status: Callable[[], PipelineStatus]) -> Iterator[None]:
    """Serve the gauges at `PORT` or `HOST:PORT` inside the block, measured at each scrape.

    None: do not serve.
    """
    if where is None:
        yield
        return
    with exposition_server(where, lambda: gauges(status())) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
