"""Kafka's small text files: offsets of partitions, leader epochs, who owns the directory.

    0                     the version of the format
    2                     how many lines follow
    orders 0 1041         topic partition offset          (leader-epoch-checkpoint: epoch start-offset)
    orders 1 77

Each is replaced whole, so that a crash leaves the old one or the new one. A file that says something else is
refused: a wrong recovery point would skip the repair of a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.log.file_system import FileSystem
from ottla.model.errors import StorageError

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META = "meta.properties"

TopicPartition = tuple[str, int]


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Offsets by partition; empty if there is no file."""
    offsets = {}
    for line in _rows(path, fields=3):
        topic, partition, offset = line
        offsets[topic, int(partition)] = int(offset)
    return offsets


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int], file_system: FileSystem) -> None:
    """Replace the file."""
    rows = (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    _write(path, rows, file_system)


def read_epochs(path: Path) -> list[tuple[int, int]]:
    """(epoch, its first offset) in order; empty if there is no file."""
    return [(int(epoch), int(offset)) for epoch, offset in _rows(path, fields=2)]


def write_epochs(path: Path, epochs: Iterable[tuple[int, int]], file_system: FileSystem) -> None:
    """Replace the file."""
    _write(path, (f"{epoch} {offset}" for epoch, offset in epochs), file_system)


def _write(path: Path, rows: Iterable[str], file_system: FileSystem) -> None:
    lines = list(rows)
    file_system.replace_file(path, "".join(f"{line}\n" for line in ["0", len(lines), *lines]).encode())


def _rows(path: Path, fields: int) -> list[list[str]]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    if not lines:
        return []  # Kafka makes the file before it has anything to say
    rows = [line.split(" ") for line in lines[2:] if line]
    try:
        is_right = lines[0] == "0" and int(lines[1]) == len(rows)
        _ = [int(number) for row in rows for number in row[fields - 2 :]]
    except (IndexError, ValueError):
        is_right = False
    if not is_right or any(len(row) != fields for row in rows):
        raise StorageError(
            f"{path} is no checkpoint file of version 0: remove it to have every log checked from its start"
        )
    return rows


def read_properties(path: Path) -> dict[str, str]:
    """A Java properties file of simple lines; empty if there is none."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def write_properties(path: Path, properties: Mapping[str, str], file_system: FileSystem) -> None:
    """Replace the file."""
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    file_system.replace_file(path, text.encode())
