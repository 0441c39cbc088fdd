"""Values about topics and the cluster, as users give and get them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import ConfigError

ConfigValue = str | int | float | bool


def config_text(value: ConfigValue) -> str:
    """Return the value as brokers read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. None is the broker's default, which needs brokers from 2.4 on.

        >>> from ottla.admin import Admin, NewTopic
        >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        ...     admin.create_topics(NewTopic("clicks", partitions=3, configs={"retention.ms": 60_000}))
        TopicCreation(name='clicks', partitions=3, replication_factor=1)

    `assignment` replaces `partitions` and `replication_factor`: `{0: [1, 2], 1: [2, 1]}` is two partitions on
    the brokers 1 and 2, the preferred leader first.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, count in (("partitions", self.partitions), ("replication factor", self.replication_factor)):
            if count is not None and count < 1:
                raise ConfigError(f"topic {self.name!r}: {what} is {count}, and must be 1 or more")
        if self.assignment is None:
            return
        if self.partitions is not None or self.replication_factor is not None:
            raise ConfigError(
                f"topic {self.name!r}: give an assignment, or partitions and replication factor, not both"
            )
        if not self.assignment or sorted(self.assignment) != list(range(len(self.assignment))):
            raise ConfigError(
                f"topic {self.name!r}: the assignment has partitions {sorted(self.assignment)}, and must "
                "have all from 0 on"
            )


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """More partitions for a topic: `total` is the new number of partitions.

        >>> from ottla.admin import Admin, NewPartitions
        >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        ...     admin.create_partitions(NewPartitions("orders", total=4))
        ...     len(admin.describe_topics("orders").partitions)
        4

    `assignment` has the replicas of each new partition, the preferred leader first.
    """

    topic: str
    total: int
    assignment: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """A topic that was created, or with validate_only would be. None if the broker does not say (before
    2.4).

        >>> from ottla.admin import Admin, NewTopic
        >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        ...     admin.create_topics(NewTopic("clicks"), validate_only=True)
        TopicCreation(name='clicks', partitions=1, replication_factor=1)
    """

    name: str
    partitions: int | None
    replication_factor: int | None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition. `leader` is None if there is none; `leader_epoch` is None if the broker does not send
    it.

        >>> from ottla import Admin
        >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        ...     (partition,) = admin.describe_topics("orders").partitions
        >>> partition.leader, partition.replicas, partition.isr
        (0, (0,), (0,))
    """

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. `topic_id` is written as Kafka writes it; None before 2.8.

    >>> from ottla import Admin
    >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     orders = admin.describe_topics("orders")
    >>> len(orders.partitions), orders.replication_factor
    (1, 1)
    """

    name: str
    partitions: tuple[PartitionDescription, ...]
    topic_id: str | None = None
    is_internal: bool = False
    is_marked_for_deletion: bool = False

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition, as in Kafka's tools."""
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster. Before 0.10.1 there is no id, and before 0.10 no controller except through ZooKeeper.

    >>> from ottla import Admin
    >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     cluster = admin.describe_cluster()
    >>> cluster.controller_id, [broker.host for broker in cluster.brokers]
    (0, ['127.0.0.1'])
    """

    cluster_id: str | None
    controller_id: int | None
    brokers: tuple[BrokerNode, ...]
