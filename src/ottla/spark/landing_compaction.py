"""Small files of a landed partition become one, whose name says that it holds the records of all of them.

It appears before the others go. Whoever is killed in between leaves files that lie within a larger one: they
hold nothing that it has not, and the next compaction removes them.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from ottla.spark.landing_files import LandedFile, file_of, landed_in, parquet_writer
from ottla.spark.whole_files import appear

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

COMPACT_AFTER = 16
TARGET_BYTES = 128 << 20


def is_full(directory: Path, after: int, target_bytes: int = TARGET_BYTES) -> bool:
    """Whether so many small files are there that they are to be put together, or some that are not needed."""
    files = landed_in(directory)
    small = sum(one.path.stat().st_size < target_bytes for one in files)
    return bool(after) and (small >= max(2, after) or len(outer(files)) < len(files))


def outer(files: Sequence[LandedFile]) -> list[LandedFile]:
    """Files that lie within no other one."""
    kept: list[LandedFile] = []
    for one in sorted(files, key=lambda file: (file.start, -file.end)):
        if not kept or one.end > kept[-1].end:
            kept.append(one)
    return kept


def runs(files: Sequence[LandedFile], sizes: Sequence[int], target_bytes: int) -> list[list[LandedFile]]:
    """Small files in a row, without a gap, that make up one of about the wanted size each. Pure."""
    found: list[list[LandedFile]] = []
    last_end, room = -1, 0
    for one, size in zip(files, sizes, strict=True):
        if size >= target_bytes:
            room = 0
            continue
        if room > 0 and one.start == last_end:
            found[-1].append(one)
        else:
            found.append([one])
            room = target_bytes
        room, last_end = room - size, one.end
    return [run for run in found if len(run) > 1]


def compact(spark: SparkSession, directories: Sequence[str]) -> None:
    """Put small files together, a task for each directory."""
    if directories:
        tasks = spark.sparkContext.parallelize(directories, len(directories))
        tasks.foreach(lambda one: compact_directory(Path(one)))


def compact_directory(directory: Path, target_bytes: int = TARGET_BYTES) -> None:
    """In an executor."""
    files = landed_in(directory)
    kept = outer(files)
    for one in set(files) - set(kept):
        one.path.unlink(missing_ok=True)
    for run in runs(kept, [one.path.stat().st_size for one in kept], target_bytes):
        _merge(directory, run)


def _merge(directory: Path, run: Sequence[LandedFile]) -> None:
    hidden = directory / f".{uuid.uuid4().hex}"
    try:
        first = pq.ParquetFile(run[0].path)
        codec = first.metadata.row_group(0).column(0).compression
        with parquet_writer(hidden, first.schema_arrow, codec) as writer:
            for one in run:
                writer.write_table(pq.ParquetFile(one.path).read())
        appear(hidden, file_of(directory, run[0].start, run[-1].end))
    finally:
        hidden.unlink(missing_ok=True)
    for one in run:
        one.path.unlink(missing_ok=True)
    log.info("%d files of %s are one now", len(run), directory)
