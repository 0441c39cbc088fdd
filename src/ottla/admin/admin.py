"""Admin: the face of this package. What its calls have in common is in `errors` and in docs/admin.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self, overload

from ottla.admin.access import ClusterAccess
from ottla.admin.config import AdminConfig
from ottla.admin.config_values import ConfigEntry, ConfigResource
from ottla.admin.configs import ConfigCalls
from ottla.admin.errors import all_results, answered, checked, many, only
from ottla.admin.group_values import (
    CommittedOffset,
    GroupDescription,
    GroupKind,
    GroupLag,
    GroupListing,
    OffsetMove,
)
from ottla.admin.groups import GroupCalls
from ottla.admin.lag import LagCalls
from ottla.admin.logs import At, LogCalls, LogOffset, Moment
from ottla.admin.topic_values import (
    ClusterDescription,
    ConfigValue,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    TopicDescription,
)
from ottla.admin.topics import TopicCalls
from ottla.client.properties import merged
from ottla.model.cluster_view import NO_CONTROLLER
from ottla.model.errors import ConfigError, OttlaError
from ottla.model.topic_partition import TopicAndPartition

Offsets = dict[TopicAndPartition, CommittedOffset]


class Admin:
    """Topics, settings, records and groups of a cluster. For one thread at a time; connects when it must.

    Settings are Kafka's names, dotted in `properties` or snake_case as keywords: bootstrap_servers,
    zookeeper_connect, or both. Calls raise ConfigError for wrong arguments, BrokerUnreachable and
    AuthenticationFailed, Unsupported where the cluster has no way, KafkaError with what a broker answers for
    one thing, AdminErrors for many.
    """

    def __init__(self, properties: Mapping[str, object] | None = None, **more: object) -> None:
        self._access = ClusterAccess(AdminConfig.from_properties(merged(properties, more)))
        self._topics = TopicCalls(self._access)
        self._configs = ConfigCalls(self._access)
        self._logs = LogCalls(self._access)
        self._groups = GroupCalls(self._access)
        self._lags = LagCalls(self._groups, self._logs)

    # --- cluster

    def describe_cluster(self) -> ClusterDescription:
        """The brokers, the controller and the cluster's id."""
        view = self._access.view((), "describing the cluster")
        return ClusterDescription(
            cluster_id=view.cluster_id,
            controller_id=view.controller_id if view.controller_id != NO_CONTROLLER else None,
            brokers=tuple(view.brokers[number] for number in sorted(view.brokers)),
        )

    # --- topics

    @overload
    def create_topics(self, topics: NewTopic, *, validate_only: bool = ...) -> CreatedTopic: ...
    @overload
    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = ...
    ) -> dict[str, CreatedTopic]: ...
    def create_topics(
        self, topics: NewTopic | Iterable[NewTopic], *, validate_only: bool = False
    ) -> CreatedTopic | dict[str, CreatedTopic]:
        """Make topics, and wait until their partitions have leaders; `validate_only` makes none."""
        if isinstance(topics, NewTopic):
            return only(self._topics.create([topics], validate_only=validate_only))
        return all_results(self._topics.create(checked(topics, NewTopic), validate_only=validate_only))

    def delete_topics(self, topics: str | Iterable[str]) -> None:
        """Delete topics. Brokers before 0.10.1 do it some time after this call."""
        answered(topics, str, self._topics.delete)

    def create_partitions(
        self, partitions: NewPartitions | Iterable[NewPartitions], *, validate_only: bool = False
    ) -> None:
        """Give topics more partitions, and wait until they have leaders."""
        if isinstance(partitions, NewPartitions):
            only(self._topics.add_partitions([partitions], validate_only=validate_only))
        else:
            all_results(
                self._topics.add_partitions(checked(partitions, NewPartitions), validate_only=validate_only)
            )

    def list_topics(self, *, include_internal: bool = True) -> tuple[str, ...]:
        """The names of all topics."""
        names = self._topics.names()
        return tuple(name for name in sorted(names) if include_internal or not names[name])

    @overload
    def describe_topics(self, topics: str) -> TopicDescription: ...  # type: ignore[overload-overlap]  # one name
    @overload
    def describe_topics(self, topics: Iterable[str] | None = ...) -> dict[str, TopicDescription]: ...
    def describe_topics(
        self, topics: str | Iterable[str] | None = None
    ) -> TopicDescription | dict[str, TopicDescription]:
        """Partitions with leader, replicas and in-sync replicas; of all topics if none are named."""
        if topics is None:
            return all_results(self._topics.describe(None))
        return answered(topics, str, self._topics.describe)

    # --- settings

    @overload
    def describe_configs(self, resources: ConfigResource) -> dict[str, ConfigEntry]: ...
    @overload
    def describe_configs(
        self, resources: Iterable[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]: ...
    def describe_configs(
        self, resources: ConfigResource | Iterable[ConfigResource]
    ) -> dict[str, ConfigEntry] | dict[ConfigResource, dict[str, ConfigEntry]]:
        """Settings by name. Brokers before 0.11 tell, through ZooKeeper, only what is set."""
        found: dict[str, ConfigEntry] | dict[ConfigResource, dict[str, ConfigEntry]]
        found = answered(resources, ConfigResource, self._configs.describe)
        return found

    def alter_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        changes: Mapping[str, ConfigValue | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Make the same changes to one or many: a value sets, None returns to the default, the rest stays."""
        answered(
            resources,
            ConfigResource,
            lambda some: self._configs.alter(some, changes, validate_only=validate_only),
        )

    # --- logs

    @overload
    def list_offsets(  # type: ignore[overload-overlap]  # one partition
        self, partitions: TopicAndPartition, at: Moment = ..., *, committed_only: bool = ...
    ) -> LogOffset: ...
    @overload
    def list_offsets(
        self,
        partitions: str | Iterable[str | TopicAndPartition] | Mapping[TopicAndPartition, Moment],
        at: Moment = ...,
        *,
        committed_only: bool = ...,
    ) -> dict[TopicAndPartition, LogOffset]: ...
    def list_offsets(
        self,
        partitions: TopicAndPartition
        | str
        | Iterable[str | TopicAndPartition]
        | Mapping[TopicAndPartition, Moment],
        at: Moment = At.LATEST,
        *,
        committed_only: bool = False,
    ) -> LogOffset | dict[TopicAndPartition, LogOffset]:
        """The first offset, the end, or the first offset from a time on, of partitions or whole topics.

        A mapping gives each partition a moment of its own. `committed_only`: the end is that of what
        transactions have committed. Brokers before 0.10.1 find times by whole segments.
        """
        if isinstance(partitions, TopicAndPartition):
            return only(self._logs.offsets({partitions: at}, committed_only=committed_only))
        failed: dict[str, OttlaError] = {}
        if isinstance(partitions, Mapping):
            checked(partitions, TopicAndPartition)
            moments = dict(partitions)
        else:
            places, failed = self._places(partitions, "offsets of logs")
            moments = dict.fromkeys(places, at)
        return all_results(self._logs.offsets(moments, committed_only=committed_only), failed)

    def delete_records(self, before: Mapping[TopicAndPartition, int]) -> dict[TopicAndPartition, int]:
        """Delete what lies before an offset (END_OF_LOG: everything); where each log begins now."""
        checked(before, TopicAndPartition)
        return all_results(self._logs.delete_records(before))

    def _places(
        self, partitions: str | Iterable[str | TopicAndPartition], wish: str
    ) -> tuple[list[TopicAndPartition], dict[str, OttlaError]]:
        """Topics as all their partitions, and the errors of those that are not there."""
        listed = [partitions] if isinstance(partitions, str) else list(partitions)
        topics = [one for one in listed if isinstance(one, str)]
        named = many((one for one in listed if not isinstance(one, str)), TopicAndPartition)
        found, failed = self._logs.partitions(topics, wish)
        return list(dict.fromkeys(named + found)), failed

    # --- groups

    def list_groups(self) -> tuple[GroupListing, ...]:
        """All groups, of both kinds where zookeeper.connect is set. AdminErrors is by broker."""
        found = all_results(self._groups.listings())
        listed = {one for some in found.values() for one in some}
        return tuple(sorted(listed, key=lambda one: (one.group_id, one.kind.value)))

    @overload
    def describe_groups(self, groups: str, *, kind: GroupKind | None = ...) -> GroupDescription: ...  # type: ignore[overload-overlap]  # one name
    @overload
    def describe_groups(
        self, groups: Iterable[str], *, kind: GroupKind | None = ...
    ) -> dict[str, GroupDescription]: ...
    def describe_groups(
        self, groups: str | Iterable[str], *, kind: GroupKind | None = None
    ) -> GroupDescription | dict[str, GroupDescription]:
        """State, members, and who reads what."""
        return answered(groups, str, lambda some: self._groups.describe(some, kind))

    def delete_groups(self, groups: str | Iterable[str], *, kind: GroupKind | None = None) -> None:
        """Delete groups without members, with their offsets."""
        answered(groups, str, lambda some: self._groups.delete(some, kind))

    @overload
    def group_offsets(self, groups: str, *, kind: GroupKind | None = ...) -> Offsets: ...  # type: ignore[overload-overlap]  # one name
    @overload
    def group_offsets(self, groups: Iterable[str], *, kind: GroupKind | None = ...) -> dict[str, Offsets]: ...
    def group_offsets(
        self, groups: str | Iterable[str], *, kind: GroupKind | None = None
    ) -> Offsets | dict[str, Offsets]:
        """What groups have committed. A group that has nothing, or is not there, has no offsets."""
        if isinstance(groups, str):
            return only(self._groups.offsets([groups], kind))
        return all_results(self._groups.offsets(groups, kind))

    def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicAndPartition, int], *, kind: GroupKind | None = None
    ) -> None:
        """Write the next offsets of a group that has no members."""
        checked(offsets, TopicAndPartition)
        all_results(self._groups.alter_offsets(group, offsets, kind))

    def reset_group_offsets(
        self,
        group: str,
        partitions: str | Iterable[str | TopicAndPartition],
        to: Moment | None = None,
        *,
        shift_by: int = 0,
        dry_run: bool = False,
        kind: GroupKind | None = None,
    ) -> dict[TopicAndPartition, OffsetMove]:
        """Move a group without members to a moment, or by so many offsets, within what the logs have."""
        if to is None and not shift_by:
            raise ConfigError(f"group {group!r}: say where to, as in to=At.EARLIEST, or shift_by")
        places, failed = self._places(partitions, "resetting offsets")
        all_results({}, failed)
        kind = kind or self._groups.kind_of(group)
        moves = self._lags.moves(group, places, kind, to, shift_by)
        if not dry_run:
            self.alter_group_offsets(group, {place: move.after for place, move in moves.items()}, kind=kind)
        return moves

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicAndPartition], *, kind: GroupKind | None = None
    ) -> None:
        """Forget what a group has committed of partitions that none of its members reads."""
        all_results(self._groups.delete_offsets(group, many(partitions, TopicAndPartition), kind))

    @overload
    def group_lag(self, groups: str, *, kind: GroupKind | None = ...) -> GroupLag: ...  # type: ignore[overload-overlap]  # one name
    @overload
    def group_lag(self, groups: Iterable[str], *, kind: GroupKind | None = ...) -> dict[str, GroupLag]: ...
    def group_lag(
        self, groups: str | Iterable[str], *, kind: GroupKind | None = None
    ) -> GroupLag | dict[str, GroupLag]:
        """How far groups are behind, partition by partition, with who reads it."""
        return answered(groups, str, lambda some: self._lags.lags(some, kind))

    # --- the end

    def close(self) -> None:
        """Close all connections. May be called twice."""
        self._access.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
