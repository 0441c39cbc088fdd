"""Which stream reads which partition. Pure: every member computes it alone, from the same znodes.

Nothing is negotiated, so the result has to be what Kafka's own members compute, down to the order of ties.
The unit is the stream, not the member; partitions are ordered as numbers, streams as texts (`identity`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ottla.classic.identity import ConsumerThreadId
from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import OttlaError
from ottla.model.java_hashes import java_hash

Assignment = Mapping[TopicAndPartition, ConsumerThreadId]


class AssignmentRefused(OttlaError):
    """The group's subscriptions do not fit the strategy; the message says which."""


@dataclass(frozen=True)
class AssignmentInput:
    """`threads`: the sorted streams of all members by topic. `partitions`: the sorted partitions by topic.

    `partitions` may lack topics that only others subscribe to.
    """

    threads: Mapping[str, Sequence[ConsumerThreadId]]
    partitions: Mapping[str, Sequence[int]]


Assignor = Callable[[AssignmentInput], dict[TopicAndPartition, ConsumerThreadId]]


def assign_ranges(given: AssignmentInput) -> dict[TopicAndPartition, ConsumerThreadId]:
    """Each topic by itself: the streams get runs of neighbours, the first ones one more where it is not even.

    10 partitions, streams a-0 a-1 b-0 b-1  →  0 1 2 | 3 4 5 | 6 7 | 8 9
    """
    found = {}
    for topic, partitions in given.partitions.items():
        threads = given.threads.get(topic, ())
        if not threads:
            continue
        share, extra = divmod(len(partitions), len(threads))
        for index, thread in enumerate(threads):
            first = share * index + min(index, extra)
            for partition in partitions[first : first + share + (index < extra)]:
                found[TopicAndPartition(topic, partition)] = thread
    return found


class RoundRobinVersion(Enum):
    """Kafka changed how it deals partitions twice. All members of a group must do it the same way."""

    V0_8_2 = "0.8.2"
    """All streams must subscribe to all topics; partitions are ordered by the hash of "[topic,partition]"."""
    V0_10_2 = "0.10.2"
    """Any subscriptions; the same order."""
    V1_0 = "1.0"
    """Any subscriptions; ordered by the hash of "topic-partition"."""


def deal_round_robin(
    given: AssignmentInput, version: RoundRobinVersion = RoundRobinVersion.V0_8_2
) -> dict[TopicAndPartition, ConsumerThreadId]:
    """All partitions of all topics in turns. Raises AssignmentRefused."""
    if version is RoundRobinVersion.V0_8_2:
        _check_identical(given)
    ring = sorted({thread for threads in given.threads.values() for thread in threads}, key=str)
    members = {topic: set(threads) for topic, threads in given.threads.items()}
    found = {}
    at = 0
    for place in sorted(_places(given), key=lambda place: _order(place, version)):
        for step in range(len(ring)):
            thread = ring[(at + step) % len(ring)]
            if thread in members.get(place.topic, ()):
                found[place] = thread
                at += step + 1
                break
    return found


def _places(given: AssignmentInput) -> Iterable[TopicAndPartition]:
    for topic, partitions in given.partitions.items():
        for partition in partitions:
            yield TopicAndPartition(topic, partition)


def _order(place: TopicAndPartition, version: RoundRobinVersion) -> tuple[int, TopicAndPartition]:
    """The place itself settles equal hashes, which Kafka leaves to chance."""
    dashed = version is RoundRobinVersion.V1_0
    text = f"{place.topic}-{place.partition}" if dashed else f"[{place.topic},{place.partition}]"
    return java_hash(text), place


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
