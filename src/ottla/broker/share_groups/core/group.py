"""Members of a share group: they join, stay and leave by heartbeats, and the broker assigns partitions.

An assignment is a hint where to fetch, not a right: locks on records keep members apart. So a new assignment
takes effect at once, and no member has to give partitions up first. One that would follow the last one within
`group.share.assignment.interval.ms` is made by the first heartbeat after that: members that join together
share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.broker.share_groups.core.assignor import TopicIdPartition, assign
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

JOIN_EPOCH = 0
LEAVE_EPOCH = -1


class TopicInfo(NamedTuple):
    """A topic that exists."""

    topic_id: bytes
    partition_count: int


Topics = Mapping[str, TopicInfo | None]
"""Topics by their names; None for those that do not exist."""
TopicOfName = Callable[[str], TopicInfo | None]


@dataclass(slots=True)
class ShareGroupMember:
    """A member, which has to send another heartbeat before `deadline_ms`."""

    member_id: str
    client_id: str
    client_host: str
    epoch: int = 0
    previous_epoch: int = 0
    rack_id: str | None = None
    topics: tuple[str, ...] = ()
    deadline_ms: int = 0


@dataclass(slots=True)
class Joining:
    """The content of a heartbeat."""

    member_id: str
    member_epoch: int
    topics: tuple[str, ...] | None
    rack_id: str | None
    client_id: str
    client_host: str


@dataclass(slots=True)
class ShareGroup:
    """One group. `assignments` are those of `assignment_epoch`; a member in that epoch knows its own one."""

    group_id: str
    epoch: int = 0
    assignment_epoch: int = 0
    members: dict[str, ShareGroupMember] = field(default_factory=dict)
    assignments: dict[str, frozenset[TopicIdPartition]] = field(default_factory=dict)
    _topics: Topics | None = None  # those of `epoch`; None: members or subscriptions changed
    _assigned_ms: int | None = None

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        return "Stable" if self.members else "Empty"

    def heartbeat(self, said: Joining, deadline_ms: int, size_max: int) -> tuple[ShareGroupMember, bool]:
        """Apply a heartbeat. Returns the member, and whether the answer must have its assignment.

        Raises KafkaError if the member is unknown or fenced, or the group is full.
        """
        member = self.members.get(said.member_id)
        if said.member_epoch == JOIN_EPOCH:
            if said.topics is None:
                raise KafkaError(Code.INVALID_REQUEST, "a member that joins names its topics")
            if member is None and len(self.members) >= size_max:
                raise KafkaError(
                    Code.GROUP_MAX_SIZE_REACHED, f"group {self.group_id!r} has {size_max} members"
                )
            if member is None:
                member = ShareGroupMember(said.member_id, said.client_id, said.client_host)
                self.members[said.member_id], self._topics = member, None
        elif member is None:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID, f"{said.member_id!r} in group {self.group_id!r}")
        elif said.member_epoch not in (member.epoch, member.previous_epoch):
            reason = f"epoch {said.member_epoch} of {said.member_id!r}: it is {member.epoch}"
            raise KafkaError(Code.FENCED_MEMBER_EPOCH, reason)
        if said.topics is not None and member.topics != (wanted := tuple(sorted(set(said.topics)))):
            member.topics, self._topics = wanted, None
        member.rack_id = said.rack_id or member.rack_id
        member.deadline_ms = deadline_ms
        return member, said.member_epoch != member.epoch or said.topics is not None

    def rebalance(self, topics: TopicOfName, now_ms: int, interval_ms: int) -> bool:
        """Begin the next epoch if members, subscriptions or topics have changed, and assign for it when it is
        time. Returns whether there is a new assignment.

        `topics` looks up a topic by its name. Assignments are at least `interval_ms` apart.
        """
        names = self._topics
        if names is None:
            wanted = {name for member in self.members.values() for name in member.topics}
            names = dict.fromkeys(sorted(wanted))
        known = {name: topics(name) for name in names}
        if known != self._topics:
            self._topics = known
            self.epoch += 1
        if self.epoch == self.assignment_epoch or (self.members and self.wait_ms(now_ms, interval_ms)):
            return False
        existing = {name: info for name, info in known.items() if info is not None}
        self.assignments = assign(
            {
                member.member_id: frozenset(
                    existing[name].topic_id for name in member.topics if name in existing
                )
                for member in self.members.values()
            },
            {info.topic_id: info.partition_count for info in existing.values()},
            {member_id: kept for member_id, kept in self.assignments.items() if member_id in self.members},
        )
        self.assignment_epoch, self._assigned_ms = self.epoch, now_ms if self.members else None
        return True

    def wait_ms(self, now_ms: int, interval_ms: int) -> int:
        """Return how long a group that has changed has to wait for its next assignment; else 0."""
        if self.epoch == self.assignment_epoch or self._assigned_ms is None:
            return 0
        return max(self._assigned_ms + interval_ms - now_ms, 0)

    def assigned(self, member_id: str, topics: TopicOfName) -> frozenset[TopicIdPartition]:
        """Return the partitions of a member, of the topics that it subscribes to now."""
        member, assigned = self.members.get(member_id), self.assignments.get(member_id)
        if member is None or not assigned:
            return frozenset()
        wanted = {info.topic_id for name in member.topics if (info := topics(name)) is not None}
        return frozenset(partition for partition in assigned if partition[0] in wanted)

    def catch_up(self, member: ShareGroupMember) -> bool:
        """Bring a member to the epoch of the assignments. Returns whether it was behind."""
        if member.epoch == self.assignment_epoch:
            return False
        member.previous_epoch, member.epoch = member.epoch, self.assignment_epoch
        return True

    def leave(self, member_id: str) -> bool:
        """Remove a member. Returns whether it was one."""
        self.assignments.pop(member_id, None)
        self._topics = None
        return self.members.pop(member_id, None) is not None

    def expired(self, now_ms: int) -> list[str]:
        """Return the members whose session is over."""
        return [member.member_id for member in self.members.values() if member.deadline_ms <= now_ms]
