"""What `ottla log repair` does to a data directory: few actions, each of which may be killed and run again.

Whatever is taken away is copied first, to a directory of its own outside of the data directory: Kafka does
not start with a directory in its data that is no partition.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ottla.log import checkpoints, file_names, lost_offsets
from ottla.log.checkpoints import TopicPartition
from ottla.log.file_system import FileSystem
from ottla.log.lost_offsets import Gap
from ottla.model.checksums import crc32c
from ottla.model.errors import StorageError
from ottla.model.record_layout import (
    BATCH,
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    CRC,
    ENTRY_OVERHEAD,
    NO_TIMESTAMP,
)

COPY_BYTES = 4 << 20
OFFSETS_MAX = (1 << 31) - 1
"""Offsets of one batch: it counts them by an int32."""
CONTINUATIONS_MAX = 100


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where a repair works: the data directory, and where copies of what it takes away go."""

    root: Path
    copies: Path
    file_system: FileSystem

    def copy(self, path: Path, start: int = 0, end: int | None = None) -> Path:
        """Copy a file, or a part of it that is then named by its bytes; the copy is flushed."""
        part = "" if end is None else f"@{start}-{end}"
        target = self.copies / path.parent.relative_to(self.root) / (path.name + part)
        target.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as source, target.open("wb") as copy:
            for chunk in _chunks(source.fileno(), start, end):
                copy.write(chunk)
            copy.flush()
            os.fsync(copy.fileno())
        return target


@dataclass(frozen=True, slots=True)
class Removal:
    """Take a file away."""

    path: Path

    def carry_out(self, workshop: Workshop) -> list[Path]:
        """Copy and remove the file; returns the copies."""
        if not self.path.exists():
            return []
        copy = workshop.copy(self.path)
        workshop.file_system.remove(self.path)
        workshop.file_system.sync_directory(self.path.parent)
        return [copy]


@dataclass(frozen=True, slots=True)
class Excision:
    """Take parts out of a file; of a segment, the batches around them stay, at their offsets."""

    path: Path
    parts: tuple[tuple[int, int], ...]

    def carry_out(self, workshop: Workshop) -> list[Path]:
        """Copy the parts, and replace the file by one without them. The next start rebuilds its indexes."""
        files = workshop.file_system
        copies = [workshop.copy(self.path, start, end) for start, end in self.parts]
        modified_ms = self.path.stat().st_mtime_ns // 1_000_000
        temporary = self.path.with_name(self.path.name + ".tmp")  # which recovery sweeps
        with self.path.open("rb") as source, temporary.open("wb") as target:
            position = 0
            for start, end in (*self.parts, (self.path.stat().st_size, None)):
                for chunk in _chunks(source.fileno(), position, start):
                    target.write(chunk)
                position = end or start
            target.flush()
            os.fsync(target.fileno())
        for suffix in (file_names.INDEX, file_names.TIME_INDEX) if file_names.LOG in self.path.name else ():
            files.remove(self.path.with_name(self.path.name.replace(file_names.LOG, suffix, 1)))
        files.set_modified(temporary, modified_ms)  # the age of records without a time
        files.rename(temporary, self.path)
        files.sync_directory(self.path.parent)
        return copies


@dataclass(frozen=True, slots=True)
class Continuation:
    """Put a batch without records in the place of lost ones, so that no offset is given twice.

    Compaction leaves such batches too: readers pass over them. The batch is a segment of its own, or several
    are, since one cannot have more than OFFSETS_MAX offsets.
    """

    directory: Path
    start: int
    end: int

    def carry_out(self, workshop: Workshop) -> list[Path]:
        """Make the segment, and the directory if it is missing."""
        files = workshop.file_system
        if not self.directory.exists():
            files.make_directory(self.directory)
            files.sync_directory(self.directory.parent)
        starts = range(self.start, self.end, OFFSETS_MAX)
        if len(starts) > CONTINUATIONS_MAX:
            what = f"offsets up to {self.end:,} are not to be believed: correct the checkpoints by hand"
            raise StorageError(f"{self.directory}: {what}")
        for start in starts:
            fd = files.open(file_names.segment_file(self.directory, start, file_names.LOG))
            try:
                end = min(start + OFFSETS_MAX, self.end)
                files.write_all(fd, [empty_batch(start, end)], os.fstat(fd).st_size)
                files.sync(fd)
            finally:
                os.close(fd)
        files.sync_directory(self.directory)
        return []


def empty_batch(start: int, end: int) -> bytes:
    """A batch without records that holds the offsets from `start` to before `end`."""
    size, last, none = BATCH.size - ENTRY_OVERHEAD, end - start - 1, NO_TIMESTAMP
    fields = (start, size, -1, 2, 0, 0, last, none, none, -1, -1, -1, 0)
    batch = bytearray(BATCH.pack(*fields))
    CRC.pack_into(batch, BATCH_CRC_AT, crc32c(bytes(batch[BATCH_ATTRIBUTES_AT:])))
    return bytes(batch)


@dataclass(frozen=True, slots=True)
class GapNote:
    """Name the offsets that are lost, so that they are not reported again."""

    directory: Path
    gaps: tuple[Gap, ...]

    def carry_out(self, workshop: Workshop) -> list[Path]:
        """Write the file `lost-offsets`."""
        lost_offsets.add_gaps(self.directory, self.gaps, workshop.file_system)
        return []


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """Correct what a checkpoint says of one partition."""

    path: Path
    partition: TopicPartition
    offset: int

    def carry_out(self, workshop: Workshop) -> list[Path]:
        """Copy and replace the file."""
        copy = workshop.copy(self.path)
        offsets = checkpoints.read_offsets(self.path) | {self.partition: self.offset}
        checkpoints.write_all(self.path.parent, {self.path.name: offsets}, workshop.file_system)
        return [copy]


Action = Removal | Excision | Continuation | GapNote | CheckpointLine


def carry_out(action: Action, workshop: Workshop) -> list[Path]:
    """Do it; returns the copies of what was taken away. Raises StorageError."""
    try:
        return action.carry_out(workshop)
    except OSError as error:
        raise StorageError(f"cannot repair: {error}; copies go to {workshop.copies} (--copy-to)") from error


def fresh_copies(root: Path) -> Path:
    """Where copies go if nobody says: a new directory beside the data directory."""
    number = 1
    while (path := root.with_name(f"{root.name}.repair") / str(number)).exists():
        number += 1
    return path


def _chunks(fd: int, start: int, end: int | None) -> Iterator[bytes]:
    while end is None or start < end:
        chunk = os.pread(fd, COPY_BYTES if end is None else min(COPY_BYTES, end - start), start)
        if not chunk:
            return
        yield chunk
        start += len(chunk)


def room_for(copies: Path, size: int) -> None:
    """Raise StorageError if the disk of the copies has no room for them."""
    place = copies
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < size:
        raise StorageError(f"{copies}: copies need {size:,} bytes, and {free:,} are free: give --copy-to DIR")
