"""Files that appear whole or not at all: written under a hidden name, flushed, renamed."""

from __future__ import annotations

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Wait until the written file is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def appear(hidden: Path, path: Path) -> None:
    """Flush the written file `hidden` to disk and rename it to `path`."""
    flush(hidden)
    os.replace(hidden, path)
