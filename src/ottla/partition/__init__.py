"""Partitions that the application chooses, read without a group.

`PartitionConsumer` reads partitions from offsets that it is told, as sarama's consumer does; each has a
`PartitionReader`. `replay` reads a part of a topic, bounded by offsets or times, and ends by itself.
`bounds` is the pure part of that, `log_ends` asks the brokers.
"""

from ottla.partition.bounds import OffsetRange
from ottla.partition.consumer import PartitionConsumer
from ottla.partition.errors import ReplayStalled, Untimed
from ottla.partition.reader import PartitionReader
from ottla.partition.replay import Progress, Replay, replay

__all__ = [
    "PartitionConsumer",
    "PartitionReader",
    "replay",
    "Replay",
    "Progress",
    "OffsetRange",
    "ReplayStalled",
    "Untimed",
]
