"""One round of fsync, taken from a log by its owner and carried out by any thread.

    ticket = log.begin_flush()      the owner; cheap
    ticket.sync()                   anywhere, e.g. in an executor: only system calls on descriptors of its own
    log.finish_flush(ticket)        the owner again: the recovery point moves

Several partitions' tickets done by one thread are a group commit. What is written meanwhile is left to the
next ticket.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ottla.log.file_system import FileSystem
from ottla.model.errors import StorageError

NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}


@dataclass(slots=True)
class FlushTicket:
    """Everything below `offset` survives a power cut once `sync` returned.

    `was_tried`: the system may have dropped bytes, if it has failed. Not if there was no descriptor for it.
    """

    offset: int
    directory: Path
    file_system: FileSystem
    descriptors: list[int] = field(default_factory=list)
    names_changed: bool = False
    done: bool = False
    failure: StorageError | None = None
    was_tried: bool = True

    def sync(self) -> None:
        """Wait for the disk. Raises StorageError; the ticket has failed then."""
        try:
            for fd in self.descriptors:
                self.file_system.sync(fd)
            if self.names_changed:
                self.file_system.sync_directory(self.directory)
        except OSError as error:
            self.failure = StorageError(f"{self.directory}: cannot flush: {error}")
            self.was_tried = error.errno not in NO_DESCRIPTOR
            raise self.failure from error
        finally:
            self.close()
        self.done = True

    def close(self) -> None:
        """Give the descriptors back; `sync` does it too."""
        while self.descriptors:
            os.close(self.descriptors.pop())


def flush_up_to(offset: int, begin: Callable[[], FlushTicket], finish: Callable[[FlushTicket], None]) -> None:
    """Carry out as many tickets as it takes, in this thread. Raises StorageError."""
    while True:
        ticket = begin()
        try:
            ticket.sync()
        finally:
            finish(ticket)
        if ticket.offset >= offset:
            return
