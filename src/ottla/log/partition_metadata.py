"""The file `partition.metadata` of a partition's directory: the id of the topic that it belongs to.

    version: 0
    topic_id: EauGyUKnQMuQZqlI1_05Ww

Apache Kafka has it since 2.8 and refuses a directory whose id is not that of the topic. For us it is a copy:
the catalog decides, and the file is only read where there is none. So it is written without waiting for the
disk, and a file that cannot be understood counts as missing.
"""

from __future__ import annotations

import base64
import binascii
import os
from functools import lru_cache
from pathlib import Path

from ottla.log.file_system import FileSystem, read_whole
from ottla.model.errors import StorageError

FILE_NAME = "partition.metadata"
ID_BYTES = 16


def read(directory: Path) -> bytes | None:
    """The topic's id; None if the file is missing or has none."""
    try:
        data = read_whole(f"{directory}{os.sep}{FILE_NAME}")
    except OSError:
        return None
    return _topic_id(data)


@lru_cache(maxsize=256)
def _topic_id(data: bytes) -> bytes | None:
    """What a file says; those of a topic say the same."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        topic_id = base64.b64decode(fields.get("topic_id", "") + "==", b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return topic_id if len(topic_id) == ID_BYTES and any(topic_id) else None


def write(directory: Path, topic_id: bytes, file_system: FileSystem) -> None:
    """Make the file, or replace what it says. Raises StorageError."""
    text = f"version: 0\ntopic_id: {base64.urlsafe_b64encode(topic_id).decode().rstrip('=')}"
    try:
        fd = file_system.open(directory / FILE_NAME)
        try:
            file_system.truncate(fd, 0)
            file_system.write_all(fd, [text.encode()], 0)
        finally:
            os.close(fd)
    except OSError as error:
        raise StorageError(f"{directory / FILE_NAME}: cannot write it: {error}") from error
