"""Merges the small files of a landed partition into one whose name covers the offsets of all of them.

The merged file appears before the small ones are removed. If the process is killed in between, the small
files lie within the large one and hold nothing else; the next compaction removes them.
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
    """Whether the directory has `after` small files to merge, or files that lie within others."""
    files = landed_in(directory)
    small = sum(file.path.stat().st_size < target_bytes for file in files)
    return bool(after) and (small >= max(2, after) or len(outer(files)) < len(files))


def outer(files: Sequence[LandedFile]) -> list[LandedFile]:
    """Files whose offsets do not lie within another file."""
    kept: list[LandedFile] = []
    for file in sorted(files, key=lambda landed: (landed.start, -landed.end)):
        if not kept or file.end > kept[-1].end:
            kept.append(file)
    return kept


def runs(files: Sequence[LandedFile], sizes: Sequence[int], target_bytes: int) -> list[list[LandedFile]]:
    """Runs of small neighbours without a gap, each of about `target_bytes` together. Pure."""
    neighbours: list[list[LandedFile]] = []
    last_end, room = -1, 0
    for file, size in zip(files, sizes, strict=True):
        if size >= target_bytes:
            room = 0
            continue
        if room > 0 and file.start == last_end:
            neighbours[-1].append(file)
        else:
            neighbours.append([file])
            room = target_bytes
        room, last_end = room - size, file.end
    return [run for run in neighbours if len(run) > 1]


def compact(spark: SparkSession, directories: Sequence[str]) -> None:
    """Merge small files, with one Spark task for each directory."""
    if directories:
        tasks = spark.sparkContext.parallelize(directories, len(directories))
        tasks.foreach(lambda directory: compact_directory(Path(directory)))


def compact_directory(directory: Path, target_bytes: int = TARGET_BYTES) -> None:
    """Merge the small files of one directory. Runs in an executor."""
    files = landed_in(directory)
    kept = outer(files)
    for file in set(files) - set(kept):
        file.path.unlink(missing_ok=True)
    for run in runs(kept, [file.path.stat().st_size for file in kept], target_bytes):
        _merge(directory, run)


def _merge(directory: Path, run: Sequence[LandedFile]) -> None:
    hidden = directory / f".{uuid.uuid4().hex}"
    try:
        first = pq.ParquetFile(run[0].path)
        codec = first.metadata.row_group(0).column(0).compression
        with parquet_writer(hidden, first.schema_arrow, codec) as writer:
            for file in run:
                writer.write_table(pq.ParquetFile(file.path).read())
        appear(hidden, file_of(directory, run[0].start, run[-1].end))
    finally:
        hidden.unlink(missing_ok=True)
    for file in run:
        file.path.unlink(missing_ok=True)
    log.info("%d files of %s are one now", len(run), directory)
