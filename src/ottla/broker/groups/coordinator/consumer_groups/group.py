"""One consumer group: its epochs, members and assignments.

A group changes only by the replay of records, except for deadlines and values computed from topics. A
decision is made on a copy (`draft`): it writes records, which change the copy at once and the group itself
when they are in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace

from ottla.broker.coordination.effects import Record
from ottla.broker.groups.coordinator.consumer_groups import records
from ottla.broker.groups.coordinator.consumer_groups.member import ConsumerMember
from ottla.broker.groups.coordinator.consumer_groups.records import TopicIdPartition, Value
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicFacts, TopicsView
from ottla.broker.groups.coordinator.deadlines import TimedGroup

EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"
"""The states that ListGroups and ConsumerGroupDescribe show."""

_NOTHING: frozenset[TopicIdPartition] = frozenset()


@dataclass(slots=True, eq=False)
class ConsumerGroup(TimedGroup):
    """A group whose members speak the consumer protocol; some may speak the classic one.

    `targets` are the target assignments by member, made at `assignment_ms`; `resolved` the topics by regular
    expression. `seen_topics` is the version of the topics that the group's epoch takes into account; None
    after a load. `unconfirmed` has the time at which a member got an assignment that it has not confirmed.
    """

    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, frozenset[TopicIdPartition]] = field(default_factory=dict)
    resolved: dict[str, frozenset[str]] = field(default_factory=dict)
    has_partition_metadata: bool = False
    seen_topics: int | None = None
    unconfirmed: dict[str, int] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The state as tools see it."""
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        settled = all(member.is_reconciled(self.assignment_epoch) for member in self.members.values())
        return STABLE if settled else RECONCILING

    @property
    def metadata_bytes(self) -> int:
        """Bytes of metadata that members have sent: names, expressions, and protocols of classic members."""
        return sum(map(_member_bytes, self.members.values()))

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member of a static instance, or None."""
        if instance_id is None:
            return None
        return next((item for item in self.members.values() if item.instance_id == instance_id), None)

    def classic_members(self) -> list[ConsumerMember]:
        """Return the members that speak the classic protocol."""
        return [member for member in self.members.values() if member.classic is not None]

    def assignor(self, default: str) -> str:
        """Return the assignor that most members ask for; the default one if no other has more votes."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor)
        return max(votes, key=lambda name: (votes[name], name == default, name), default=default)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to."""
        return self.resolved.get(member.regex, frozenset()).union(member.topics)

    def subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to a topic."""
        return any(topic in self.topics_of(member) for member in self.members.values())

    def known_topics(self, view: TopicsView) -> list[TopicFacts]:
        """Return the topics that members subscribe to and that exist."""
        wanted = {(member.topics, member.regex): member for member in self.members.values()}
        names = {name for member in wanted.values() for name in self.topics_of(member)}
        return [topic for name in sorted(names) if (topic := view.by_name(name)) is not None]

    def taken(self, wanted: Set[TopicIdPartition], member_id: str) -> set[TopicIdPartition]:
        """Return those of the wanted partitions that other members have, or have not given up yet."""
        others = [item for item in self.members.values() if item.member_id != member_id] if wanted else ()
        return {
            partition
            for item in others
            for held in (item.assigned, item.revoking)
            if held
            for partition in wanted & held.keys()
        }

    def target(self, member_id: str) -> frozenset[TopicIdPartition]:
        """Return the target assignment of a member."""
        return self.targets.get(member_id, _NOTHING)

    # --- replay

    def apply(self, kind: int, part: str, stored: Value | None) -> None:
        """Apply one record. Raises RemoteProtocolError if it is damaged; then nothing has changed."""
        match kind, stored:
            case records.GROUP, records.GroupEpochValue():
                self.epoch, self.metadata_hash = stored.epoch, stored.metadata_hash
            case records.PARTITIONS, _:
                self.has_partition_metadata = stored is not None
            case records.TARGET, records.TargetEpochValue():
                self.assignment_epoch = stored.assignment_epoch
                self.assignment_ms = stored.assignment_timestamp
            case records.TARGET, _:
                self.assignment_epoch, self.assignment_ms = -1, 0
            case records.TARGET_MEMBER, records.TargetMemberValue():
                self.targets[part] = records.target_partitions(stored)
            case records.TARGET_MEMBER, None:
                self.targets.pop(part, None)
            case records.REGEX, records.RegexValue():
                self.resolved[part] = frozenset(stored.topics)
            case records.REGEX, None:
                self.resolved.pop(part, None)
            case _:
                self._apply_to_member(part, stored, is_current=kind == records.CURRENT)

    def _apply_to_member(self, member_id: str, stored: Value | None, *, is_current: bool) -> None:
        member = self.members.get(member_id, ConsumerMember(member_id))
        if isinstance(stored, records.MemberMetadataValue):
            self.members[member_id] = member.with_metadata(stored)
        elif isinstance(stored, records.CurrentAssignmentValue):
            self.members[member_id] = member.with_current(stored)
        elif is_current and member_id in self.members:
            self.members[member_id] = member.without_current()
        elif not is_current:
            self.members.pop(member_id, None)

    def draft(self) -> GroupDraft:
        """Return a copy to decide on."""
        copy = replace(
            self,
            members=dict(self.members),
            targets=dict(self.targets),
            resolved=dict(self.resolved),
            unconfirmed={each: at for each, at in self.unconfirmed.items() if each in self.members},
            deadlines={},
            armed={},
        )
        return GroupDraft(copy)


class GroupDraft:
    """A copy of a group to decide on, and the records that make the same changes to the group."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[Record] = []

    def write(self, kind: int, part: str, stored: Value | None) -> None:
        """Add a record, and apply it to the copy."""
        self.records.append(records.record(kind, self.group.group_id, part, stored))
        self.group.apply(kind, part, stored)

    def put_member(self, member: ConsumerMember) -> None:
        """Store the subscription and identity of a member."""
        self.write(records.MEMBER, member.member_id, member.metadata_value())

    def put_current(self, member: ConsumerMember) -> None:
        """Store the current assignment of a member."""
        self.write(records.CURRENT, member.member_id, member.current_value())

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Store the group's epoch."""
        self.write(records.GROUP, "", records.GroupEpochValue(epoch=epoch, metadata_hash=metadata_hash))

    def put_targets(self, targets: dict[str, frozenset[TopicIdPartition]], epoch: int, now_ms: int) -> None:
        """Store the parts of a target assignment that have changed."""
        for member_id, partitions in targets.items():
            if self.group.targets.get(member_id) != partitions:
                self.write(records.TARGET_MEMBER, member_id, records.target_value(partitions))
        stored = records.TargetEpochValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
        self.write(records.TARGET, "", stored)

    def remove_member(self, member_id: str) -> None:
        """Delete all records of a member."""
        for kind in (records.CURRENT, records.TARGET_MEMBER, records.MEMBER):
            self.write(kind, member_id, None)

    def remove_unused_regexes(self) -> None:
        """Delete expressions that no member has any more."""
        used = {member.regex for member in self.group.members.values()}
        for pattern in [pattern for pattern in self.group.resolved if pattern not in used]:
            self.write(records.REGEX, pattern, None)

    def remove_group(self) -> None:
        """Delete all records of the group."""
        members = list(self.group.members)
        self._remove(records.CURRENT, members)
        self._remove(records.TARGET_MEMBER, members)
        self.write(records.TARGET, "", None)
        self._remove(records.MEMBER, members)
        self._remove(records.REGEX, list(self.group.resolved))
        if self.group.has_partition_metadata:
            self.write(records.PARTITIONS, "", None)
        # Last: a reader of the log knows by this record that the group is gone.
        self.records.append(records.record(records.GROUP, self.group.group_id, "", None))

    def _remove(self, kind: int, parts: Iterable[str]) -> None:
        for part in parts:
            self.write(kind, part, None)


def _member_bytes(member: ConsumerMember) -> int:
    protocols = member.classic.protocols if member.classic is not None else []
    return sum(map(len, member.topics)) + len(member.regex) + sum(len(item.metadata) for item in protocols)
