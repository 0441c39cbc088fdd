"""Files that appear whole or not at all: written under a hidden name, flushed, renamed."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def appear(hidden: Path, path: Path) -> int:
    """Flush the written file `hidden` to disk and rename it to `path`. Returns its size in bytes."""
    descriptor = os.open(hidden, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    size = hidden.stat().st_size
    os.replace(hidden, path)
    return size


def write_whole(path: Path, text: str) -> None:
    """Replace the file's content as a whole: readers see the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    hidden.write_text(text)
    appear(hidden, path)
