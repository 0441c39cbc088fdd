"""Merges the small files of a landed partition into one whose name covers the offsets of all of them.

The merged file appears before the small ones are removed. If the process is killed in between, the small
files lie within the large one and hold nothing else; the next compaction removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.model.errors import StorageError
from ottla.spark.landing_files import LandedFile, file_of, landed_in
from ottla.spark.locations import Location, location
from ottla.spark.parquet_file import RawParquetFile
from ottla.spark.session import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

COMPACT_AFTER = 16
TARGET_BYTES = 128 << 20


def is_full(where: Location, directory: str, after: int, target_bytes: int = TARGET_BYTES) -> bool:
    """Whether the directory has `after` small files to merge, or files that lie within others."""
    files = landed_in(where, directory)
    small = sum(file.nbytes < target_bytes for file in files)
    return bool(after) and (small >= max(2, after) or len(outer(files)) < len(files))


def outer(files: Sequence[LandedFile]) -> list[LandedFile]:
    """Files whose offsets do not lie within another file."""
    kept: list[LandedFile] = []
    for file in sorted(files, key=lambda landed: (landed.start, -landed.end)):
        if not kept or file.end > kept[-1].end:
            kept.append(file)
    return kept


def runs(files: Sequence[LandedFile], target_bytes: int) -> list[list[LandedFile]]:
    """Runs of small neighbours without a gap, each of about `target_bytes` together. Pure."""
    neighbours: list[list[LandedFile]] = []
    last_end, room = -1, 0
    for file in files:
        if file.nbytes >= target_bytes:
            room = 0
            continue
        if room > 0 and file.start == last_end:
            neighbours[-1].append(file)
        else:
            neighbours.append([file])
            room = target_bytes
        room, last_end = room - file.nbytes, file.end
    return [run for run in neighbours if len(run) > 1]


def compact(spark: SparkSession, url: str, directories: Sequence[str]) -> None:
    """Merge small files, with one Spark task for each directory."""
    in_tasks(spark, lambda directory: compact_directory(location(url), directory), directories)


def compact_directory(where: Location, directory: str, target_bytes: int = TARGET_BYTES) -> None:
    """Merge the small files of one directory. Runs in an executor."""
    files = landed_in(where, directory)
    kept = outer(files)
    where.delete([file.path for file in set(files) - set(kept)])
    for run in runs(kept, target_bytes):
        _merge(where, directory, run)


def _merge(where: Location, directory: str, run: Sequence[LandedFile]) -> None:
    target = file_of(directory, run[0].start, run[-1].end)
    scratch = where.scratch(target)
    try:
        first = _opened(where, run[0])
        codec = first.metadata.row_group(0).column(0).compression
        merged = RawParquetFile(scratch, first.schema_arrow, codec)
        for file in run:
            for rows in _opened(where, file).iter_batches():
                merged.add(rows)
        merged.close()
        where.put(target, scratch)
    finally:
        scratch.unlink(missing_ok=True)
    where.delete([file.path for file in run])
    log.info("%d files of %s/%s are one now", len(run), where.url, directory)


def _opened(where: Location, file: LandedFile) -> pq.ParquetFile:
    stored = where.read(file.path)
    if stored is None:
        raise StorageError(f"{where.url}/{file.path} is gone: another process merges files of this table")
    return pq.ParquetFile(pa.BufferReader(stored.content))
