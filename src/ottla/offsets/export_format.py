"""Positions as lines of text, as Kafka's ExportZkOffsets writes them and ImportZkOffsets reads them.

    /consumers/billing/offsets/orders/0:1204
    /consumers/billing/offsets/orders/1:977

A line has the path where ZooKeeper keeps the position, whichever store it came from, and the next offset to
read. An empty line is the end, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import decode_offset, encode_offset
from ottla.zookeeper.zookeeper_errors import ZnodeError

_PATH = re.compile(paths.CONSUMERS + r"/([^/]+)/offsets/([^/]+)/([0-9]{1,10})")

Positions = Mapping[TopicAndPartition, OffsetAndMetadata]


def export_line(path: str, offset: str) -> str:
    """Return one line, with its line end."""
    return f"{path}:{offset}\n"


def exported(group: str, positions: Positions) -> str:
    """Format all positions of a group, one per line, sorted. Raises ConfigError for invalid names."""
    return "".join(
        export_line(paths.offset(group, *topic_partition), encode_offset(position.offset).decode())
        for topic_partition, position in sorted(positions.items())
    )


def export_entries(text: str) -> Iterator[tuple[str, str]]:
    """Path and offset of each line, as they are written there."""
    for line in text.splitlines():
        if not line:
            return
        path, _, offset = line.partition(":")
        yield path, offset


def imported(text: str) -> dict[str, dict[TopicAndPartition, OffsetAndMetadata]]:
    """Parse positions, by group. Raises ConfigError with the number of a line that is wrong."""
    groups: dict[str, dict[TopicAndPartition, OffsetAndMetadata]] = {}
    for number, (path, offset) in enumerate(export_entries(text), 1):
        match = _PATH.fullmatch(path)
        try:
            position = decode_offset(path, offset.encode())
        except ZnodeError:
            position = -1
        if match is None or position < 0:
            raise ConfigError(
                f"line {number}: {path}:{offset} is not a position; "
                f"{paths.offset('GROUP', 'TOPIC', 0)}:OFFSET is expected"
            )
        group, topic, partition = match.groups()
        groups.setdefault(group, {})[TopicAndPartition(topic, int(partition))] = OffsetAndMetadata(position)
    return groups
