"""What is told about consumer groups: frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition


class GroupKind(Enum):
    """Where a group lives: with a coordinator among the brokers, or in ZooKeeper (the classic consumer)."""

    KAFKA = "kafka"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group that there is. What brokers do not tell in a list is "": `state` before 2.6, `group_type`
    ("classic" or "consumer", KIP-848) before 3.8."""

    group_id: str
    kind: GroupKind
    protocol_type: str = ""
    state: str = ""
    group_type: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member and what it reads. Without an assignment it has none, or is not of the type "consumer"."""

    member_id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    subscription: tuple[str, ...] = ()
    assignment: tuple[TopicAndPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. `state` as Kafka names it: Stable, Empty, PreparingRebalance, … `assignor`: e.g. "range"."""

    group_id: str
    kind: GroupKind
    state: str
    protocol_type: str
    assignor: str
    coordinator: BrokerNode | None
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset that a group reads from a partition, and what it wrote beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


Offsets = Mapping[TopicAndPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is behind in a partition. `lag` is None without a committed offset or a log's end.

    `stored_in` says where the committed offset was found; `error` why the log's end is not known. `owner` is
    what a classic group's znode has: member and stream.
    """

    topic_partition: TopicAndPartition
    committed: int | None
    end: int | None
    member: GroupMember | None = None
    stored_in: GroupKind | None = None
    error: OttlaError | None = None
    owner: str = ""

    @property
    def lag(self) -> int | None:
        """Records behind the end, as offsets count them; never negative."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a group, partition by partition, and as a whole."""

    group: GroupDescription
    partitions: tuple[PartitionLag, ...]

    @property
    def total(self) -> int:
        """The sum over the partitions whose lag is known."""
        return sum(one.lag or 0 for one in self.partitions)


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """What a reset does to one partition; `before` is None where nothing was committed."""

    before: int | None
    after: int
