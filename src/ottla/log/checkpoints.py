"""Kafka's small text files: offsets of partitions, leader epochs, the owner of the directory.

    0                     the version of the format
    2                     how many lines follow
    orders 0 1041         topic partition offset          (leader-epoch-checkpoint: epoch start-offset)
    orders 1 77

Each is replaced whole, so that a crash leaves the old one or the new one. A file that says something else is
refused: a wrong recovery point would skip the repair of a log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from ottla.log.file_system import FileSystem, read_whole
from ottla.model.checksums import crc32c
from ottla.model.errors import StorageError

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
ALL = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER)
CHECKSUMS = "ottla-checksums"  # of those four: ours alone, since Kafka's format has no room for them
LEADER_EPOCHS = "leader-epoch-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META = "meta.properties"
REMEDY = "restore it, or see: ottla log repair {} --dry-run"

TopicPartition = tuple[str, int]


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Offsets by partition; empty if there is no file."""
    offsets, rows = {}, _rows(path, fields=3)
    for line in rows:
        topic, partition, offset = line
        offsets[topic, int(partition)] = int(offset)
        if int(partition) < 0 or int(offset) < 0:
            raise _not_a_checkpoint(path)
    if len(offsets) < len(rows):
        raise _not_a_checkpoint(path)  # a partition is there twice
    return offsets


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int], file_system: FileSystem) -> None:
    """Replace the file."""
    file_system.replace_file(path, _text(_offset_rows(offsets)))


def _offset_rows(offsets: Mapping[TopicPartition, int]) -> Iterator[str]:
    return (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))


def write_all(
    directory: Path, files: Mapping[str, Mapping[TopicPartition, int]], file_system: FileSystem
) -> None:
    """Replace several files of offsets, and before them the file of their checksums.

    For each file that has two: before and after this change, since a crash may come in between.
    """
    texts = {name: _text(_offset_rows(offsets)) for name, offsets in files.items()}
    known = read_checksums(directory)
    rows = (f"{name} {known.get(name, [0])[-1]} {checksum(text)}" for name, text in texts.items())
    file_system.replace_file(directory / CHECKSUMS, _text(rows))
    for name, text in texts.items():
        file_system.replace_file(directory / name, text)


def checksum(data: bytes) -> int:
    """The checksum of a file's content."""
    return int(crc32c(data))


def read_checksums(directory: Path) -> dict[str, list[int]]:
    """What the content of each file may add up to, by name; empty if that is not known."""
    try:
        return {name: [int(old), int(new)] for name, old, new in _rows(directory / CHECKSUMS, fields=3)}
    except StorageError:
        return {}


def read_pairs(path: str | Path) -> list[tuple[int, int]]:
    """Rows of two numbers, such as an epoch and its first offset; empty if there is no file.

    Both numbers must grow from row to row.
    """
    pairs = _pairs(_text_of(path))
    if pairs is None:
        raise _not_a_checkpoint(Path(path))
    return list(pairs)


@lru_cache(maxsize=256)
def _pairs(text: str) -> tuple[tuple[int, int], ...] | None:
    """The pairs of numbers in a file's text; None if it is not right. Most partitions have the same."""
    rows = _parsed(text, fields=2)
    if rows is None:
        return None
    pairs = tuple((int(first), int(second)) for first, second in rows)
    if any(a >= c or b >= d for (a, b), (c, d) in pairwise(pairs)) or any(a < 0 or b < 0 for a, b in pairs):
        return None
    return pairs


def write_pairs(
    path: Path, pairs: Iterable[tuple[int, int]], file_system: FileSystem, *, flush: bool = True
) -> None:
    """Replace the file."""
    file_system.replace_file(path, _text(f"{first} {second}" for first, second in pairs), flush=flush)


def _text(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return "".join(f"{line}\n" for line in ["0", len(lines), *lines]).encode()


def _rows(path: Path, fields: int) -> list[list[str]]:
    rows = _parsed(_text_of(path), fields)
    if rows is None:
        raise _not_a_checkpoint(path)
    return rows


def _parsed(text: str, fields: int) -> list[list[str]] | None:
    lines = text.splitlines()
    if not lines:
        return []  # Kafka makes the file before it has anything to say
    rows = [line.split(" ") for line in lines[2:] if line]
    try:
        is_right = lines[0] == "0" and int(lines[1]) == len(rows)
        _ = [int(number) for row in rows for number in row[fields - 2 :]]
    except (IndexError, ValueError):
        is_right = False
    return rows if is_right and all(len(row) == fields for row in rows) else None


def _not_a_checkpoint(path: Path) -> StorageError:
    return StorageError(f"{path} is no checkpoint file of version 0: {REMEDY.format(path.parent)}")


def _text_of(path: str | Path) -> str:
    """The text of a file; empty if there is none."""
    try:
        return read_whole(os.fspath(path)).decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise StorageError(
            f"{path} is damaged, it is not text: {REMEDY.format(Path(path).parent)}"
        ) from error


def read_properties(path: Path) -> dict[str, str]:
    """A Java properties file of simple lines; empty if there is none."""
    pairs = (
        line.split("=", 1) for line in _text_of(path).splitlines() if "=" in line and not line.startswith("#")
    )
    return {name.strip(): value.strip() for name, value in pairs}


def names_owner(properties: Mapping[str, str]) -> bool:
    """Whether `meta.properties` says whose data these are."""
    return "version" in properties and bool(properties.keys() & {"broker.id", "node.id"})


def write_properties(path: Path, properties: Mapping[str, str], file_system: FileSystem) -> None:
    """Replace the file."""
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    file_system.replace_file(path, text.encode())
