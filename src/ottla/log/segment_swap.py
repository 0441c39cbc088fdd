"""The end of a compaction: new files take the places of those that they replace.

1. All `.log.cleaned` files get the suffix `.swap`, and the directory is flushed. That decides: a crash before
   leaves the old segments, after it recovery finishes the job from the names of the files alone.
2. Oldest first, the old files become `.deleted` and the new one gets its name. So a tombstone never goes
   before the values that it hides. The directory is flushed with the log's next flush.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ottla.log.file_names import CLEANED, DELETED, SWAP
from ottla.log.file_system import FileSystem
from ottla.log.segment import Segment
from ottla.log.segment_list import SegmentList


def swap_in(
    swaps: Sequence[tuple[list[Segment], Segment]],
    segments: SegmentList,
    directory: Path,
    file_system: FileSystem,
) -> None:
    """Replace neighbouring segments by one each, in the order of offsets. Raises OSError at any step."""
    if not swaps:
        return
    for old, new in swaps:
        # The age of records without a time is that of their file.
        file_system.set_modified(new.file.path, old[-1].modified_ms)
        new.rename(CLEANED, SWAP)
    file_system.sync_directory(directory)
    for old, new in swaps:
        for segment in old:
            segment.rename("", DELETED)
        new.rename(SWAP, "")
        new.next_offset = old[-1].next_offset
        new.seal()
        segments.replace(old, new)
