"""What members of groups have in common, whether threads or coroutines wait for records."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod

from ottla.client.network_errors import NetworkErrors
from ottla.consumer.coordinated.commits import CommittedOffsets, CommitTimes
from ottla.consumer.coordinated.driven_member import DrivenMember
from ottla.consumer.coordinated.group_consumer_config import GroupConsumerConfig
from ottla.consumer.coordinated.member_state import HEALTH_OF, MemberState, PartitionSet
from ottla.consumer.coordinated.partitions import AssignedPartitions
from ottla.consumer.coordinated.topic_selection import TopicSelection
from ottla.consumer.reading.health import Health
from ottla.consumer.reading.reader_state import ReaderMetrics, Stopped
from ottla.fetching.commit_positions import Committable, commit_positions
from ottla.fetching.partition_feeds import PartitionFeeds
from ottla.model.committed_positions import GroupMetadata
from ottla.model.errors import ConsumerClosed, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import Membership

MAX_WAIT_MS = 1_000.0
"""The longest wait for records before the consumer tells its member again that the application is alive."""


class BaseGroupConsumer(ABC):
    """A member of a group: its properties, and the methods that need not wait."""

    _membership: DrivenMember
    _engine: PartitionFeeds
    _partitions: AssignedPartitions
    _auto_commit: CommitTimes
    _forgotten: weakref.finalize[..., object]

    def __init__(self, config: GroupConsumerConfig, selection: TopicSelection, errors: NetworkErrors) -> None:
        self._selection = selection
        self._group_id = config.member.group_id
        self._max_poll_records = config.max_poll_records
        self._max_wait_ms = min(MAX_WAIT_MS, config.member.max_poll_interval_ms / 3)
        self._errors = errors
        self._is_closed = False
        self._is_forked = False

    def _stopped_by(self, forgotten: weakref.finalize[..., object]) -> None:
        """Keep what stops this consumer when it is dropped; a fork detaches it."""
        self._forgotten = forgotten
        _CONSUMERS.add(self)

    def __repr__(self) -> str:
        assigned = ", ".join(map(str, sorted(self.assignment))) or "nothing"
        member_id, generation, _ = self.membership
        if self._is_closed:
            state = "closed"
        elif not self._is_started:
            state = "not joined yet"
        else:
            member = f"member {member_id!r}" if member_id else "no member yet"
            state = f"{member}, generation {generation}, {self._membership.state.value}, assigned {assigned}"
        return f"<{type(self).__name__} of group {self._group_id!r}, topics {self._selection!r}: {state}>"

    @property
    @abstractmethod
    def _is_started(self) -> bool:
        """Whether the member has begun to join."""

    def _check_open(self) -> None:
        if self._is_closed:
            why = "belongs to the process that forked this one" if self._is_forked else "is closed"
            raise ConsumerClosed(f"group {self._group_id!r}: this consumer {why}; make another one")

    def _positions(self, offsets: Committable | None) -> CommittedOffsets:
        self._check_open()
        return self._partitions.noted(commit_positions(offsets, self._partitions.positions))

    # --- the group

    @property
    def assignment(self) -> PartitionSet:
        """The partitions of this member; they change only inside `poll` and iteration."""
        return self._partitions.assigned

    @property
    def membership(self) -> Membership:
        """The `member_id` and `generation` of this member; generation -1 while it is in no generation."""
        return self._membership.membership

    @property
    def group_metadata(self) -> GroupMetadata:
        """The group and this member, for `Producer.send_offsets`. Raises ConfigError if auto commit is on.

        A member that was put out of the group has its last generation here, so that brokers refuse it.
        """
        self._auto_commit.check_off()
        return GroupMetadata(self._group_id, *self._membership.last_membership)

    @property
    def stopped(self) -> Stopped:
        """The partitions that cannot be read at present, and why: `skip`, `seek` or `retry` them."""
        return self._engine.stopped

    @property
    def health(self) -> Health:
        """The health of the member: DEGRADED if partitions cannot be read, FAILED if it was refused."""
        if self._is_closed:
            return Health.CLOSED
        state = self._membership.state
        is_degraded = self.stopped or self._membership.has_refused_topics
        return Health.DEGRADED if is_degraded and state is not MemberState.FAILED else HEALTH_OF[state]

    def metrics(self) -> ReaderMetrics:
        """Return lag, queue sizes, and which partitions cannot be read."""
        return ReaderMetrics.of(self.health, self._engine)

    @property
    def network_error(self) -> OttlaError | None:
        """Why no broker gives a usable answer at present; None if one does, or none was asked."""
        return self._errors.problem()

    # --- positions

    def position(self, topic_partition: TopicAndPartition) -> int:
        """Return the offset after the last record that was handed out; -1 while it is not known yet."""
        return self._partitions.position(topic_partition)

    def skip(self, topic_partition: TopicAndPartition) -> int:
        """Continue after damaged or too large records, and return that offset.

        Raises ConfigError if no such records stopped the partition.
        """
        self._check_open()
        return self._partitions.skip(topic_partition)

    def pause(self, *partitions: TopicAndPartition) -> None:
        """Stop fetching and handing out these partitions; `poll` continues with the others."""
        self._partitions.pause(partitions)

    def resume(self, *partitions: TopicAndPartition) -> None:
        """Continue with paused partitions."""
        self._partitions.resume(partitions)

    def _mark_closed(self) -> None:
        self._is_closed = True

    def _stop_after_fork(self) -> None:
        """Hand out and commit nothing in a child process: the member is the parent's."""
        self._is_closed = self._is_forked = True
        self._forgotten.detach()


_CONSUMERS: weakref.WeakSet[BaseGroupConsumer] = weakref.WeakSet()


def _forked() -> None:
    for consumer in list(_CONSUMERS):
        consumer._stop_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
