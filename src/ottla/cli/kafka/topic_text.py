"""Text and parsing that both kinds of kafka-topics share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.admin import ConfigEntry, PartitionDescription, TopicDescription
from ottla.cli.kafka.flags import WrongFlags
from ottla.cli.kafka.java_order import java_order

EXACTLY_ONE = "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
COLLISIONS = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
    "collide. To avoid issues it is best to use either, but not both."
)
NO_SUCH_TOPIC = "Topic '{}' does not exist as expected"


def configs_to_add(texts: Iterable[str]) -> dict[str, str]:
    """Parse name=value."""
    pairs = [re.split(r"\s*=\s*", text, maxsplit=1) for text in texts]
    if any(len(pair) != 2 for pair in pairs):
        raise WrongFlags(
            "requirement failed: Invalid topic config: all configs to be added must be in the format "
            '"key=val".'
        )
    return {name.strip(): value.strip() for name, value in pairs}


def replica_assignment(text: str) -> dict[int, list[int]]:
    """Parse `1:2,2:1` into the brokers of each partition."""
    try:
        return {
            partition: [int(part) for part in brokers.split(":")]
            for partition, brokers in enumerate(text.split(","))
        }
    except ValueError:
        raise WrongFlags(f"Cannot parse argument '{text}' of option replica-assignment") from None


@dataclass(frozen=True)
class TopicText:
    """The first line of a topic's description in Kafka 4. `entries` are all settings, in order."""

    topic: TopicDescription
    entries: Mapping[str, ConfigEntry]
    overrides: Mapping[str, str | None]

    def line(self) -> str:
        """The line, with tabs."""
        ordered = [name for name in java_order(self.entries) if name in self.overrides]
        configs = ",".join(f"{name}={self.overrides[name]}" for name in ordered)
        named = [f"Topic: {self.topic.name}"]
        if self.topic.topic_id:
            named.append(f"TopicId: {self.topic.topic_id}")
        counts = [
            f"PartitionCount: {len(self.topic.partitions)}",
            f"ReplicationFactor: {self.topic.replication_factor}",
        ]
        return "\t".join([*named, *counts, f"Configs: {configs}"])


@dataclass(frozen=True)
class PartitionText:
    """A partition's line in Kafka 4.

    `has_elr` says that the brokers keep eligible leader replicas. There are none while enough copies are in
    sync; else they are not requested, and N/A is printed.
    """

    topic: str
    partition: PartitionDescription
    least_isr: int
    has_elr: bool

    def line(self) -> str:
        """The line, with tabs."""
        partition = self.partition
        leader = "none" if partition.leader is None else partition.leader
        elr = "" if self.has_elr and len(partition.isr) >= self.least_isr else "N/A"
        return (
            f"\tTopic: {self.topic}\tPartition: {partition.partition}\tLeader: {leader}\tReplicas: "
            f"{_joined(partition.replicas)}\tIsr: {_joined(partition.isr)}\tElr: {elr}\tLastKnownElr: {elr}"
        )

    def passes(self, which: str, live: set[int]) -> bool:
        """Whether a filter of --describe accepts the partition."""
        partition = self.partition
        return {
            "under-replicated-partitions": len(partition.isr) < len(partition.replicas),
            "unavailable-partitions": partition.leader is None or partition.leader not in live,
            "under-min-isr-partitions": partition.leader is None or len(partition.isr) < self.least_isr,
            "at-min-isr-partitions": len(partition.isr) == self.least_isr,
        }[which]


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(str(number) for number in numbers)
