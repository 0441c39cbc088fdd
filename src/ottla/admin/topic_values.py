"""What is asked and told about topics and the cluster: frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import ConfigError

ConfigValue = str | int | float | bool


def config_text(value: ConfigValue) -> str:
    """A setting's value as brokers read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made. None is the broker's default, which brokers before 2.4 cannot be asked for.

    `assignment` says where replicas go instead of `partitions` and `replication_factor`:
    `{0: [1, 2], 1: [2, 1]}` is two partitions on the brokers 1 and 2, the preferred leader first.
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
    """More partitions for a topic: `total` is the count after it.

    `assignment` has the replicas of each new partition, the preferred leader first.
    """

    topic: str
    total: int
    assignment: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What was made, or would be. None is what the broker does not tell (before 2.4)."""

    name: str
    partitions: int | None
    replication_factor: int | None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition. `leader` is None while there is none; `leader_epoch` None where brokers do not tell."""

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic. `topic_id` is as Kafka writes it, None before 2.8."""

    name: str
    partitions: tuple[PartitionDescription, ...]
    topic_id: str | None = None
    is_internal: bool = False
    is_marked_for_deletion: bool = False

    @property
    def replication_factor(self) -> int:
        """Of the first partition, as Kafka's tools tell it."""
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster. Brokers before 0.10.1 tell no id, and before 0.10 no controller unless ZooKeeper does."""

    cluster_id: str | None
    controller_id: int | None
    brokers: tuple[BrokerNode, ...]
