"""The assignors: pure functions from the members' subscriptions and the topics' partitions to a plan.

Only the leader of a generation assigns, so members may use different algorithms; only the assignors' names
and bytes have to be Kafka's. Range and round-robin give what Java's give. The sticky assignors are at least
as even as Java's, and move at most as many partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType
from typing import Protocol

from ottla.consumer.coordinated.balance import balanced
from ottla.model.errors import RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.consumer_protocol import (
    NO_GENERATION,
    Subscription,
    TopicPartitions,
    decode_value,
    encode_value,
    flat,
    grouped_by_topic,
)
from ottla.wire.schema import array, field, int32, value

Plan = dict[str, list[TopicAndPartition]]
"""The partitions of every member, by member id. A member without partitions has an empty list."""


@dataclass(frozen=True, slots=True)
class Participant:
    """A member of the group, as its leader sees it."""

    member_id: str
    subscription: Subscription
    instance_id: str | None = None

    @property
    def precedence(self) -> tuple[bool, str]:
        """The sort key: static members first, by instance id, because these survive restarts."""
        return self.instance_id is None, self.instance_id or self.member_id


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """The partitions that a member got last, and in which generation."""

    partitions: tuple[TopicAndPartition, ...] = ()
    generation: int = NO_GENERATION


class Assignor(Protocol):
    """An algorithm that assigns partitions to members."""

    @property
    def name(self) -> str:
        """The name that all clients use for it."""

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their partitions while they join."""

    def user_data(self, last_assignment: LastAssignment, /) -> bytes | None:
        """Return what a member sends to the leader besides its topics."""

    def assign(self, members: Sequence[Participant], partition_counts: Mapping[str, int]) -> Plan:
        """Assign every partition of every wanted topic. Topics without a count do not exist."""


class _Stateless:
    """The base of assignors that ignore what a member owned before."""

    is_cooperative = False

    def user_data(self, _last_assignment: LastAssignment) -> bytes | None:
        """Return None: this assignor needs no data."""
        return None


class RangeAssignor(_Stateless):
    """Assigns each topic by itself, in consecutive partitions.

    The first members get one more if the division leaves a remainder.
    """

    name = "range"

    def assign(self, members: Sequence[Participant], partition_counts: Mapping[str, int]) -> Plan:
        """Assign ranges to the members in order of precedence."""
        plan: Plan = {member.member_id: [] for member in members}
        for topic, subscribers in _subscribers(members).items():
            count, remainder = divmod(partition_counts.get(topic, 0), len(subscribers))
            start = 0
            for number, member in enumerate(subscribers):
                end = start + count + (number < remainder)
                plan[member.member_id] += _partitions(topic, range(start, end))
                start = end
        return plan


class RoundRobinAssignor(_Stateless):
    """Deals all partitions of all topics to the members in turn."""

    name = "roundrobin"

    def assign(self, members: Sequence[Participant], partition_counts: Mapping[str, int]) -> Plan:
        """Deal the partitions; a member that does not want a topic is skipped."""
        plan: Plan = {member.member_id: [] for member in members}
        turns = cycle(_by_precedence(members))
        for topic in sorted(_subscribers(members)):
            for topic_partition in _partitions(topic, range(partition_counts.get(topic, 0))):
                member = next(member for member in turns if topic in member.subscription.topics)
                plan[member.member_id].append(topic_partition)
        return plan


@value
class _StickyData:
    previous: list[TopicPartitions] = field(array(TopicPartitions))
    generation: int = field(int32, since=1, default=NO_GENERATION)


@value
class _CooperativeData:
    generation: int = field(int32)


class StickyAssignor:
    """Assigns evenly, with as few moves as possible.

    Members send the partitions that they owned as user data.
    """

    name = "sticky"
    is_cooperative = False

    def user_data(self, last_assignment: LastAssignment) -> bytes | None:
        """Return the last assignment as bytes; None if there was none."""
        if last_assignment.generation == NO_GENERATION:
            return None
        previous = grouped_by_topic(sorted(last_assignment.partitions))
        return encode_value(_StickyData(previous=previous, generation=last_assignment.generation), 1)

    def assign(self, members: Sequence[Participant], partition_counts: Mapping[str, int]) -> Plan:
        """Assign by the rules of the module `balance`."""
        claims = {member.member_id: self._claim(member.subscription) for member in members}
        return _sticky_plan(members, partition_counts, claims)

    @staticmethod
    def _claim(subscription: Subscription) -> LastAssignment:
        if not subscription.user_data:
            return LastAssignment()
        for version in (1, 0):  # version 0 had no generation; Java tries in this order too
            try:
                data = decode_value(_StickyData, subscription.user_data, version)
            except RemoteProtocolError:
                continue
            return LastAssignment(flat(data.previous), data.generation)
        return LastAssignment()


class CooperativeStickyAssignor:
    """Like sticky, but a partition that moves is withheld for a generation: first its owner gives it up."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, last_assignment: LastAssignment) -> bytes | None:
        """Return the generation, for leaders that do not know version 2 of subscriptions."""
        return encode_value(_CooperativeData(generation=last_assignment.generation))

    def assign(self, members: Sequence[Participant], partition_counts: Mapping[str, int]) -> Plan:
        """Assign like sticky, without the partitions that another member has to give up first."""
        claims = {member.member_id: self._claim(member.subscription) for member in members}
        plan = _sticky_plan(members, partition_counts, claims)
        owned = {member.member_id: set(member.subscription.owned) for member in members}
        moving = {
            topic_partition
            for member_id, partitions in plan.items()
            for topic_partition in owned[member_id].difference(partitions)
        }
        return {
            member_id: [
                topic_partition
                for topic_partition in partitions
                if topic_partition in owned[member_id] or topic_partition not in moving
            ]
            for member_id, partitions in plan.items()
        }

    @staticmethod
    def _claim(subscription: Subscription) -> LastAssignment:
        generation = subscription.generation
        if generation == NO_GENERATION and subscription.user_data:
            try:
                generation = decode_value(_CooperativeData, subscription.user_data).generation
            except RemoteProtocolError:
                generation = NO_GENERATION
        return LastAssignment(subscription.owned, generation)


ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {
        assignor.name: assignor
        for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
    }
)


def _by_precedence(members: Sequence[Participant]) -> list[Participant]:
    return sorted(members, key=lambda member: member.precedence)


def _subscribers(members: Sequence[Participant]) -> dict[str, list[Participant]]:
    """The members that want each topic, in order of precedence."""
    subscribers: dict[str, list[Participant]] = defaultdict(list)
    for member in _by_precedence(members):
        for topic in set(member.subscription.topics):
            subscribers[topic].append(member)
    return subscribers


def _partitions(topic: str, numbers: Iterable[int]) -> list[TopicAndPartition]:
    return [TopicAndPartition(topic, number) for number in numbers]


def _sticky_plan(
    members: Sequence[Participant],
    partition_counts: Mapping[str, int],
    claims: Mapping[str, LastAssignment],
) -> Plan:
    wanted = {member.member_id: frozenset(member.subscription.topics) for member in _by_precedence(members)}
    partitions = {
        topic_partition
        for topic in frozenset().union(*wanted.values())
        for topic_partition in _partitions(topic, range(partition_counts.get(topic, 0)))
    }
    owned = _undisputed(wanted, partitions, claims)
    return balanced(wanted, partitions, owned)


def _undisputed(
    wanted: Mapping[str, frozenset[str]],
    partitions: set[TopicAndPartition],
    claims: Mapping[str, LastAssignment],
) -> dict[str, list[TopicAndPartition]]:
    """The valid claims: the later generation wins; two claims of the same generation are both invalid."""
    best: dict[TopicAndPartition, tuple[int, str | None]] = {}
    for member_id, topics in wanted.items():
        claim = claims[member_id]
        for topic_partition in set(claim.partitions):
            if topic_partition not in partitions or topic_partition.topic not in topics:
                continue
            generation, _ = best.get(topic_partition, (claim.generation - 1, None))
            if claim.generation > generation:
                best[topic_partition] = (claim.generation, member_id)
            elif claim.generation == generation:
                best[topic_partition] = (generation, None)
    owned: dict[str, list[TopicAndPartition]] = {member_id: [] for member_id in wanted}
    for topic_partition, (_, winner) in sorted(best.items()):
        if winner is not None:
            owned[winner].append(topic_partition)
    return owned
