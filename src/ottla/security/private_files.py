"""Files and directories that only their owner may read: keys, passwords, and what a broker keeps."""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY_MODE, FILE_MODE = 0o700, 0o600


def make_private_directory(path: Path) -> None:
    """Make a directory and its parents where missing; existing ones keep their mode. Raises OSError.

    Their names survive a power cut when this returns.
    """
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    for each in reversed(missing):
        each.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        descriptor = os.open(each.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_private(path: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(temporary, path)
