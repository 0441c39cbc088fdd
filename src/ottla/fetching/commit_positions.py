"""What `commit()` of a consumer and `send_offsets()` of a producer accept: a message, a chunk, or
positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import MessageAndMetadata

Positions = Mapping[TopicAndPartition, int | OffsetAndMetadata]
Committable = Positions | FetchedDataChunk | MessageAndMetadata[Any, Any]


def commit_positions(
    offsets: Committable | None, handed_out: Callable[[], Positions]
) -> dict[TopicAndPartition, OffsetAndMetadata]:
    """Return the next offset to read of each partition.

    A message or a chunk counts as processed, with everything before it in its partition. None stands for
    everything that was handed out. Raises ConfigError for anything else.
    """
    if offsets is None:
        positions = handed_out()
    elif isinstance(offsets, FetchedDataChunk):
        positions = {offsets.topic_partition: offsets.next_offset}
    elif isinstance(offsets, MessageAndMetadata):
        positions = {TopicAndPartition(offsets.topic, offsets.partition): offsets.next_offset}
    elif isinstance(offsets, Mapping):
        positions = offsets
    else:
        raise ConfigError(f"commit({offsets!r:.100}): give a message, a chunk, a mapping or nothing")
    return {
        TopicAndPartition(*topic_partition): position
        if isinstance(position, OffsetAndMetadata)
        else OffsetAndMetadata(position)
        for topic_partition, position in positions.items()
    }
