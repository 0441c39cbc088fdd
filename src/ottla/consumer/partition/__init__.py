"""Partitions that the application chooses, read without a group.

`PartitionConsumer` reads partitions from given offsets; each has a `PartitionReader`. `replay` reads a part
of a topic, bounded by offsets or times, and ends by itself; `replay_bounds` is its pure part.
"""

from ottla.consumer.partition.partition_consumer import PartitionConsumer
from ottla.consumer.partition.partition_reader import PartitionReader
from ottla.consumer.partition.replay import Progress, Replay, replay
from ottla.consumer.reading.offset_ranges import OffsetRange

__all__ = [
    "PartitionConsumer",
    "PartitionReader",
    "replay",
    "Replay",
    "Progress",
    "OffsetRange",
]
