"""What consumer groups know of topics: names, ids and partition counts, as they are now."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla.model.errors import OttlaError

REGEX_LENGTH_MAX = 4096
"""Longer expressions are refused: each is stored in the group's log, and compiled for every refresh."""


class RegexError(OttlaError):
    """A regular expression that RE2 does not understand; the text says why."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the assignors see it."""

    name: str
    topic_id: bytes
    partition_count: int


class TopicsView(Protocol):
    """The topics of the cluster. `version` changes if one is created, deleted, grows or moves."""

    @property
    def version(self) -> int:
        """Return the number of changes so far."""

    def by_name(self, name: str) -> TopicFacts | None:
        """Return a topic, or None."""

    def by_id(self, topic_id: bytes) -> TopicFacts | None:
        """Return a topic, or None."""

    def racks(self, name: str) -> Iterable[Iterable[str]]:
        """Return the racks of the replicas of each of a topic's partitions; nothing if brokers have none."""

    def names(self) -> Iterable[str]:
        """Return the names of all topics that a regular expression may match."""


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that an expression (syntax of RE2) matches as a whole. Raises RegexError.

    RE2 needs time in proportion to a name's length, whatever the expression is.
    """
    import pyarrow as pa  # here: takes 50 ms to load, and few groups have a pattern
    import pyarrow.compute as pc

    if len(pattern) > REGEX_LENGTH_MAX:
        raise RegexError(f"it has {len(pattern)} characters; at most {REGEX_LENGTH_MAX} are served")
    all_names = pa.array(sorted(names), pa.string())
    try:
        # Compiled alone first: "a)(?:b" is invalid, but would be valid within the brackets below.
        pc.match_substring_regex(pa.array([""], pa.string()), pattern=pattern)
        is_match = pc.match_substring_regex(all_names, pattern=rf"\A(?:{pattern})\z")
    except pa.ArrowInvalid as error:
        raise RegexError(str(error)) from error
    return frozenset(all_names.filter(is_match).to_pylist())


def metadata_hash(topics: Iterable[TopicFacts], view: TopicsView) -> int:
    """Return a hash that changes if a topic is created, deleted, recreated or grows, or if a partition gets
    replicas in other racks (KIP-1101); 0 without topics.

    Only compared with hashes of this function: Kafka computes others, and then rebalances once.
    """
    rows = []
    for topic in topics:
        racks = "".join(f"\0{','.join(sorted(of_partition))}" for of_partition in view.racks(topic.name))
        rows.append(f"{topic.name}\0{topic.topic_id.hex()}\0{topic.partition_count}{racks}")
    rows.sort()
    if not rows:
        return 0
    digest = hashlib.blake2b("\n".join(rows).encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def counts(topics: Iterable[TopicFacts]) -> Mapping[bytes, int]:
    """Return the partition count of each topic, by its id."""
    return {topic.topic_id: topic.partition_count for topic in topics}
