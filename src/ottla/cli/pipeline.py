"""`ottla pipeline run FILE` and `status FILE`: run a pipeline on Spark, or show its progress."""

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

from ottla.cli.connection_options import named_values
from ottla.cli.kafka.mirror_maker import stopped_by_signals
from ottla.cli.output import FORMATS, TABLE, OutputRows, Parser, log_to_stderr, print_line, run_command
from ottla.cli.pipeline_status import served_gauges
from ottla.cli.progress import ProgressLine
from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipeline.pipeline import Pipeline
    from ottla.spark.pipeline.run import PipelineRun

LOCAL = "local[*]"
_LOOK_S = 0.2
_INTERVAL = re.compile(r"(\d+)\s*(ms|s|m|h)")
_WORDS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


class PipelineFailed(OttlaError):
    """A query ended with an error."""


def parser() -> Parser:
    """`pipeline` with its actions and options."""
    parser = Parser(
        prog="ottla pipeline",
        description="Topics into tables and topics on Spark, as a TOML file declares it.",
    )
    actions = parser.add_subparsers(dest="action", metavar="{run,status}", required=True)
    _add_run(actions.add_parser("run", help="run it, as a stream or over a range"))
    _add_status(actions.add_parser("status", help="show progress and lag, also while it runs elsewhere"))
    return parser


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("file", help="the TOML file")
    way = run.add_mutually_exclusive_group()
    way.add_argument(
        "--online", action="store_true", help="as a stream, from the checkpoint on (the default)"
    )
    way.add_argument(
        "--offline", action="store_true", help="over a range; earlier results of the range are replaced"
    )
    run.add_argument(
        "--available-now", action="store_true", help="online: end when everything up to now is read"
    )
    run.add_argument(
        "--trigger", metavar="TIME", help="online: interval between batches, such as 5s; default: no pause"
    )
    where = "a time (2026-01-31T12:00:00Z, or milliseconds), offsets as JSON, earliest or latest"
    run.add_argument("--from", dest="start", default="", metavar="WHERE", help=f"offline: {where}")
    run.add_argument(
        "--to", dest="end", default="", metavar="WHERE", help="offline: where to end, exclusive; as --from"
    )
    run.add_argument(
        "--checkpoint", metavar="DIR", help="directory of the checkpoint (default: as in the file)"
    )
    run.add_argument(
        "--master",
        metavar="URL",
        help=f"Spark's master, or sc://host of Spark Connect (default {LOCAL}, or spark-submit's)",
    )
    run.add_argument(
        "--packages", default="", metavar="…", help="Maven packages for Spark, such as spark-avro"
    )
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    run.add_argument(
        "--dry-run",
        action="store_true",
        help="find what is wrong, and print the plan, the columns of each step and what would be read",
    )
    run.add_argument("--no-spark", action="store_true", help="--dry-run: only what is known without Spark")
    run.add_argument("--sample", type=int, default=0, metavar="N", help="--dry-run: N rows of real data")
    run.add_argument("--prometheus", metavar="[HOST:]PORT", help="online: serve lag, rate and batch times")
    run.add_argument("--verbose", action="store_true", help="log more, and the whole text of errors")
    _add_format(run)


def _add_status(status: argparse.ArgumentParser) -> None:
    status.add_argument(
        "pipeline", metavar="FILE|CHECKPOINT", help="the TOML file, or the checkpoint's directory"
    )
    status.add_argument(
        "--checkpoint", metavar="DIR", help="directory of the checkpoint (default: as in the file)"
    )
    status.add_argument(
        "--batches", type=int, metavar="N", help="show the last N batches instead of the offsets"
    )
    status.add_argument(
        "--watch", type=float, metavar="SECONDS", help="again and again, with the rate, on the same screen"
    )
    _add_format(status)


def _add_format(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--format", choices=FORMATS, default=TABLE, help="table for people; json and tsv for programs"
    )


def run(arguments: Sequence[str]) -> int:
    """Run the action."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows | None:
    if options.action == "status":
        from ottla.cli.pipeline_status import show_status

        return show_status(options)
    from ottla.spark import Pipeline

    log_to_stderr(verbose=options.verbose)
    if options.offline and (options.available_now or options.trigger):
        parser().error("--available-now and --trigger are for --online")
    if not options.offline and (options.start or options.end):
        parser().error("--from and --to are for --offline; a stream begins at [source] start")
    pipeline = Pipeline.read(options.file)
    if options.dry_run:
        return _plan(pipeline, options)
    return _offline(pipeline, options) if options.offline else _online(pipeline, options)


# --- what would be done


def _plan(pipeline: Pipeline, options: argparse.Namespace) -> OutputRows:
    if options.format == TABLE:
        print_line(f"{pipeline}\n")
    _check(pipeline, options)
    reach = pipeline.reach(
        options.checkpoint, is_online=not options.offline, start=options.start, end=options.end
    )
    rows: list[Any] = [
        (
            part.topic_partition.topic,
            part.topic_partition.partition,
            part.start,
            part.end,
            part.end - part.start,
        )
        for part in reach
    ]
    return OutputRows(("topic", "partition", "from", "to", "records"), rows)


def _check(pipeline: Pipeline, options: argparse.Namespace) -> None:
    """Print the columns of each step and example rows. Raises PipelineFailed with all problems."""
    from ottla.spark.pipeline.checks import shown_rows

    wrong = pipeline.problems(options.checkpoint)
    needs_records = any(source.decode.is_inferred for source in pipeline.form.sources)
    if not options.no_spark and not (wrong and needs_records):
        with _session(options) as spark:
            sample = 0 if wrong else options.sample
            analysed = pipeline.analysed(spark, options.checkpoint, sample=sample)
        wrong += [problem for problem in analysed.problems if problem not in wrong]
        if options.format == TABLE:
            for name, schema in analysed.schemas:
                print_line(f"{name:8} gives {schema}")
            for row in shown_rows(analysed.rows):
                print_line(f"row      {row}")
            print_line("")
    if wrong:
        raise PipelineFailed("; ".join(wrong))


# --- doing it


def _offline(pipeline: Pipeline, options: argparse.Namespace) -> OutputRows:
    with _session(options) as spark, _tasks_shown(spark), _short_spark_errors(options):
        spans = pipeline.offline(spark, options.checkpoint, start=options.start, end=options.end)
    rows: list[Any] = [
        (topic_partition.topic, topic_partition.partition, start, end, end - start)
        for topic_partition, many in spans.items()
        for start, end in many
    ]
    return OutputRows(("topic", "partition", "from", "to", "records"), rows)


def _online(pipeline: Pipeline, options: argparse.Namespace) -> OutputRows:
    trigger = _trigger(options)
    stopped = threading.Event()
    # Set twice: Spark's session replaces the handler for Ctrl-C.
    with (
        stopped_by_signals(stopped.set),
        _session(options) as spark,
        stopped_by_signals(stopped.set),
        _short_spark_errors(options),
        served_gauges(options.prometheus, lambda: pipeline.status(options.checkpoint)),
    ):
        if not stopped.is_set():
            _watch(pipeline.online(spark, options.checkpoint, trigger=trigger), stopped)
    state = pipeline.state(options.checkpoint)
    done = state.committed() if state is not None else None
    offsets = sorted(done.offsets.items()) if done is not None else []
    rows: list[Any] = [
        (topic_partition.topic, topic_partition.partition, offset) for topic_partition, offset in offsets
    ]
    return OutputRows(("topic", "partition", "offset"), rows)


def _trigger(options: argparse.Namespace) -> dict[str, object] | None:
    if options.available_now and options.trigger:
        parser().error("--available-now ends by itself: leave out --trigger")
    if options.available_now:
        return {"availableNow": True}
    if not options.trigger:
        return None
    match = _INTERVAL.fullmatch(options.trigger)
    if match is None:
        parser().error(f"--trigger {options.trigger}: a time is wanted, such as 500ms, 5s or 2m")
    return {"processingTime": f"{match[1]} {_WORDS[match[2]]}"}


def _watch(run: PipelineRun, stopped: threading.Event) -> None:
    """Wait until the pipeline ends or is interrupted. Errors after an interrupt are ignored."""
    with ProgressLine(unit="records") as progress:
        shown = -1
        while run.isActive and not stopped.wait(_LOOK_S):
            for done in run.batches(after=shown):
                shown = done.batch
                behind = f"  {done.seconds_behind:,.0f} s" if done.lag and done.seconds_behind else ""
                batch = f"batch {done.batch} in {done.seconds:.1f} s"
                progress.update(done.records, f"{batch}  lag {done.lag:,}{behind}")
            progress.update()
    if stopped.is_set():
        run.stop()
    else:
        run.awaitTermination()


@contextmanager
def _session(options: argparse.Namespace) -> Iterator[SparkSession]:
    """A Spark session that ends with the command; under spark-submit, its session."""
    import ottla.spark
    from ottla.spark.session import is_remote

    settings = {"spark.sql.session.timeZone": "UTC", **named_values("--set", options.set)}
    if options.packages:
        settings["spark.jars.packages"] = options.packages
    name = f"ottla pipeline {Path(options.file).stem}"
    if options.master is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName(name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    else:
        words = {key.replace(".", "_"): value for key, value in settings.items()}
        spark = ottla.spark.session(name, options.master or LOCAL, **words)
    if not options.verbose:
        _silence_errors()
    if not is_remote(spark):
        if not options.verbose:
            spark.sparkContext.setLogLevel("FATAL")
        if spark.sparkContext.uiWebUrl and not options.dry_run:
            sys.stderr.write(f"Spark's pages: {spark.sparkContext.uiWebUrl}\n")
    try:
        yield spark
    finally:
        spark.stop()


def _silence_errors() -> None:
    """Let Python's side of Spark print no pages about errors that it raises, too."""
    from pyspark.logger import PySparkLogger

    logging.getLogger("py4j").setLevel(logging.CRITICAL)

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _short_spark_errors(options: argparse.Namespace) -> Iterator[None]:
    """Reduce errors of Spark and Java to their cause inside the block; --verbose shows everything."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from ottla.spark.causes import cause

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if options.verbose:
            sys.stderr.write(f"{error}\n")
        raise PipelineFailed(cause(str(error))) from error


@contextmanager
def _tasks_shown(spark: SparkSession) -> Iterator[None]:
    """Show on a terminal how many tasks of the job are done, inside the block; not with Spark Connect."""
    from ottla.spark.session import is_remote

    if is_remote(spark):
        yield
        return
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
    with ProgressLine(unit="tasks") as progress:
        while not ended.wait(_LOOK_S):
            active = [
                stage
                for getActiveStageId in tracker.getActiveStageIds()
                if (stage := tracker.getStageInfo(getActiveStageId))
            ]
            done |= {stage.stageId: stage.numCompletedTasks for stage in active}
            left = sum(stage.numTasks - stage.numCompletedTasks for stage in active)
            progress.update(sum(done.values()) - progress.done, f"{left} to do")
