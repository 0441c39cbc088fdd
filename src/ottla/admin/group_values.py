"""Values about consumer groups, as users get them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition


class GroupKind(StrEnum):
    """Where a group lives: with a coordinator among the brokers, or in ZooKeeper (the classic consumer)."""

    KAFKA = "kafka"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list. `state` is "" before 2.6, `group_type` ("classic", "consumer", "share") before 3.8.

    >>> from ottla import Admin
    >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     [(group.group_id, group.state) for group in admin.list_groups()]
    [('billing', 'Empty')]
    """

    group_id: str
    kind: GroupKind
    protocol_type: str = ""
    state: str = ""
    group_type: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member. Without an assignment it reads nothing, or its protocol type is not "consumer".

    In groups whose coordinator assigns, `epoch` is that of its assignment; in consumer groups `target` is
    what it is to have, and `group_type` the protocol that it speaks itself, which may still be "classic".

    >>> from ottla import Admin, GroupConsumer
    >>> settings = {"bootstrap.servers": "127.0.0.1:9092", "auto.offset.reset": "earliest"}
    >>> with GroupConsumer("orders", settings, group_id="kitchen") as consumer:
    ...     chunk = consumer.poll(timeout=30)
    ...     with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...         (member,) = admin.describe_groups("kitchen").members
    >>> member.subscription, [str(topic_partition) for topic_partition in member.assignment]
    (('orders',), ['orders-0'])
    """

    member_id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    subscription: tuple[str, ...] = ()
    assignment: tuple[TopicAndPartition, ...] = ()
    epoch: int | None = None
    target: tuple[TopicAndPartition, ...] | None = None
    group_type: str = ""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. `state` is Kafka's name: Stable, Empty, PreparingRebalance, … `assignor` is for example
    "range". `group_type` is the protocol of its members: "classic", "consumer" (KIP-848) or "share"; "" if
    that is not known. `epoch` counts the changes of a group whose coordinator assigns, `assignment_epoch`
    is that of its last assignment; None for others.

        >>> from ottla import Admin
        >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        ...     group = admin.describe_groups("billing")
        >>> group.state, group.coordinator.broker_id, group.members
        ('Empty', 0, ())
    """

    group_id: str
    kind: GroupKind
    state: str
    protocol_type: str
    assignor: str
    coordinator: BrokerNode | None
    members: tuple[GroupMember, ...]
    group_type: str = ""
    epoch: int | None = None
    assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset that a group reads from a partition, and the note that it stored with it.

    >>> from ottla import Admin
    >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     for topic_partition, committed in admin.group_offsets("billing").items():
    ...         print(topic_partition, committed.offset)
    orders-0 1
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


Offsets = Mapping[TopicAndPartition, CommittedOffset]


class ShareOffset(NamedTuple):
    """Where a share group begins in a partition, and how many records it has still to process.

    >>> from ottla.admin import ShareOffset
    >>> ShareOffset(start=3, leader_epoch=0, lag=2).lag
    2

    All are None before a member has read the partition; `lag` also on brokers before 4.2.
    """

    start: int | None
    leader_epoch: int | None = None
    lag: int | None = None


class StoredOffset(NamedTuple):
    """An offset of a group in one of the stores. `is_used`: whether live members use it; None if unknown.

    >>> from ottla import Admin
    >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     (row,) = admin.group_lag("billing").partitions
    >>> row.stored
    (StoredOffset(store=<GroupKind.KAFKA: 'kafka'>, offset=1, is_used=None),)
    """

    store: GroupKind
    offset: int
    is_used: bool | None = None


class PartitionLag(NamedTuple):
    """How far a group is behind in a partition. `lag` is None without a committed offset or a log's end.

        >>> from ottla import Admin
        >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        ...     for row in admin.group_lag("billing").partitions:
        ...         print(row.topic_partition, row.committed, row.end, row.lag)
        orders-0 1 3 2

    `stored` has the offset of every store that has one, Kafka's first. `committed` is the one that live
    members use; while that is not known, the largest. `stored_in` is its store. `error` says why the log's
    end is not known. `owner` is the member and stream in a classic group's znode. `stopped` is why a member
    of ottla cannot read the partition; "" if it can, or if it has not said so. `seconds` is how long the
    next record has waited: its age, by its own time. 0 if nothing is behind, None if it is not known.
    """

    topic_partition: TopicAndPartition
    committed: int | None
    end: int | None
    member: GroupMember | None = None
    stored_in: GroupKind | None = None
    error: OttlaError | None = None
    owner: str = ""
    stored: tuple[StoredOffset, ...] = ()
    stopped: str = ""
    seconds: float | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets behind the end; never negative."""
        return self.behind(self.committed)

    def behind(self, offset: int | None) -> int | None:
        """The number of offsets from `offset` to the end; None if one of them is not known."""
        return None if offset is None or self.end is None else max(0, self.end - offset)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a group, partition by partition, and as a whole. Rows are made when they are looked at.

    >>> from ottla import Admin
    >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     admin.group_lag("billing").total
    2
    """

    group: GroupDescription
    partitions: Sequence[PartitionLag]

    @property
    def total(self) -> int:
        """The sum over the partitions whose lag is known."""
        return sum(partition.lag or 0 for partition in self.partitions)

    @property
    def seconds(self) -> float | None:
        """The longest time that a record has waited, of the partitions where it is known."""
        known = [row.seconds for row in self.partitions if row.seconds is not None]
        return max(known, default=None)


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """The effect of a reset on a partition; `before` is None if nothing was committed.

    `wanted` is what was asked for, `after` the nearest offset that the log has. `wanted` is None if no record
    is as late as the time that was asked for; `after` is the log's end then.

    >>> from ottla import Admin
    >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     moves = admin.reset_group_offsets("billing", "orders", "latest", dry_run=True)
    >>> {str(topic_partition): move for topic_partition, move in moves.items()}
    {'orders-0': OffsetMove(before=1, after=3, wanted=3)}
    """

    before: int | None
    after: int
    wanted: int | None
