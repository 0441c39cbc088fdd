"""AdminCalls: the calls of `ottla.Admin` and `ottla.aio.Admin`; their common rules are in `admin_errors`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import overload

from ottla.admin.access import ClusterAccess
from ottla.admin.admin_config import AdminConfig
from ottla.admin.admin_errors import all_results, answered, checked, many, only
from ottla.admin.config_values import ConfigEntry, ConfigKind, ConfigResource
from ottla.admin.configs import ConfigCalls
from ottla.admin.group_values import (
    CommittedOffset,
    GroupDescription,
    GroupKind,
    GroupLag,
    GroupListing,
    OffsetMove,
    ShareOffset,
)
from ottla.admin.groups import GroupCalls
from ottla.admin.lag import LagCalls
from ottla.admin.logs import LogCalls, LogOffset, log_time, present_ms
from ottla.admin.security_calls import SecurityCalls
from ottla.admin.topic_admin import TopicCalls
from ottla.admin.topic_values import (
    ClusterDescription,
    ConfigValue,
    NewPartitions,
    NewTopic,
    TopicCreation,
    TopicDescription,
)
from ottla.admin.transaction_values import (
    OpenTransaction,
    PartitionProducer,
    TransactionDescription,
    TransactionListing,
)
from ottla.admin.transactions import TransactionCalls, TransactionFilter
from ottla.client.peer_pool import Driver
from ottla.model.cluster_view import NO_CONTROLLER
from ottla.model.errors import ConfigError, OttlaError
from ottla.model.offset_spec import OffsetSpec, parse_offset_spec
from ottla.model.topic_partition import TopicAndPartition

Offsets = dict[TopicAndPartition, CommittedOffset]


class AdminCalls(SecurityCalls):
    """Manages topics, settings, records and groups of a cluster. Connects with the first call.

    The methods are conversations: `ottla.aio.Admin` has them as they are, `ottla.Admin` runs each to its end.
    """

    def __init__(self, config: AdminConfig, driver: Driver) -> None:
        self._address = ",".join(map(str, config.client.bootstrap)) or f"ZooKeeper {config.zookeeper_connect}"
        self._access = ClusterAccess(config, driver)
        self._topics = TopicCalls(self._access)
        self._configs = ConfigCalls(self._access)
        self._logs = LogCalls(self._access)
        self._groups = GroupCalls(self._access)
        self._lags = LagCalls(self._groups, self._logs)
        self._transactions = TransactionCalls(self._access, self._logs)

    def __repr__(self) -> str:
        state = "closed" if self._access.is_closed else "connected" if self._access.is_connected else "idle"
        return f"<Admin of {self._address}: {state}>"

    # --- cluster

    async def describe_cluster(self) -> ClusterDescription:
        """Return the brokers, the controller and the cluster's id."""
        view = await self._access.view((), "describing the cluster")
        return ClusterDescription(
            cluster_id=view.cluster_id,
            controller_id=view.controller_id if view.controller_id != NO_CONTROLLER else None,
            brokers=tuple(view.brokers[number] for number in sorted(view.brokers)),
        )

    # --- topics

    @overload
    async def create_topics(self, topics: NewTopic, *, validate_only: bool = ...) -> TopicCreation: ...
    @overload
    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = ...
    ) -> dict[str, TopicCreation]: ...
    async def create_topics(
        self, topics: NewTopic | Iterable[NewTopic], *, validate_only: bool = False
    ) -> TopicCreation | dict[str, TopicCreation]:
        """Create topics, and wait until their partitions have leaders; `validate_only` only checks them."""
        if isinstance(topics, NewTopic):
            return only(await self._topics.create([topics], validate_only=validate_only))
        return all_results(await self._topics.create(checked(topics, NewTopic), validate_only=validate_only))

    async def delete_topics(self, topics: str | Iterable[str]) -> None:
        """Delete topics. Brokers before 0.10.1 do so some time after this call."""
        await answered(topics, str, self._topics.delete)

    async def create_partitions(
        self, partitions: NewPartitions | Iterable[NewPartitions], *, validate_only: bool = False
    ) -> None:
        """Add partitions to topics, and wait until they have leaders."""
        if isinstance(partitions, NewPartitions):
            only(await self._topics.add_partitions([partitions], validate_only=validate_only))
        else:
            all_results(
                await self._topics.add_partitions(
                    checked(partitions, NewPartitions), validate_only=validate_only
                )
            )

    async def list_topics(self, *, include_internal: bool = True) -> tuple[str, ...]:
        """Return the names of all topics, sorted."""
        names = await self._topics.names()
        return tuple(name for name in sorted(names) if include_internal or not names[name])

    @overload
    async def describe_topics(self, topics: str) -> TopicDescription: ...  # type: ignore[overload-overlap]  # one name
    @overload
    async def describe_topics(self, topics: Iterable[str] | None = ...) -> dict[str, TopicDescription]: ...
    async def describe_topics(
        self, topics: str | Iterable[str] | None = None
    ) -> TopicDescription | dict[str, TopicDescription]:
        """Return the partitions of topics with leader, replicas and in-sync replicas; by default of all."""
        if topics is None:
            return all_results(await self._topics.describe(None))
        return await answered(topics, str, self._topics.describe)

    # --- settings

    @overload
    async def describe_configs(self, resources: ConfigResource) -> dict[str, ConfigEntry]: ...
    @overload
    async def describe_configs(
        self, resources: Iterable[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]: ...
    async def describe_configs(
        self, resources: ConfigResource | Iterable[ConfigResource]
    ) -> dict[str, ConfigEntry] | dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return settings by name. For brokers before 0.11 only those that are set, from ZooKeeper."""
        configs: dict[str, ConfigEntry] | dict[ConfigResource, dict[str, ConfigEntry]]
        configs = await answered(resources, ConfigResource, self._configs.describe)
        return configs

    async def alter_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        changes: Mapping[str, ConfigValue | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change settings of one or many resources: None returns to the default; other settings stay."""
        await answered(
            resources,
            ConfigResource,
            lambda some: self._configs.alter(some, changes, validate_only=validate_only),
        )

    async def list_config_resources(self, kinds: Iterable[ConfigKind] = ()) -> tuple[ConfigResource, ...]:
        """Return what has settings, sorted: of these kinds, or of all that brokers list. Groups and client
        metrics are listed if they have settings of their own."""
        return await self._configs.resources(checked(kinds, ConfigKind))

    # --- logs

    @overload
    async def list_offsets(  # type: ignore[overload-overlap]  # one partition
        self, partitions: TopicAndPartition, at: OffsetSpec = ..., *, committed_only: bool = ...
    ) -> LogOffset: ...
    @overload
    async def list_offsets(
        self,
        partitions: str | Iterable[str | TopicAndPartition] | Mapping[TopicAndPartition, OffsetSpec],
        at: OffsetSpec = ...,
        *,
        committed_only: bool = ...,
    ) -> dict[TopicAndPartition, LogOffset]: ...
    async def list_offsets(
        self,
        partitions: TopicAndPartition
        | str
        | Iterable[str | TopicAndPartition]
        | Mapping[TopicAndPartition, OffsetSpec],
        at: OffsetSpec = "latest",
        *,
        committed_only: bool = False,
    ) -> LogOffset | dict[TopicAndPartition, LogOffset]:
        """Return the offset at "earliest", "latest" or a time, of partitions or of whole topics.

        A time is a datetime with a time zone or a timedelta before now: the offset is that of the first
        record at that time or later, None if there is none. "max-timestamp" is the record with the largest
        timestamp. A mapping gives each partition its own time. With `committed_only` the end is that of
        committed transactions. Brokers before 0.10.1 find times only by whole segments.
        """
        now_ms = present_ms()
        if isinstance(partitions, TopicAndPartition):
            times = {partitions: log_time(at, now_ms)}
            return only(await self._logs.offsets(times, committed_only=committed_only))
        failed: dict[str, OttlaError] = {}
        if isinstance(partitions, Mapping):
            checked(partitions, TopicAndPartition)
            times = {topic_partition: log_time(spec, now_ms) for topic_partition, spec in partitions.items()}
        else:
            time_ms = log_time(at, now_ms)
            topic_partitions, failed = await self._logs.expanded(partitions, "offsets of logs")
            times = dict.fromkeys(topic_partitions, time_ms)
        return all_results(await self._logs.offsets(times, committed_only=committed_only), failed)

    async def delete_records(
        self, before: Mapping[TopicAndPartition, OffsetSpec]
    ) -> dict[TopicAndPartition, int]:
        """Delete the records before an offset or a time, all with "latest"; return the new first offsets.

        Records before a time are those before the first record that has it or a later one.
        """
        checked(before, TopicAndPartition)
        now_ms = present_ms()
        ends = {
            topic_partition: parse_offset_spec(spec, now_ms, name="before")
            for topic_partition, spec in before.items()
        }
        return all_results(await self._logs.delete_records(ends))

    # --- groups

    async def list_groups(self) -> tuple[GroupListing, ...]:
        """Return all groups; classic ones too with zookeeper.connect. AdminErrors has errors by broker."""
        listings = all_results(await self._groups.listings())
        groups = {group for some in listings.values() for group in some}
        return tuple(sorted(groups, key=lambda group: (group.group_id, group.kind.value)))

    @overload
    async def describe_groups(self, groups: str, *, kind: GroupKind | None = ...) -> GroupDescription: ...  # type: ignore[overload-overlap]  # one name
    @overload
    async def describe_groups(
        self, groups: Iterable[str], *, kind: GroupKind | None = ...
    ) -> dict[str, GroupDescription]: ...
    async def describe_groups(
        self, groups: str | Iterable[str], *, kind: GroupKind | None = None
    ) -> GroupDescription | dict[str, GroupDescription]:
        """Return the state of groups, their members and assignments."""
        return await answered(groups, str, lambda some: self._groups.describe(some, kind))

    async def groups_named(self, group: str) -> dict[GroupKind, GroupDescription]:
        """Return the groups of this name: with a coordinator, in ZooKeeper, both, or none."""
        return await self._groups.named(group)

    async def delete_groups(self, groups: str | Iterable[str], *, kind: GroupKind | None = None) -> None:
        """Delete groups without members, and their offsets."""
        await answered(groups, str, lambda some: self._groups.delete(some, kind))

    @overload
    async def group_offsets(self, groups: str, *, kind: GroupKind | None = ...) -> Offsets: ...  # type: ignore[overload-overlap]  # one name
    @overload
    async def group_offsets(
        self, groups: Iterable[str], *, kind: GroupKind | None = ...
    ) -> dict[str, Offsets]: ...
    async def group_offsets(
        self, groups: str | Iterable[str], *, kind: GroupKind | None = None
    ) -> Offsets | dict[str, Offsets]:
        """Return the committed offsets of groups; for share groups, where they begin. {} if none exist."""
        outcomes = await self._groups.offsets([groups] if isinstance(groups, str) else groups, kind)
        return only(outcomes) if isinstance(groups, str) else all_results(outcomes)

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicAndPartition, int], *, kind: GroupKind | None = None
    ) -> None:
        """Write the next offsets of a group without members; a share group begins again there."""
        checked(offsets, TopicAndPartition)
        all_results(await self._groups.alter_offsets(group, offsets, kind))

    async def reset_group_offsets(
        self,
        group: str,
        partitions: str | Iterable[str | TopicAndPartition],
        to: OffsetSpec | None = None,
        *,
        shift_by: int = 0,
        dry_run: bool = False,
        kind: GroupKind | None = None,
    ) -> dict[TopicAndPartition, OffsetMove]:
        """Move a group without members to an offset or a time, and then by `shift_by` offsets.

        `to` is an offset, "earliest", "latest", a datetime with a time zone or a timedelta before now;
        without it the group moves from where it is. Positions stay within the logs. With `dry_run` nothing
        is written. Returns the offsets before and after, of one store: `kind` chooses it.
        """
        if to is None and not shift_by:
            raise ConfigError(f"group {group!r}: say where to, as in to='earliest', or give shift_by")
        target = None if to is None else parse_offset_spec(to, present_ms(), name="to")
        topic_partitions, failed = await self._logs.expanded(partitions, "resetting offsets")
        all_results({}, failed)
        kind = kind or await self._groups.kind_of(group)
        moves = await self._lags.moves(group, topic_partitions, kind, target, shift_by)
        if not dry_run:
            await self.alter_group_offsets(
                group, {topic_partition: move.after for topic_partition, move in moves.items()}, kind=kind
            )
        return moves

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicAndPartition], *, kind: GroupKind | None = None
    ) -> None:
        """Delete committed offsets of partitions that no member of the group reads."""
        all_results(await self._groups.delete_offsets(group, many(partitions, TopicAndPartition), kind))

    async def share_group_offsets(self, group: str) -> dict[TopicAndPartition, ShareOffset]:
        """Return where a share group begins in each partition, and its lag as the coordinator counts it."""
        return await self._groups.share_offsets(group)

    async def alter_share_group_offsets(self, group: str, offsets: Mapping[TopicAndPartition, int]) -> None:
        """Let a share group without members begin at these offsets; the group is created if there is none."""
        checked(offsets, TopicAndPartition)
        all_results(await self._groups.alter_share_offsets(group, offsets))

    async def delete_share_group_offsets(self, group: str, topics: Iterable[str]) -> None:
        """Let a share group without members forget topics: it begins in them as a new group."""
        all_results(await self._groups.delete_share_offsets(group, many(topics, str)))

    @overload
    async def group_lag(self, groups: str, *, kind: GroupKind | None = ...) -> GroupLag: ...  # type: ignore[overload-overlap]  # one name
    @overload
    async def group_lag(
        self, groups: Iterable[str], *, kind: GroupKind | None = ...
    ) -> dict[str, GroupLag]: ...
    async def group_lag(
        self, groups: str | Iterable[str], *, kind: GroupKind | None = None
    ) -> GroupLag | dict[str, GroupLag]:
        """Return the lag of groups by partition, with the member that reads it.

        Without `kind`, offsets of the same name in the other store are in `PartitionLag.stored` too.
        """
        return await answered(groups, str, lambda some: self._lags.lags(some, kind))

    # --- transactions

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than: float | None = None,
        pattern: str = "",
    ) -> tuple[TransactionListing, ...]:
        """Return the transactional ids that brokers know; AdminErrors has errors by broker.

        `states` are Kafka's names, such as Ongoing; `longer_than` is in seconds; `pattern` is RE2's.
        """
        wanted = TransactionFilter(tuple(states), tuple(producer_ids), longer_than, pattern)
        return await self._transactions.all_listings(wanted)

    @overload
    async def describe_transactions(self, ids: str) -> TransactionDescription: ...  # type: ignore[overload-overlap]  # one name
    @overload
    async def describe_transactions(self, ids: Iterable[str]) -> dict[str, TransactionDescription]: ...
    async def describe_transactions(
        self, ids: str | Iterable[str]
    ) -> TransactionDescription | dict[str, TransactionDescription]:
        """Return state, producer and open partitions of transactional ids."""
        return await answered(ids, str, self._transactions.describe)

    async def describe_producers(
        self, topic_partition: TopicAndPartition, *, broker_id: int | None = None
    ) -> tuple[PartitionProducer, ...]:
        """Return the producers that the partition's leader knows, or another replica."""
        return only(await self._transactions.producers([topic_partition], broker_id))

    async def find_hanging_transactions(
        self,
        partitions: str | Iterable[str | TopicAndPartition],
        *,
        longer_than: float = 900.0,
        broker_id: int | None = None,
    ) -> tuple[OpenTransaction, ...]:
        """Return open transactions that no coordinator will end, silent for `longer_than` seconds."""
        existing, failed = await self._logs.expanded(partitions, "finding transactions")
        all_results({}, failed)
        return await self._transactions.hanging(existing, longer_than * 1000, present_ms(), broker_id)

    async def abort_transaction(
        self, topic_partition: TopicAndPartition, began: int | PartitionProducer
    ) -> None:
        """Abort a hanging transaction in a partition: by its first offset, or by its producer."""
        await self._transactions.abort(topic_partition, began)

    async def terminate_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of a transactional id, and fence its producer. Creates an unknown id."""
        await self._transactions.terminate(transactional_id)

    # --- the end

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        await self._access.close()
