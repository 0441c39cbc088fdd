"""Kafka's names for files and directories of a log.

00000000000000000042.log      batches from offset 42   .index   offset → position   .timeindex   time → offset
                    .txnindex aborted transactions that end in the segment; missing if there are none
….log.cleaned  compaction is writing it   ….log.swap  compaction has written it   ….log.deleted  going away
orders-7                      partition 7 of orders       orders-7.<32 hex>-delete    a deleted partition
"""

from __future__ import annotations

import os
import re
from pathlib import Path

LOG, INDEX, TIME_INDEX, ABORTED_INDEX = ".log", ".index", ".timeindex", ".txnindex"
CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
STATES = ("", CLEANED, SWAP, DELETED)
INDEX_SUFFIXES = (INDEX, TIME_INDEX, ABORTED_INDEX)
SUFFIXES = (LOG, *INDEX_SUFFIXES)
DELETED_DIRECTORY = "-delete"

_SEGMENT_FILE = r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex)(\.cleaned|\.swap|\.deleted)?"
_PARTITION = re.compile(r"([A-Za-z0-9._-]{1,249})-(\d{1,10})")


def segment_file(directory: Path, base_offset: int, suffix: str) -> Path:
    """The file of a segment, e.g. for suffix LOG or LOG + SWAP."""
    return directory / f"{base_offset:020d}{suffix}"


def segment_path(directory: Path, base_offset: int, suffix: str) -> str:
    """The same as text, which costs a start with many segments less time and memory."""
    return f"{directory}{os.sep}{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str, str] | None:
    """(base offset, suffix, state suffix or "") of a file name; None for any other file."""
    match = re.fullmatch(_SEGMENT_FILE, name)
    return None if match is None else (int(match[1]), match[2], match[3] or "")


def partition_directory(root: Path, topic: str, partition: int) -> Path:
    """Where a partition's files are."""
    return root / f"{topic}-{partition}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a directory name, split at the last dash; None for any other directory."""
    match = _PARTITION.fullmatch(name)
    return None if match is None else (match[1], int(match[2]))
