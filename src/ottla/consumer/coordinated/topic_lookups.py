"""TopicLookups: decides which topics of a group are looked up, and what the answers mean. Does not wait.

A look-up is a generator: it yields the topics to request (None: all topics), and is sent the cluster's view.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Protocol, TypeVar

from ottla.client.reactions import Action, Call, action_about, action_for
from ottla.consumer.coordinated.broker_assigned_member import BrokerAssignedMember
from ottla.consumer.coordinated.member import GroupConsumerMember
from ottla.consumer.coordinated.topic_selection import TopicSelection, partition_counts
from ottla.model.cluster_view import ClusterView
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError

log = logging.getLogger(__name__)

T = TypeVar("T")

AnyMember = GroupConsumerMember | BrokerAssignedMember

Lookup = Generator[frozenset[str] | None, ClusterView, bool]
"""A look-up. Returns whether everything was found."""


class MemberAccess(Protocol):
    """Access to the member, which another thread drives."""

    def with_member(self, act: Callable[[AnyMember], T]) -> T:
        """Call `act` with the member."""

    def fail(self, error: Exception) -> None:
        """End the membership, because this error will not go away."""

    def wake(self) -> None:
        """Tell the application that it has something to do."""


class TopicLookups:
    """Looks up the topics of a pattern and, if the member is the leader, all topics of the group."""

    def __init__(self, group_id: str, selection: TopicSelection, access: MemberAccess) -> None:
        self._group_id = group_id
        self.selection = selection
        self._access = access
        self._missing: dict[str, int] = {}  # topics without known partitions → how often they were looked up
        self._refused: frozenset[str] = frozenset()
        self._unreported: deque[KafkaError] = deque()

    @property
    def has_refused_topics(self) -> bool:
        """Whether brokers refuse to show a topic of the group, for a reason that somebody has to remove (such
        as a missing ACL).
        """
        return bool(self._refused)

    def take_unreported(self) -> KafkaError | None:
        """Return why brokers refuse a topic that this member wants, once; None if there is nothing new to
        raise.
        """
        return self._unreported.popleft() if self._unreported else None

    def failed(self, error: Exception) -> bool:
        """Note that a look-up failed. Returns False if it should be tried again soon."""
        if not isinstance(error, OttlaError) or action_about(error, Call.METADATA) is Action.FAIL:
            self._access.fail(error)
            return True  # the next look-up comes when the member tries again
        log.warning("group %r: topics could not be looked up: %s", self._group_id, error)
        return False

    def once(self, view: Callable[[], ClusterView]) -> Lookup:
        """Look the topics up once; `view` is what is known so far."""
        with_member = self._access.with_member
        yield from self._select_by_pattern()
        topics = with_member(lambda member: member.leader_topics)
        if topics is None:
            self._note_missing(frozenset(), view())
            return True
        if topics:
            yield topics
        counts = partition_counts(view(), topics)
        with_member(lambda member: _set_counts(member, topics, counts))
        self._note_missing(topics - counts.keys(), view())
        return len(counts) == len(topics)

    def _select_by_pattern(self) -> Generator[frozenset[str] | None, ClusterView, None]:
        """Have the member subscribe to the topics that match, if the application gave a pattern."""
        selection = self.selection
        if selection.is_pattern:
            matches = selection.matching((yield None))
            self._access.with_member(lambda member: self._subscribe(member, selection, matches))

    def _note_missing(self, missing: frozenset[str], view: ClusterView) -> None:
        """Report the topics that no member gets: the log repeatedly, the application once for each refused
        topic.
        """
        known = view.topics
        codes = {
            name: known[name].error or Code.LEADER_NOT_AVAILABLE
            if name in known
            else Code.UNKNOWN_TOPIC_OR_PARTITION
            for name in missing
        }
        times = self._missing = {name: self._missing.get(name, 0) + 1 for name in missing}
        before = self._refused
        self._refused = frozenset(name for name in missing if _is_final(codes[name]))
        for name in sorted(missing):
            error = KafkaError(codes[name], f"group {self._group_id!r}: topic {name!r} gets no readers")
            is_refused = name in self._refused
            # A missing topic may be created soon, so its first miss is not logged.
            if times[name].bit_count() == 1 and (is_refused or times[name] > 1):
                level = logging.ERROR if is_refused else logging.WARNING
                log.log(level, "%s; it is looked up again and again", error)
            if is_refused and name not in before and name in self.selection.names:
                self._unreported.append(error)
                self._access.wake()

    def _subscribe(self, member: AnyMember, selection: TopicSelection, matches: frozenset[str]) -> None:
        if selection is self.selection:  # otherwise `select` was called during the look-up
            member.subscribe(matches)


def _is_final(code: int) -> bool:
    return action_for(code, Call.METADATA) is Action.FAIL


def _set_counts(member: AnyMember, topics: frozenset[str], counts: Mapping[str, int]) -> None:
    if isinstance(member, GroupConsumerMember):
        member.set_partition_counts(topics, counts)


class TopicIdLookups(TopicLookups):
    """Finds the names of topics whose ids are in the assignment of a consumer group's member."""

    def once(self, view: Callable[[], ClusterView]) -> Lookup:
        """Look the topics up once."""
        yield from self._select_by_pattern()
        wanted = self._access.with_member(_unknown)
        if wanted is None:
            return True
        if wanted:
            yield wanted
        names = {topic.topic_id: name for name, topic in view().topics.items() if not topic.error}
        self._access.with_member(lambda member: _set_names(member, names))
        return self._access.with_member(_unknown) is None


def _unknown(member: AnyMember) -> frozenset[str] | None:
    """Return the topics to look up; None if all names are known."""
    is_asking = isinstance(member, BrokerAssignedMember) and member.unknown_ids
    return member.wanted_topics if is_asking and isinstance(member, BrokerAssignedMember) else None


def _set_names(member: AnyMember, names: Mapping[bytes, str]) -> None:
    if isinstance(member, BrokerAssignedMember):
        member.set_topic_names(names)
