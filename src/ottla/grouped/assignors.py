"""Who gets what: pure functions of the members' subscriptions and the topics' partitions.

Only the leader of a generation assigns, so any member's algorithm will do for all, and only names and bytes
have to be Kafka's. Range and round-robin give what Java's give; the sticky ones are as even as Java's or
more so, and move no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType
from typing import Protocol

from ottla.fetching.places import TopicAndPartition
from ottla.grouped.balance import balanced
from ottla.grouped.consumer_protocol import (
    NO_GENERATION,
    Subscription,
    TopicPartitions,
    decode_value,
    encode_value,
    flat,
    grouped_by_topic,
)
from ottla.model.errors import RemoteProtocolError
from ottla.wire.schema import array, field, int32, value

Plan = dict[str, list[TopicAndPartition]]
"""The partitions of each member, by its id; every member is in it."""


@dataclass(frozen=True, slots=True)
class Participant:
    """A member as the leader sees it."""

    member_id: str
    subscription: Subscription
    instance_id: str | None = None

    @property
    def precedence(self) -> tuple[bool, str]:
        """Static members first, by their own names: these survive restarts, and so does the order."""
        return self.instance_id is None, self.instance_id or self.member_id


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a member was given last, and when."""

    partitions: tuple[TopicAndPartition, ...] = ()
    generation: int = NO_GENERATION


class Assignor(Protocol):
    """`is_cooperative`: members may keep what they have while they join."""

    @property
    def name(self) -> str:
        """As all clients call it."""

    @property
    def is_cooperative(self) -> bool:
        """Whether it can be used without giving everything back first."""

    def user_data(self, remembered: Remembered) -> bytes | None:
        """What a member tells the leader besides its topics."""

    def assign(self, members: Sequence[Participant], partition_counts: Mapping[str, int]) -> Plan:
        """Give every partition of every wanted topic to a member. Topics without a count do not exist."""


class RangeAssignor:
    """Each topic by itself: consecutive partitions, the first members get one more."""

    name = "range"
    is_cooperative = False

    def user_data(self, remembered: Remembered) -> bytes | None:
        """Nothing."""
        del remembered
        return None

    def assign(self, members: Sequence[Participant], partition_counts: Mapping[str, int]) -> Plan:
        """Members in order of precedence."""
        plan: Plan = {member.member_id: [] for member in members}
        for topic, takers in _takers(members).items():
            each, more = divmod(partition_counts.get(topic, 0), len(takers))
            start = 0
            for number, member in enumerate(takers):
                end = start + each + (number < more)
                plan[member.member_id] += _places(topic, range(start, end))
                start = end
        return plan


class RoundRobinAssignor:
    """All partitions of all topics in a row, to the members in turns."""

    name = "roundrobin"
    is_cooperative = False

    def user_data(self, remembered: Remembered) -> bytes | None:
        """Nothing."""
        del remembered
        return None

    def assign(self, members: Sequence[Participant], partition_counts: Mapping[str, int]) -> Plan:
        """Who does not want a topic is passed over."""
        plan: Plan = {member.member_id: [] for member in members}
        turns = cycle(sorted(members, key=lambda one: one.precedence))
        for topic in sorted(_takers(members)):
            for place in _places(topic, range(partition_counts.get(topic, 0))):
                member = next(one for one in turns if topic in one.subscription.topics)
                plan[member.member_id].append(place)
        return plan


@value
class _StickyData:
    previous: list[TopicPartitions] = field(array(TopicPartitions))
    generation: int = field(int32, since=1, default=NO_GENERATION)


@value
class _CooperativeData:
    generation: int = field(int32)


class StickyAssignor:
    """Even, and as before where that is even. Members tell by user data what they had."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, remembered: Remembered) -> bytes | None:
        """What it had; None for a member that never had anything."""
        if remembered.generation == NO_GENERATION:
            return None
        previous = grouped_by_topic(sorted(remembered.partitions))
        return encode_value(_StickyData(previous=previous, generation=remembered.generation), 1)

    def assign(self, members: Sequence[Participant], partition_counts: Mapping[str, int]) -> Plan:
        """By `balance`."""
        claims = {member.member_id: self._claim(member.subscription) for member in members}
        return _sticky_plan(members, partition_counts, claims)

    @staticmethod
    def _claim(subscription: Subscription) -> Remembered:
        data = subscription.user_data
        if not data:
            return Remembered()
        for version in (1, 0):  # 0 had no generation, and Java tries in this order too
            try:
                read = decode_value(_StickyData, data, version)
            except RemoteProtocolError:
                continue
            return Remembered(flat(read.previous), read.generation)
        return Remembered()


class CooperativeStickyAssignor:
    """The same, but who has to give a partition up is first asked to, and the next generation gets it."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, remembered: Remembered) -> bytes | None:
        """The generation, for members older than version 2 of subscriptions."""
        return encode_value(_CooperativeData(generation=remembered.generation))

    def assign(self, members: Sequence[Participant], partition_counts: Mapping[str, int]) -> Plan:
        """Partitions that somebody has to give up are withheld from their new member."""
        claims = {member.member_id: self._claim(member.subscription) for member in members}
        plan = _sticky_plan(members, partition_counts, claims)
        held = {member.member_id: set(member.subscription.owned) for member in members}
        given_up = {place for name, places in plan.items() for place in held[name].difference(places)}
        return {
            name: [place for place in places if place in held[name] or place not in given_up]
            for name, places in plan.items()
        }

    @staticmethod
    def _claim(subscription: Subscription) -> Remembered:
        generation = subscription.generation
        if generation == NO_GENERATION and subscription.user_data:
            try:
                generation = decode_value(_CooperativeData, subscription.user_data).generation
            except RemoteProtocolError:
                generation = NO_GENERATION
        return Remembered(subscription.owned, generation)


ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {
        assignor.name: assignor
        for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
    }
)


def _takers(members: Sequence[Participant]) -> dict[str, list[Participant]]:
    """Who wants each topic, in order of precedence."""
    takers: dict[str, list[Participant]] = defaultdict(list)
    for member in sorted(members, key=lambda one: one.precedence):
        for topic in set(member.subscription.topics):
            takers[topic].append(member)
    return takers


def _places(topic: str, numbers: Iterable[int]) -> list[TopicAndPartition]:
    return [TopicAndPartition(topic, number) for number in numbers]


def _sticky_plan(
    members: Sequence[Participant], partition_counts: Mapping[str, int], claims: Mapping[str, Remembered]
) -> Plan:
    ordered = sorted(members, key=lambda one: one.precedence)
    wants = {one.member_id: frozenset(one.subscription.topics) for one in ordered}
    topics = {topic for wanted in wants.values() for topic in wanted}
    partitions = {
        place for topic in topics for place in _places(topic, range(partition_counts.get(topic, 0)))
    }
    owned = _undisputed(wants, partitions, claims)
    return balanced(wants, partitions, owned)


def _undisputed(
    wants: Mapping[str, frozenset[str]],
    partitions: set[TopicAndPartition],
    claims: Mapping[str, Remembered],
) -> dict[str, list[TopicAndPartition]]:
    """Claims that count: of two, the one of the later generation; of the same generation, neither."""
    best: dict[TopicAndPartition, tuple[int, str | None]] = {}
    for member_id, topics in wants.items():
        claim = claims[member_id]
        for place in set(claim.partitions):
            if place not in partitions or place.topic not in topics:
                continue
            generation, _ = best.get(place, (claim.generation - 1, None))
            if claim.generation > generation:
                best[place] = (claim.generation, member_id)
            elif claim.generation == generation:
                best[place] = (generation, None)
    owned: dict[str, list[TopicAndPartition]] = {member_id: [] for member_id in wants}
    for place, (_, winner) in sorted(best.items()):
        if winner is not None:
            owned[winner].append(place)
    return owned
