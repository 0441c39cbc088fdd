"""The second half of a compaction: a `.log.swap` file takes the place of the segments that it replaces.

Recovery's first pass does the same from the names of the files alone, wherever this was interrupted.
"""

from __future__ import annotations

from pathlib import Path

from ottla.log import file_names
from ottla.log.config import LogConfig
from ottla.log.file_system import FileSystem
from ottla.log.segment import Segment


def swap_in(old: list[Segment], swap: Path, config: LogConfig, file_system: FileSystem) -> Segment:
    """Rename the old files to `.deleted` and the new one to its name; its segment, with indexes stored."""
    directory = swap.parent
    file_system.sync_directory(directory)
    for segment in old:
        segment.rename("", file_names.DELETED)
    file_system.rename(swap, old[0].path_of(file_names.LOG))
    file_system.sync_directory(directory)
    segment = Segment(directory, old[0].base_offset, config, file_system, old[0].created_ms)
    for item in segment.file.headers(0):
        segment.note(item.position, [(item.size, item.last_offset, item.max_timestamp)])
    segment.next_offset = old[-1].next_offset
    segment.seal()
    return segment
