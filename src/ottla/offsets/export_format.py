"""Positions as lines of text, as Kafka's ExportZkOffsets writes them and ImportZkOffsets reads them.

    /consumers/billing/offsets/orders/0:1204
    /consumers/billing/offsets/orders/1:977

A line has the path where ZooKeeper keeps the position, whichever store it came from, and the next offset to
read. An empty line is the end, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import ConfigError
from ottla.offsets.store import OffsetAndMetadata
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import decode_offset, encode_offset
from ottla.zookeeper.errors import ZnodeError

_PATH = re.compile(paths.CONSUMERS + r"/([^/]+)/offsets/([^/]+)/([0-9]{1,10})")

Positions = Mapping[TopicAndPartition, OffsetAndMetadata]


def export_line(path: str, offset: str) -> str:
    """One line, with its end."""
    return f"{path}:{offset}\n"


def exported(group: str, positions: Positions) -> str:
    """All positions of a group, a line each, in order. Raises ConfigError for names that make no path."""
    return "".join(
        export_line(paths.offset(group, *place), encode_offset(position.offset).decode())
        for place, position in sorted(positions.items())
    )


def export_entries(text: str) -> Iterator[tuple[str, str]]:
    """Path and offset of each line, as they are written there."""
    for line in text.splitlines():
        if not line:
            return
        path, _, offset = line.partition(":")
        yield path, offset


def imported(text: str) -> dict[str, dict[TopicAndPartition, OffsetAndMetadata]]:
    """Positions by group. Raises ConfigError with the number of the line that is none."""
    found: dict[str, dict[TopicAndPartition, OffsetAndMetadata]] = {}
    for number, (path, offset) in enumerate(export_entries(text), 1):
        match = _PATH.fullmatch(path)
        try:
            position = decode_offset(path, offset.encode())
        except ZnodeError:
            position = -1
        if match is None or position < 0:
            raise ConfigError(
                f"line {number}: {path}:{offset} is no position; "
                f"{paths.offset('GROUP', 'TOPIC', 0)}:OFFSET is wanted"
            )
        group, topic, partition = match.groups()
        found.setdefault(group, {})[TopicAndPartition(topic, int(partition))] = OffsetAndMetadata(position)
    return found
