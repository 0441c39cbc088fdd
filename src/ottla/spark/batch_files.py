"""A streaming batch's files in a table, exactly once: they carry the batch's number, and a repeat
replaces them.

    PATH/day=2026-01-31/batch-000000000017-00003.parquet

Spark writes a batch into a hidden directory; then the driver removes what an earlier try of the batch has
left in the table, and moves the new files in. A table without partition columns has them at its top.
Paths are of the driver's file system, or one that it shares with the executors.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

STAGING = "_staging"


class BatchFiles:
    """The files of one batch of one table."""

    def __init__(self, root: Path, batch_id: int) -> None:
        self._root = root
        self._prefix = f"batch-{batch_id:012d}-"
        self.staging = root / STAGING / f"{batch_id}"

    def move_in(self) -> int:
        """Put what is staged into the table, instead of what is there of the batch; how many files."""
        for path in self._root.rglob(f"{self._prefix}*"):
            path.unlink()
        staged = sorted(path for path in self.staging.rglob("*.parquet") if not path.name.startswith("."))
        for number, path in enumerate(staged):
            directory = self._root / path.parent.relative_to(self.staging)
            directory.mkdir(parents=True, exist_ok=True)
            os.replace(path, directory / f"{self._prefix}{number:05d}.parquet")
        shutil.rmtree(self.staging, ignore_errors=True)
        return len(staged)
