"""What consumers write into their group's membership, decoded: subscription and assignment.

subscription   version i16 | topics [string] | …                        newer versions append
assignment     version i16 | [topic string, partitions [i32]] | …
"""

from __future__ import annotations

import struct

from ottla.model.errors import RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition

CONSUMER = "consumer"


class _Cursor:
    """Reads from the front; counts are held against what is left."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._at, self._what = bytes(data), 0, what

    def number(self, layout: str) -> int:
        try:
            (number,) = struct.unpack_from(layout, self._data, self._at)
        except struct.error as error:
            raise RemoteProtocolError(f"{self._what}: {error}") from None
        self._at += struct.calcsize(layout)
        return int(number)

    def count(self) -> int:
        count = self.number(">i")
        if not 0 <= count <= len(self._data) - self._at:
            raise RemoteProtocolError(f"{self._what}: a list of {count} in {len(self._data)} bytes")
        return count

    def text(self) -> str:
        length = self.number(">h")
        text = self._data[self._at : self._at + max(0, length)]
        self._at += len(text)
        try:
            if length == len(text):
                return text.decode()
        except UnicodeDecodeError:
            pass
        raise RemoteProtocolError(f"{self._what}: no text of {length} bytes at {self._at}")


def decode_subscription(data: bytes) -> tuple[str, ...]:
    """The topics. Raises RemoteProtocolError: some clients have formats of their own."""
    if not data:
        return ()
    cursor = _Cursor(data, "subscription")
    cursor.number(">h")
    return tuple(sorted(cursor.text() for _ in range(cursor.count())))


def decode_assignment(data: bytes) -> tuple[TopicAndPartition, ...]:
    """The partitions. Raises RemoteProtocolError."""
    if not data:
        return ()
    cursor = _Cursor(data, "assignment")
    cursor.number(">h")
    found = []
    for _ in range(cursor.count()):
        topic = cursor.text()
        found += [TopicAndPartition(topic, cursor.number(">i")) for _ in range(cursor.count())]
    return tuple(sorted(found))
