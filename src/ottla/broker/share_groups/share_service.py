"""The share groups of a process: members, sessions, and the records that they hold.

One object for all brokers of the process, since they share one copy of the data. A broker
answers heartbeats of the groups that it coordinates, and fetches from partitions that it leads, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.broker.coordination.effects import Record
from ottla.broker.settings.group_table import group_settings
from ottla.broker.share_groups.core.acknowledgements import AcknowledgedRange, AcknowledgeType
from ottla.broker.share_groups.core.assignor import TopicIdPartition
from ottla.broker.share_groups.core.group import Joining, ShareGroup, ShareGroupMember, TopicInfo
from ottla.broker.share_groups.core.records import (
    ShareKey,
    ShareState,
    snapshot_record,
    tombstone,
)
from ottla.broker.share_groups.core.sessions import SessionKey, ShareSessions
from ottla.broker.share_groups.core.share_partition import UNINITIALIZED, SharePartition
from ottla.broker.share_groups.dead_letters import DeadLetterQueue
from ottla.broker.share_groups.share_log import ShareLog
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_changes import TopicChanges
from ottla.broker.storage.topic_store import TopicStore
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

TICK_S = 0.2
"""The longest time between a change and the next check of locks and sessions."""
LATE_S_MAX = 0.01
"""How late the end of a lock or session may be seen, so that many ends do not make as many checks."""

CALLED_MS_MIN = 100
"""The shortest time after which a member is called for."""

GROUPS_MAX = 10_000
"""The largest number of groups that clients can create."""


class ShareSettings(NamedTuple):
    """The settings of one group; those of the broker where it has none of its own."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    lock_duration_ms: int
    delivery_count_limit: int
    record_locks_max: int
    offset_reset: str
    is_committed: bool
    may_renew: bool
    dead_letter_topic: str
    copies_dead: bool


class ShareGroupService:
    """All share groups of a process. Owned by the loop."""

    def __init__(self, store: TopicStore, runtime: Runtime, topics: TopicChanges) -> None:
        self._store = store
        self._runtime = runtime
        self.log = ShareLog(store, runtime, topics, self._replay, self._snapshot)
        self._dead_letters = DeadLetterQueue(store, runtime, topics)
        self.sessions = ShareSessions()
        self.groups: dict[str, ShareGroup] = {}
        self._partitions: dict[ShareKey, SharePartition] = {}
        self._epochs: dict[ShareKey, int] = {}
        self._waiting: dict[ShareKey, dict[Callable[[], None], None]] = defaultdict(dict)
        self._timer: asyncio.TimerHandle | None = None

    def settings(self, group_id: str) -> ShareSettings:
        """Return the settings of a group."""
        own = self._store.catalog.entity("GROUP", group_id)
        values = group_settings(own, self._store.config)
        return ShareSettings(
            values["share.session.timeout.ms"],
            values["share.heartbeat.interval.ms"],
            values["share.assignment.interval.ms"],
            values["share.record.lock.duration.ms"],
            values["share.delivery.count.limit"],
            values["share.partition.max.record.locks"],
            values["share.auto.offset.reset"],
            values["share.isolation.level"] == "read_committed",
            values["share.renew.acknowledge.enable"],
            values["errors.deadletterqueue.topic.name"],
            values["errors.deadletterqueue.copy.record.enable"],
        )

    # --- members ----------------------------------------------------------------------------------------

    def heartbeat(self, group_id: str, said: Joining) -> tuple[ShareGroupMember, bool]:
        """Apply a heartbeat. Returns the member, and whether its assignment is new to it.

        Raises KafkaError.
        """
        if self.log.is_loading:
            raise KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id!r}")
        settings, config = self.settings(group_id), self._store.config.shares
        group = self.groups.get(group_id) or ShareGroup(group_id)
        if group_id not in self.groups and len(self.groups) >= GROUPS_MAX:
            raise KafkaError(Code.GROUP_MAX_SIZE_REACHED, f"there are {GROUPS_MAX} share groups")
        deadline_ms = self._runtime.steady_ms() + settings.session_timeout_ms
        member, is_told = group.heartbeat(said, deadline_ms, config.member_count_max)
        self.groups[group_id] = group
        self._rebalance(group)
        self._tick_soon()
        return member, group.catch_up(member) or is_told

    def _rebalance(self, group: ShareGroup) -> None:
        interval_ms = self.settings(group.group_id).assignment_interval_ms
        if not group.rebalance(self._topic, self._runtime.steady_ms(), interval_ms):
            return
        for assigned in group.assignments.values():
            for topic_id, index in assigned:
                self._begin(ShareKey(group.group_id, topic_id, index))

    def _topic(self, name: str) -> TopicInfo | None:
        topic = self._store.catalog.topics.get(name)
        partitions = self._store.partitions.get(name)
        return TopicInfo(topic.topic_id, len(partitions)) if topic and partitions else None

    def assigned(self, group_id: str, member_id: str) -> frozenset[TopicIdPartition]:
        """Return the partitions that a member is to fetch from."""
        return self.groups[group_id].assigned(member_id, self._topic)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return when members are to send their next heartbeat.

        Those of a group that waits for its next assignment are called for when it may be made.
        """
        settings, now_ms = self.settings(group_id), self._runtime.steady_ms()
        wait_ms = self.groups[group_id].wait_ms(now_ms, settings.assignment_interval_ms)
        called_ms = max(wait_ms, CALLED_MS_MIN) if wait_ms else settings.heartbeat_interval_ms
        return min(called_ms, settings.heartbeat_interval_ms)

    def leave(self, group_id: str, member_id: str) -> None:
        """Remove a member that leaves. Raises KafkaError 25.

        It holds its records until its share session ends: librdkafka acknowledges after it has left.
        """
        group = self.groups.get(group_id)
        if group is None or not group.leave(member_id):
            raise KafkaError(Code.UNKNOWN_MEMBER_ID, f"{member_id!r} in group {group_id!r}")
        self._rebalance(group)

    def _expire(self, group_id: str, member_id: str) -> None:
        """Remove a member that sends no heartbeats any more, and release its records."""
        self.leave(group_id, member_id)
        for key in self.sessions.of_member(group_id, member_id):
            self.sessions.end(key)
        self.release(group_id, member_id)

    def end_session(self, key: SessionKey) -> None:
        """End the session of a member with a broker, after its request or a lost connection; release its
        records.
        """
        session = self.sessions.end(key)
        if session is not None:
            self.release(key.group_id, key.member_id)

    def release(self, group_id: str, member_id: str) -> None:
        """Release the records that a member holds."""
        for key, partition in self._of_group(group_id).items():
            if partition.release(member_id):
                self.changed(key)

    # --- partitions -------------------------------------------------------------------------------------

    def _begin(self, key: ShareKey) -> SharePartition:
        partition = self._partitions.get(key)
        if partition is None:
            partition = self._partitions[key] = self._made(key)
            self.log.note(key)
        return partition

    def _made(self, key: ShareKey) -> SharePartition:
        return SharePartition(lambda: self.settings(key.group_id).delivery_count_limit)

    def partition(self, key: ShareKey) -> SharePartition:
        """Return a partition of a group. Raises KafkaError if there is no such group, or while loading."""
        if self.log.is_loading:
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, "the state of share groups is being loaded")
        if key.group_id not in self.groups:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"there is no share group {key.group_id!r}")
        return self._begin(key)

    def known(self, group_id: str) -> Mapping[ShareKey, SharePartition]:
        """Return the partitions that a group reads or has read."""
        return self._of_group(group_id)

    def _of_group(self, group_id: str) -> dict[ShareKey, SharePartition]:
        return {key: item for key, item in self._partitions.items() if key.group_id == group_id}

    def acknowledge(
        self,
        key: ShareKey,
        member_id: str,
        ranges: list[AcknowledgedRange],
        then: Callable[[Code], None],
    ) -> None:
        """Apply acknowledgements; `then` is called when they are stored. Raises KafkaError."""
        settings = self.settings(key.group_id)
        if not settings.may_renew and any(item.kind is AcknowledgeType.RENEW for item in ranges):
            why = f"group {key.group_id!r} has share.renew.acknowledge.enable=false"
            raise KafkaError(Code.INVALID_RECORD_STATE, why)
        until_ms = self._runtime.steady_ms() + settings.lock_duration_ms
        self.partition(key).acknowledge(member_id, ranges, until_ms)
        self.changed(key, then)

    def changed(self, key: ShareKey, then: Callable[[Code], None] | None = None) -> None:
        """Store a partition that has changed, and let waiting fetches look again."""
        self._bury(key)
        self.log.note(key, then)
        for wake in list(self._waiting.get(key, ())):
            wake()

    def _bury(self, key: ShareKey) -> None:
        """Hand over records that the group has given up to its dead-letter queue, if it has one."""
        partition, settings = self._partitions[key], self.settings(key.group_id)
        dead, partition.dead = partition.dead, []
        if dead and settings.dead_letter_topic:
            self._dead_letters.add(key, settings.dead_letter_topic, dead, copies=settings.copies_dead)

    def acquired(self) -> None:
        """Start the checks of locks, after some were given."""
        self._tick_soon()

    def begin_at(self, key: ShareKey, offset: int) -> None:
        """Let a group begin to read a partition at an offset, whatever it did before."""
        self.groups.setdefault(key.group_id, ShareGroup(key.group_id))
        self._epochs[key] = self._epochs.get(key, 0) + 1
        self._begin(key).begin(offset)
        self.changed(key)

    def wait(self, keys: Iterable[ShareKey], wake: Callable[[], None]) -> None:
        """Call `wake` when records of partitions become available again; the longest waiter comes first."""
        for key in keys:
            self._waiting[key][wake] = None

    def has_precedence(self, key: ShareKey, member_id: str) -> bool:
        """Whether a member may get new records of a partition; if not, they are kept for others.

        A member learns with its next heartbeat that a partition was assigned to another member. Until then it
        gets records only as long as no member with that assignment has begun to fetch.
        """
        partition = (key.topic_id, key.partition)
        assignments = self.groups[key.group_id].assignments
        if partition in assignments.get(member_id, ()):
            return True
        owners = {owner for owner, assigned in assignments.items() if partition in assigned}
        return not self.sessions.have(key.group_id, owners, partition)

    def stop_waiting(self, keys: Iterable[ShareKey], wake: Callable[[], None]) -> None:
        """Do not call `wake` for these partitions any more."""
        for key in keys:
            self._waiting[key].pop(wake, None)
            if not self._waiting[key]:
                del self._waiting[key]

    # --- forgetting -------------------------------------------------------------------------------------

    def forget_deleted_topics(self) -> None:
        """Forget partitions of topics that do not exist any more."""
        self._forget([key for key in self._partitions if key.topic_id not in self._store.topic_names])

    def forget_topic(self, topic_id: bytes, group_id: str) -> None:
        """Let a group forget a topic."""
        self._forget([key for key in self._of_group(group_id) if key.topic_id == topic_id])

    def delete_group(self, group_id: str) -> Code:
        """Delete a group without members; returns the error."""
        group = self.groups.get(group_id)
        if group is None:
            return Code.GROUP_ID_NOT_FOUND
        if group.members:
            return Code.NON_EMPTY_GROUP
        del self.groups[group_id]
        self._forget(self._of_group(group_id))
        return Code.NONE

    def _forget(self, keys: Iterable[ShareKey]) -> None:
        for key in list(keys):
            del self._partitions[key]
            self._epochs.pop(key, None)
            self.log.note(key)

    # --- storing ----------------------------------------------------------------------------------------

    def _replay(self, key: ShareKey, state: ShareState | None) -> None:
        if state is None:
            self._partitions.pop(key, None)
            if not self._of_group(key.group_id):
                self.groups.pop(key.group_id, None)
            return
        self.groups.setdefault(key.group_id, ShareGroup(key.group_id))
        partition = self._partitions[key] = self._made(key)
        self._epochs[key] = state.state_epoch
        if state.start_offset != UNINITIALIZED:
            partition.begin(state.start_offset, state.batches)

    def _snapshot(self, key: ShareKey) -> Record:
        partition = self._partitions.get(key)
        if partition is None:
            return tombstone(key)
        state = ShareState(partition.start_offset, partition.state_batches(), self._epochs.get(key, 0))
        return snapshot_record(key, state, partition.done_count, self._runtime.now_ms())

    def lead(self, partition: Partition) -> None:
        """Load a partition of `__share_group_state` that has a leader now."""
        self.log.lead(partition)

    # --- time -------------------------------------------------------------------------------------------

    def _tick_soon(self, delay_s: float = TICK_S) -> None:
        """Look what is over after `delay_s`, or earlier if that was wanted before."""
        at_s = self._runtime.loop.time() + delay_s
        if self._timer is not None:
            if self._timer.when() <= at_s:
                return
            self._timer.cancel()
        self._timer = self._runtime.loop.call_at(at_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._runtime.is_closed:
            return
        now_ms = self._runtime.steady_ms()
        for group in list(self.groups.values()):
            for member_id in group.expired(now_ms):
                self._expire(group.group_id, member_id)
        for key, partition in list(self._partitions.items()):
            if partition.expire_locks(now_ms):
                self.changed(key)
        ends = [at for item in self._partitions.values() if (at := item.locked_until()) is not None]
        ends += [member.deadline_ms for group in self.groups.values() for member in group.members.values()]
        if ends:
            self._tick_soon(max(LATE_S_MAX, (min(ends) - now_ms) / 1000))
