"""`ottla land TOPIC --to URL`: the records of a topic into a table, each once, without Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ottla.cli.connection_options import add_connection_options, named_values, properties_of
from ottla.cli.kafka.mirror_maker import stopped_by_signals
from ottla.cli.output import Parser, log_to_stderr, print_line, run_command
from ottla.cli.progress import ProgressLine
from ottla.model.errors import CorruptRecord, DataLost, OttlaError

FORMATS = ("parquet", "delta", "iceberg")
MIB = 1 << 20


class LandingFailed(OttlaError):
    """A table could not be filled."""


def parser() -> Parser:
    """`land` and its options."""
    parser = Parser(
        prog="ottla land",
        description="Write the records of topics into a table, each once. A run goes on where the table is.",
    )
    parser.add_argument("topic", help="a topic, or several with commas")
    parser.add_argument(
        "--to", default="", metavar="URL", help="a directory, or s3://bucket/path, gs:, abfs:"
    )
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="the table (default parquet)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="iceberg: catalog=…, table=…, …"
    )
    parser.add_argument(
        "--from",
        dest="start",
        default="earliest",
        metavar="WHERE",
        help="where a new table begins: earliest, latest, a time, offsets as JSON (default earliest)",
    )
    parser.add_argument("--follow", action="store_true", help="do not end: land what comes")
    parser.add_argument(
        "--skip-lost",
        action="store_true",
        help="go on, with a warning, after records that the log has lost or that are damaged",
    )
    parser.add_argument("--headers", action="store_true", help="with the records' headers")
    parser.add_argument("--batch-mib", type=int, default=128, metavar="N", help="size of a commit, in MiB")
    parser.add_argument("--verbose", action="store_true", help="log more")
    add_connection_options(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Land until everything is in the table; with --follow until Ctrl-C or SIGTERM."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> None:
    with _short_errors(verbose=options.verbose):
        _land(options)


def _land(options: argparse.Namespace) -> None:
    from ottla.spark.lander import Lander
    from ottla.spark.pipeline.ranges import starting
    from ottla.spark.raw_tables import raw_table

    if options.batch_mib < 1:
        parser().error(f"--batch-mib {options.batch_mib}: a number from 1 on is wanted")
    log_to_stderr(verbose=options.verbose)
    settings = named_values("--option", options.option)
    table = raw_table(options.format, options.to, settings, has_headers=options.headers)
    source: dict[str, str] = {f"kafka.{name}": str(value) for name, value in properties_of(options).items()}
    source |= {"subscribe": options.topic, **starting(options.start)}
    source |= {"failOnDataLoss": "false"} if options.skip_lost else {}
    lander = Lander(source, table, batch_bytes=options.batch_mib * MIB)
    records = nbytes = commits = 0
    with stopped_by_signals(lander.stop), ProgressLine(unit="records") as progress:
        for batch in lander.batches(follow=options.follow):
            records, nbytes, commits = records + batch.records, nbytes + batch.nbytes, commits + 1
            progress.update(batch.records, f"{nbytes / MIB:,.0f} MiB  {commits} commits  lag {batch.lag:,}")
    print_line(f"{records:,} records, {nbytes:,} bytes; commits: {commits:,}")


@contextmanager
def _short_errors(*, verbose: bool) -> Iterator[None]:
    """Let errors of the tables' libraries be a line, and those of lost records name this command's option."""
    try:
        yield
    except (DataLost, CorruptRecord) as error:
        raise LandingFailed(str(error).replace("set failOnDataLoss to false", "use --skip-lost")) from error
    except (OttlaError, OSError):
        raise
    except Exception as error:
        if verbose:
            raise
        line = next(iter(str(error).splitlines()), "")
        raise LandingFailed(f"{type(error).__name__}: {line}" if line else type(error).__name__) from error
