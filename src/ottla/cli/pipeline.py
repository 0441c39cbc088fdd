"""`ottla pipeline run FILE` and `ottla pipeline status FILE`: topics into tables and topics, on Spark."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.kafka.mirror_maker import stopped_by_signals
from ottla.cli.kafka.settings import pairs
from ottla.cli.output import FORMATS, TABLE, Parser, Rows, print_line, run_command
from ottla.cli.progress import Progress
from ottla.model.errors import ConfigError, OttlaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipeline.pipeline import Pipeline
    from ottla.spark.pipeline.run import PipelineRun

LOCAL = "local[*]"
_LOOK_S = 0.2
_INTERVAL = re.compile(r"(\d+)\s*(ms|s|m|h)")
_RAISED = re.compile(r"[A-Za-z_.]+(Error|Exception|Lost|Failed): ")
_WORDS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


class PipelineFailed(OttlaError):
    """A query ended by an error."""


def parser() -> Parser:
    """`pipeline` and what it can do."""
    parser = Parser(
        prog="ottla pipeline",
        description="Topics into tables and topics on Spark, as a TOML file declares it.",
    )
    actions = parser.add_subparsers(dest="action", metavar="{run,status}", required=True)
    run = actions.add_parser("run", help="run it, as a stream or over a range")
    run.add_argument("file", help="the TOML file")
    way = run.add_mutually_exclusive_group()
    way.add_argument("--online", action="store_true", help="as a stream, from where it was (the default)")
    way.add_argument("--offline", action="store_true", help="over a range; what the range covers is replaced")
    run.add_argument(
        "--available-now", action="store_true", help="online: end when all that there is is read"
    )
    run.add_argument("--trigger", metavar="TIME", help="online: a batch so often, such as 5s; else at once")
    where = "a time (2026-01-31T12:00:00Z, or milliseconds), offsets as JSON, earliest or latest"
    run.add_argument("--from", dest="start", default="", metavar="WHERE", help=f"offline: {where}")
    run.add_argument("--to", dest="end", default="", metavar="WHERE", help="offline: the same; before it")
    run.add_argument("--checkpoint", metavar="DIR", help="what survives a restart; default: the file's own")
    run.add_argument("--master", metavar="URL", help=f"Spark's master (default {LOCAL}, or spark-submit's)")
    run.add_argument(
        "--packages", default="", metavar="…", help="Maven packages for Spark, such as spark-avro"
    )
    run.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one of Spark's settings"
    )
    run.add_argument("--dry-run", action="store_true", help="print the plan, and what would be read; no more")
    run.add_argument("--verbose", action="store_true", help="log more")
    status = actions.add_parser("status", help="how far it is, also while it runs elsewhere")
    status.add_argument(
        "place", metavar="FILE|CHECKPOINT", help="the TOML file, or the checkpoint's directory"
    )
    status.add_argument("--checkpoint", metavar="DIR", help="default: the file's own")
    status.add_argument("--batches", type=int, metavar="N", help="the last batches instead of the offsets")
    for one in (run, status):
        one.add_argument("--format", choices=FORMATS, default=TABLE, help="for people, or for programs")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Do it."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> Rows | None:
    if options.action == "status":
        return _status(options)
    from ottla.spark.pipeline.pipeline import Pipeline

    level = logging.INFO if options.verbose else logging.WARNING
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if options.offline and (options.available_now or options.trigger):
        parser().error("--available-now and --trigger are for --online")
    if not options.offline and (options.start or options.end):
        parser().error("--from and --to are for --offline; a stream begins at [source] start")
    pipeline = Pipeline.read(options.file)
    if options.dry_run:
        return _plan(pipeline, options)
    return _offline(pipeline, options) if options.offline else _online(pipeline, options)


# --- what would be done


def _plan(pipeline: Pipeline, options: argparse.Namespace) -> Rows:
    if options.format == TABLE:
        print_line(f"{pipeline}\n")
    reach = pipeline.reach(
        options.checkpoint, is_online=not options.offline, start=options.start, end=options.end
    )
    rows: list[Any] = [
        (one.place.topic, one.place.partition, one.start, one.end, one.end - one.start) for one in reach
    ]
    return Rows(("topic", "partition", "from", "to", "records"), rows)


# --- what was done


def _status(options: argparse.Namespace) -> Rows:
    from ottla.spark.pipeline.form import PipelineForm
    from ottla.spark.pipeline.state import State
    from ottla.spark.pipeline.status import status_of

    if Path(options.place).is_dir():
        found = status_of(State(options.place))
    else:
        form = PipelineForm.read(options.place)
        place = options.checkpoint or form.checkpoint
        if not place:
            raise ConfigError(f"{options.place} names no checkpoint: give --checkpoint")
        found = status_of(State(place), form.source)
    if options.batches is None:
        return Rows(
            ("topic", "partition", "offset", "latest", "lag"), [tuple(one) for one in found.partitions]
        )
    rows: list[Any] = [
        (
            one.batch,
            one.at,
            one.records,
            one.seconds,
            round(one.records / one.seconds) if one.seconds else None,
        )
        for one in found.batches[-options.batches :]
    ]
    return Rows(("batch", "at", "records", "seconds", "records_per_second"), rows)


# --- doing it


def _offline(pipeline: Pipeline, options: argparse.Namespace) -> Rows:
    with _session(options) as spark, _tasks_shown(spark), _told():
        spans = pipeline.offline(spark, options.checkpoint, start=options.start, end=options.end)
    rows: list[Any] = [
        (place.topic, place.partition, start, end, end - start)
        for place, many in spans.items()
        for start, end in many
    ]
    return Rows(("topic", "partition", "from", "to", "records"), rows)


def _online(pipeline: Pipeline, options: argparse.Namespace) -> Rows:
    trigger = _trigger(options)
    stopped = threading.Event()
    # Twice: Spark's session puts a handler of its own in the place of the one for Ctrl-C.
    with (
        stopped_by_signals(stopped.set),
        _session(options) as spark,
        stopped_by_signals(stopped.set),
        _told(),
    ):
        if not stopped.is_set():
            _watch(pipeline.online(spark, options.checkpoint, trigger=trigger), stopped)
    state = pipeline.state(options.checkpoint)
    done = state.committed() if state is not None else None
    offsets = sorted(done.offsets.items()) if done is not None else []
    rows: list[Any] = [(place.topic, place.partition, offset) for place, offset in offsets]
    return Rows(("topic", "partition", "offset"), rows)


def _trigger(options: argparse.Namespace) -> dict[str, object] | None:
    if options.available_now and options.trigger:
        parser().error("--available-now ends by itself: leave out --trigger")
    if options.available_now:
        return {"availableNow": True}
    if not options.trigger:
        return None
    found = _INTERVAL.fullmatch(options.trigger)
    if found is None:
        parser().error(f"--trigger {options.trigger}: a time is wanted, such as 500ms, 5s or 2m")
    return {"processingTime": f"{found[1]} {_WORDS[found[2]]}"}


def _watch(run: PipelineRun, stopped: threading.Event) -> None:
    """Until it ends or is to end. What fails after that was given up on purpose."""
    with Progress(unit="records") as progress:
        shown = -1
        while run.isActive and not stopped.wait(_LOOK_S):
            for done in run.batches(after=shown):
                shown = done.batch
                progress.update(done.records, f"batch {done.batch}  lag {done.lag:,}")
            progress.update()
    if stopped.is_set():
        run.stop()
    else:
        run.awaitTermination()


@contextmanager
def _session(options: argparse.Namespace) -> Iterator[SparkSession]:
    """A session that ends with the command; the one of spark-submit, if that has started us."""
    from pyspark.sql import SparkSession

    import ottla.spark

    settings = {"spark.sql.session.timeZone": "UTC", **pairs(options.set)}
    if options.packages:
        settings["spark.jars.packages"] = options.packages
    name = f"ottla pipeline {Path(options.file).stem}"
    if options.master is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        builder = SparkSession.builder.appName(name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    else:
        words = {key.replace(".", "_"): value for key, value in settings.items()}
        spark = ottla.spark.session(name, options.master or LOCAL, **words)
    if not options.verbose:
        spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _told() -> Iterator[None]:
    """Within it, what Spark raises is a line, not a page."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise PipelineFailed(reason(str(error))) from error


def reason(text: str) -> str:
    """The line of Spark's message that says what is wrong: the error that was raised first, in Python."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    if raised:
        return raised[-1]
    return lines[0] if lines else "Spark tells no reason"


@contextmanager
def _tasks_shown(spark: SparkSession) -> Iterator[None]:
    """Within it, a terminal sees how many tasks of the running job are done."""
    ended = threading.Event()
    thread = threading.Thread(target=_show_tasks, args=(spark, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show_tasks(spark: SparkSession, ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    done: dict[int, int] = {}
    with Progress(unit="tasks") as progress:
        while not ended.wait(_LOOK_S):
            active = [found for one in tracker.getActiveStageIds() if (found := tracker.getStageInfo(one))]
            done |= {one.stageId: one.numCompletedTasks for one in active}
            left = sum(one.numTasks - one.numCompletedTasks for one in active)
            progress.update(sum(done.values()) - progress.done, f"{left} to do")
