"""What can go wrong with stored data. A class exists when a caller would act on it.

StorageError             the disk refused: nothing of the call happened, the caller may try again
├── DamagedLog           stored batches are broken with sound ones behind them: a person must decide
├── LogOffline           an earlier failure could not be undone: open the log again
└── DirectoryInUse       another broker owns the data directory
"""

from __future__ import annotations

from ottla.model.errors import OttlaError


class StorageError(OttlaError):
    """The disk or the file system failed; the message names the file and the cause."""


class DamagedLog(StorageError):
    """A log is damaged in its middle. `position` is the first bad byte of the segment file `path`."""

    def __init__(self, message: str, *, path: str, position: int, offset: int) -> None:
        super().__init__(message)
        self.path = path
        self.position = position
        self.offset = offset


class LogOffline(StorageError):
    """The log's memory and files may differ after a failure on top of a failure; it takes no more calls."""


class DirectoryInUse(StorageError):
    """The data directory is locked by another process, or by another broker of this one."""
