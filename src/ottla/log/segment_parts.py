"""What a segment consists of, and when its files are read.

A start only lists sealed segments (`Segment.listed`): their offsets are known. The rest of the object is made
for the first who asks, and what the files say is read for the first who asks for that.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.log import file_names
from ottla.log.aborted_index import AbortedIndex
from ottla.log.file_system import FileSystem
from ottla.log.log_config import LogConfig
from ottla.log.offset_index import ENTRY_BYTES, OffsetIndex
from ottla.log.recent_batches import RecentBatches
from ottla.log.segment_file import SegmentFile
from ottla.log.time_index import ENTRY as TIME_ENTRY
from ottla.log.time_index import TimeIndex
from ottla.model.record_layout import NO_TIMESTAMP

if TYPE_CHECKING:
    from ottla.log.recovery import LogOpening

IN_FILES = ("aborted", "max_timestamp", "max_timestamp_offset", "offset_index", "recent", "time_index")
"""What the files of a segment say: these attributes are not there before they are read."""
_LATER = frozenset(
    (
        "_bytes_since_index",
        "_config",
        "_file_system",
        "_first_timestamp",
        "_may_have_gap",
        "created_ms",
        "directory",
        "file",
        "is_index_doubtful",
        "last_epoch",
        "noted_bytes",
    )
)
"""The attributes of a listed segment that are not there before one of them is asked for."""


class Listing(NamedTuple):
    """What the listed segments of a log have in common.

    `known_gap_ends`: offsets before which others are known to be missing. `files`: those of segments that
    somebody has asked for, by their bases. Several threads may ask at once, and get the same file.
    """

    opening: LogOpening
    known_gap_ends: frozenset[int]
    files: dict[int, SegmentFile]


class SegmentParts(ABC):
    """The attributes of a `Segment`. `is_read`: it is known what its files say.

    Whoever needs that and finds it missing reads them, in any thread. It may take a while. Raises OSError.
    """

    __slots__ = (
        *IN_FILES,
        *_LATER,
        "_listing",
        "base_offset",
        "is_read",
        "next_offset",
    )

    base_offset: int
    next_offset: int
    is_read: bool

    def _begin(
        self,
        directory: Path,
        file: SegmentFile,
        config: LogConfig,
        file_system: FileSystem,
        created_ms: int,
        *,
        may_have_gap: bool = True,
    ) -> None:
        self.directory = directory
        self.created_ms = created_ms  # for rolling by time where records have no timestamps
        self.noted_bytes = 0  # where the last batch ends that was taken into account
        self.last_epoch = -1  # of the last batch that a start has read
        self.is_index_doubtful = False  # a look-up by the index ended at bytes that are no batch
        self._config = config  # the limits of its indexes stay as they were when it was made
        self._file_system = file_system
        self._bytes_since_index = 0
        self._first_timestamp: int | None = None
        self._may_have_gap = may_have_gap
        self.file = file  # last: who has it may read it, in another thread
        self._listing: Listing | None = None

    def _begin_listed(self) -> None:
        """Make what a listed segment does not have yet. Any thread may call, also several at once."""
        listing = self._listing
        if listing is None:
            return  # another thread was quicker
        opening, base, behind = listing.opening, self.base_offset, self.next_offset
        path = file_names.segment_path(opening.directory, base, file_names.LOG)
        file = SegmentFile(path, opening.file_system, is_made=True)
        self._begin(
            opening.directory,
            listing.files.setdefault(base, file),
            opening.config,
            opening.file_system,
            opening.now_ms,
            may_have_gap=opening.may_have_gap(behind) or behind in listing.known_gap_ends,
        )

    def _begin_reading(self) -> None:
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.recent = RecentBatches(self.base_offset)
        path = file_names.segment_path(self.directory, self.base_offset, file_names.ABORTED_INDEX)
        self.aborted = AbortedIndex(path, self._file_system)
        self._new_indexes()
        self.is_read = True

    def _new_indexes(self) -> None:
        base, files, limit = self.base_offset, self._file_system, self._config.segment_index_bytes
        stem, offsets_max = file_names.segment_path(self.directory, base, ""), max(limit // ENTRY_BYTES, 1)
        self.offset_index = OffsetIndex(stem + file_names.INDEX, base, offsets_max, files)
        times_max = max(limit // TIME_ENTRY.size, 2)
        self.time_index = TimeIndex(stem + file_names.TIME_INDEX, base, times_max, files)

    if not TYPE_CHECKING:  # what mypy knows of the attributes is right

        def __getattr__(self, name: str) -> Any:
            if name in IN_FILES:
                self._read_files()
            elif name in _LATER:
                self._begin_listed()
            else:
                raise AttributeError(name)
            return getattr(self, name)

    @abstractmethod
    def _read_files(self) -> None:
        """Set IN_FILES. A segment knows how."""

    def path_of(self, suffix: str) -> Path:
        """One of the segment's files."""
        return file_names.segment_file(self.directory, self.base_offset, suffix)

    @property
    def size(self) -> int:
        """Bytes of the log file."""
        return self.file.size

    @property
    def index_entries_max(self) -> int:
        """How many entries the offset index has; before it is read, how many its file has room for."""
        if not self.is_read:
            with suppress(FileNotFoundError):
                return os.stat(self.path_of(file_names.INDEX)).st_size // ENTRY_BYTES
        return self.offset_index.count

    @property
    def has_aborts(self) -> bool:
        """Whether aborted transactions end here."""
        return self.is_read and self.aborted.count > 0

    @property
    def damage(self) -> str | None:
        """What a reader has found damaged in the log file; None for a segment that nobody has used yet."""
        return self.file.damage if self._listing is None else None

    @property
    def modified_ms(self) -> int:
        """When the log file was last written; without a file, when this object was made."""
        if self.file.is_made:
            with suppress(FileNotFoundError):
                return self.file.stat().st_mtime_ns // 1_000_000
        return self.created_ms
