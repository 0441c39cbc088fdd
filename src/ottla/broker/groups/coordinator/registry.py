"""The groups of a coordinator, classic and consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.broker.coordination.effects import Record
from ottla.broker.coordination.led_partitions import LedPartitions
from ottla.broker.groups.coordinator import membership
from ottla.broker.groups.coordinator.consumer_groups.consumer_groups import ConsumerGroups, GroupOverrides
from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicsView
from ottla.broker.groups.coordinator.decision import Continuation, CoordinatorStep
from ottla.broker.groups.coordinator.expiry import is_idle
from ottla.broker.groups.coordinator.group import CoordinatedGroup
from ottla.broker.groups.coordinator.in_flight import AppendsInFlight
from ottla.broker.groups.coordinator.rebalance import begin_join_phase
from ottla.broker.groups.coordinator.state import GroupEvent
from ottla.broker.groups.coordinator.store import GroupStore
from ottla.broker.settings.group_config import GroupConfig
from ottla.model.error_codes import Code


class GroupRegistry:
    """All groups. Each is of one kind: a consumer group, in `consumer`, or a classic group."""

    def __init__(
        self, config: GroupConfig, topics: TopicsView, overrides: Callable[[str], GroupOverrides]
    ) -> None:
        self.store = GroupStore()
        self.partitions = LedPartitions(config.offsets_partition_count)
        self.in_flight = AppendsInFlight(self.partitions.of)
        self.consumer = ConsumerGroups(topics, overrides, self)
        self.groups: dict[str, CoordinatedGroup] = {}

    def replay(self, record: Record, producer_id: int | None = None) -> None:
        """Apply a stored record. Raises RemoteProtocolError.

        With a producer's id it belongs to a transaction that is open.
        """
        if not self.consumer.replay(record):
            self.store.replay(record, producer_id)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return a consumer group, or None if there is none or its partition is not loaded."""
        return None if self.partitions.availability(group_id) else self.consumer.groups.get(group_id)

    def classic_group(self, group_id: str) -> CoordinatedGroup | None:
        """Return a classic group, restored from its records if necessary; None if there is none."""
        group = self.groups.get(group_id)
        if group is None and self._is_stored(group_id) and not self.partitions.availability(group_id):
            stored = self.store.generation(group_id)
            group = self.groups[group_id] = CoordinatedGroup.restored(group_id, stored)
        return group

    def _is_stored(self, group_id: str) -> bool:
        return group_id not in self.consumer.groups and self.store.knows(group_id)

    def members_group(self, group_id: str) -> tuple[Code, CoordinatedGroup | None]:
        """Return the classic group of a member's request, or the error to answer if there is none."""
        error = self.partitions.group_error(group_id)
        group = None if error else self.classic_group(group_id)
        return error or Code.UNKNOWN_MEMBER_ID, group

    def active_groups(self) -> Iterator[CoordinatedGroup]:
        """Yield every classic group of the partitions that are loaded."""
        for group_id in dict.fromkeys([*self.groups, *self.store.group_ids()]):
            group = self.classic_group(group_id)
            if group is not None:
                yield group

    def active_consumer_groups(self) -> Iterator[ConsumerGroup]:
        """Yield every consumer group of the partitions that are loaded."""
        for group_id, group in list(self.consumer.groups.items()):
            if not self.partitions.availability(group_id):
                yield group

    # --- partitions are loaded and unloaded

    def start_sessions(self, partition: int, step: CoordinatorStep) -> None:
        """Start the sessions of all members in the groups of a partition that was loaded."""
        for group_id in self._stored_in(partition):
            self._start_classic_sessions(group_id, step)
            if group_id in self.consumer.groups:
                self.consumer.start_sessions(group_id, step)

    def _start_classic_sessions(self, group_id: str, step: CoordinatorStep) -> None:
        """Start the sessions of a classic group.

        A group without a leader has just become classic: its members have to join again.
        """
        group = self.classic_group(group_id)
        if group is None:
            return
        for member in group.members.values():
            group.start_session(member, step)
        if group.members and group.leader is None:
            begin_join_phase(group, step)

    def unload(self, partition: int, step: CoordinatorStep) -> None:
        """Forget the groups of a partition, and answer their parked requests."""
        for group_id in [name for name in self.groups if self.partitions.of(name) == partition]:
            membership.dismiss(self.groups.pop(group_id), Code.NOT_COORDINATOR, step)
        for pending in self.in_flight.take_all(partition):
            pending.then(step, Code.NOT_LEADER_OR_FOLLOWER)
        for group_id in self._stored_in(partition):
            self.store.forget_group(group_id)
            self.consumer.groups.pop(group_id, None)

    def _stored_in(self, partition: int) -> list[str]:
        """Return the stored groups of a partition."""
        group_ids = dict.fromkeys([*self.store.group_ids(), *self.consumer.groups])
        return [group_id for group_id in group_ids if self.partitions.of(group_id) == partition]

    # --- groups end, and change their kind

    def burial(self, group_id: str) -> Continuation:
        """Return the continuation for tombstones: it removes the group unless a member joined meanwhile."""

        def bury(_step: CoordinatorStep, _error: Code) -> None:
            group = self.groups.get(group_id)
            if group is not None and is_idle(group) and not self.store.knows(group_id):
                group.move(GroupEvent.REMOVED, group.state_since_ms)
                del self.groups[group_id]

        return bury

    def upgraded(self, group_id: str, step: CoordinatorStep) -> None:
        """Forget a classic group that is a consumer group now, and let waiting members join again."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            membership.dismiss(group, Code.REBALANCE_IN_PROGRESS, step)

    def downgraded(self, group_id: str, step: CoordinatorStep) -> None:
        """Let the members of a consumer group that is classic now join again."""
        self._start_classic_sessions(group_id, step)
