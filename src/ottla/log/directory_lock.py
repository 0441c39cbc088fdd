"""The `.lock` file of a data directory: one broker at a time.

Two locks on one descriptor. `lockf` is what Java's file locks are on Linux, so a Kafka broker is kept out and
keeps us out; it belongs to the process, so a second broker of this process would get it again: `flock`
belongs to the descriptor and refuses that one. The kernel drops both when the process dies, however it dies.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from ottla.model.errors import DirectoryInUse

LOCK = ".lock"


class DirectoryLock:
    """Held from construction to `release`."""

    def __init__(self, directory: Path) -> None:
        path = directory / LOCK
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            self._fd = -1
            raise DirectoryInUse(
                f"{directory} is in use by another broker ({path} is locked): stop it, or give this one"
                f" another data directory"
            ) from error

    def release(self) -> None:
        """Let another broker in; twice is once."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
