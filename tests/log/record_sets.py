"""Record sets as producers send them, and ways to look at what a log holds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ottla.log.file_system import REAL, FileSystem
from ottla.log.log_config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.validation import checked
from ottla.records.builder import Stamp, encode
from ottla.records.compression import Codec
from ottla.records.messages import Message, MessageSet, to_columns

NOW = 1_700_000_000_000
Row = tuple[bytes | None, bytes | None]


def batch(
    *rows: Row, timestamp: int = NOW, codec: Codec = Codec.NONE, magic: int = 2, **stamp: Any
) -> bytearray:
    """A producer's record set of (key, value) rows."""
    columns = to_columns(Message(value, key, timestamp) for key, value in rows)
    return bytearray(b"".join(encode(columns, magic=magic, codec=codec, stamp=Stamp(**stamp))))


def values(first: int, count: int, size: int = 20) -> list[Row]:
    """Rows with numbered keys and values of a size."""
    return [(b"k%d" % n, (b"v%d-" % n).ljust(size, b".")) for n in range(first, first + count)]


def open_log(
    path: Path, config: LogConfig | None = None, file_system: FileSystem = REAL, **kind: object
) -> PartitionLog:
    """A log in a directory that is made if it is missing."""
    path.mkdir(exist_ok=True)
    return PartitionLog.open(path, config or LogConfig(), NOW, file_system=file_system, **kind)  # type: ignore[arg-type]


def add(log: PartitionLog, data: bytes | bytearray | memoryview, now: int = NOW, epoch: int = 0) -> int:
    """Append and write; the base offset."""
    appended = log.append(checked(data, log.config, now), now, epoch)
    log.write_staged()
    return appended.base_offset


def rows_of(log: PartitionLog, start: int | None = None) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of all records, read as a consumer does."""
    rows, offset = [], log.start_offset if start is None else start
    while offset < log.high_watermark:
        data = log.read(offset, 1 << 20)
        if not data:
            break
        for piece in MessageSet(data).decoded(from_offset=offset):
            columns = (piece.batch.column(name).to_pylist() for name in ("offset", "key", "value"))
            rows += list(zip(*columns, strict=True))
            offset = piece.next_offset
            if not piece.valid_bytes:
                break
    return rows


def names(path: Path) -> list[str]:
    """File names of a directory."""
    return sorted(item.name for item in path.iterdir())


def joined(sets: Iterable[bytes | bytearray]) -> bytearray:
    """Record sets one behind the other."""
    return bytearray(b"".join(sets))
