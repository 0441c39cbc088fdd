"""Offsets that a partition has lost for good: the file `lost-offsets` of its directory, ours alone.

    0              the version of the format
    1              how many lines follow
    120 131        offsets 120 to 130 are gone, and `ottla log repair` has said so

Only a repair writes it. A gap between segments that it names is not reported again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ottla.log import checkpoints
from ottla.log.file_system import FileSystem
from ottla.model.errors import StorageError

FILE_NAME = "lost-offsets"

Gap = tuple[int, int]
"""(the first offset that is lost, the first one after it that is not)"""


def read_gaps(directory: Path) -> list[Gap]:
    """All gaps; none if the file is missing or damaged: then they are only reported again."""
    try:
        return checkpoints.read_pairs(directory / FILE_NAME)
    except StorageError:
        return []


def add_gaps(directory: Path, gaps: Iterable[Gap], file_system: FileSystem) -> None:
    """Name more gaps. Raises OSError."""
    known = {*read_gaps(directory), *gaps}
    checkpoints.write_pairs(directory / FILE_NAME, sorted(known), file_system)
