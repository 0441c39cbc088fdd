"""Which stream reads which partition. Pure: every member computes it alone, from the same znodes.

Nothing is negotiated, so the result must equal what Kafka's own members compute, including the order of ties.
The unit is the stream, not the member. Partitions are sorted as numbers, streams as texts (`identity`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.model.errors import OttlaError
from ottla.model.java_hashes import java_hash
from ottla.model.topic_partition import TopicAndPartition

Assignment = Mapping[TopicAndPartition, ConsumerThreadId]


class AssignmentRefused(OttlaError):
    """The subscriptions of the group do not fit the strategy; the message names them."""


@dataclass(frozen=True)
class AssignmentInput:
    """`threads`: topic → the sorted streams of all members. `partitions`: topic → its sorted partitions.

    Topics that only other members subscribe to may be missing from `partitions`.
    """

    threads: Mapping[str, Sequence[ConsumerThreadId]]
    partitions: Mapping[str, Sequence[int]]


Assignor = Callable[[AssignmentInput], dict[TopicAndPartition, ConsumerThreadId]]


def assign_ranges(given: AssignmentInput) -> dict[TopicAndPartition, ConsumerThreadId]:
    """Assign each topic by itself: every stream gets consecutive partitions. If the number does not divide
    evenly, the first streams get one more each.

    10 partitions, streams a-0 a-1 b-0 b-1  →  0 1 2 | 3 4 5 | 6 7 | 8 9
    """
    assignment = {}
    for topic, partitions in given.partitions.items():
        threads = given.threads.get(topic, ())
        if not threads:
            continue
        share, extra = divmod(len(partitions), len(threads))
        for index, thread in enumerate(threads):
            first = share * index + min(index, extra)
            for partition in partitions[first : first + share + (index < extra)]:
                assignment[TopicAndPartition(topic, partition)] = thread
    return assignment


class RoundRobinVersion(Enum):
    """Kafka changed its round-robin twice. All members of a group must use the same version."""

    V0_8_2 = "0.8.2"
    """All streams must subscribe to all topics; partitions are ordered by the hash of "[topic,partition]"."""
    V0_10_2 = "0.10.2"
    """Any subscriptions; the same order."""
    V1_0 = "1.0"
    """Any subscriptions; ordered by the hash of "topic-partition"."""


def deal_round_robin(
    given: AssignmentInput, version: RoundRobinVersion = RoundRobinVersion.V0_8_2
) -> dict[TopicAndPartition, ConsumerThreadId]:
    """Deal all partitions of all topics to the streams in turn. Raises AssignmentRefused."""
    if version is RoundRobinVersion.V0_8_2:
        _check_identical(given)
    ring = sorted({thread for threads in given.threads.values() for thread in threads}, key=str)
    members = {topic: set(threads) for topic, threads in given.threads.items()}
    assignment = {}
    position = 0
    for topic_partition in sorted(_partitions(given), key=lambda each: _order(each, version)):
        for step in range(len(ring)):
            thread = ring[(position + step) % len(ring)]
            if thread in members.get(topic_partition.topic, ()):
                assignment[topic_partition] = thread
                position += step + 1
                break
    return assignment


def _partitions(given: AssignmentInput) -> Iterable[TopicAndPartition]:
    for topic, partitions in given.partitions.items():
        for partition in partitions:
            yield TopicAndPartition(topic, partition)


def _order(topic_partition: TopicAndPartition, version: RoundRobinVersion) -> tuple[int, TopicAndPartition]:
    """Sort key: Kafka's hash. Equal hashes, which Kafka leaves to chance, are sorted by name and number."""
    topic, partition = topic_partition
    text = f"{topic}-{partition}" if version is RoundRobinVersion.V1_0 else f"[{topic},{partition}]"
    return java_hash(text), topic_partition


def _check_identical(given: AssignmentInput) -> None:
    first_topic = next(iter(given.threads), "")
    for topic, threads in given.threads.items():
        if set(threads) != set(given.threads[first_topic]):
            raise AssignmentRefused(
                "partition.assignment.strategy=roundrobin (Kafka 0.8.2 to 0.10.1) needs the same streams for "
                f"every topic: {first_topic} has {_texts(given.threads[first_topic])}, "
                f"{topic} has {_texts(threads)}; use range, or round.robin.version=0.10.2 for all members"
            )


def _texts(threads: Sequence[ConsumerThreadId]) -> str:
    return ", ".join(map(str, threads)) or "none"
