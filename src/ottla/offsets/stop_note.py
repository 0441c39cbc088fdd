"""The note that a member of a group stores while it cannot read a partition. Pure.

In Kafka it is the metadata of the committed offset, in ZooKeeper an ephemeral node of the group. `ottla lag`
shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition

_PREFIX = "ottla: "


def stop_note(error: Exception) -> str:
    """Return the note for an error: short, because brokers limit it (offset.metadata.max.bytes)."""
    name = error.error.name if isinstance(error, KafkaError) else type(error).__name__
    return f"{_PREFIX}stopped by {name}"


def stop_reason(metadata: str) -> str:
    """Return the reason in a note; "" if the metadata is not a note."""
    return metadata.removeprefix(_PREFIX) if metadata.startswith(f"{_PREFIX}stopped by ") else ""


def noted(
    positions: Mapping[TopicAndPartition, OffsetAndMetadata], notes: Mapping[TopicAndPartition, str]
) -> dict[TopicAndPartition, OffsetAndMetadata]:
    """Return the positions with notes, where the application has not given metadata of its own."""
    return {
        topic_partition: replace(position, metadata=notes[topic_partition])
        if topic_partition in notes and not position.metadata
        else position
        for topic_partition, position in positions.items()
    }
