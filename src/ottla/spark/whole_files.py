"""Files that appear whole or not at all: written under a hidden name, flushed, renamed."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def appear(hidden: Path, path: Path) -> int:
    """Let a file that is written appear under its name, for good; how many bytes it has."""
    descriptor = os.open(hidden, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    size = hidden.stat().st_size
    os.replace(hidden, path)
    return size


def write_whole(path: Path, text: str) -> None:
    """A file appears with all of its text, or stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    hidden.write_text(text)
    appear(hidden, path)
