"""TopicWatch: looks up topics and their partitions, in a thread beside the one that sends heartbeats.

A look-up may take half a minute if a broker does not answer. It must not end the session meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from ottla.client.metadata import ClusterMetadata
from ottla.client.reactions import Action, Call, action_about, action_for
from ottla.consumer.coordinated.broker_assigned_member import BrokerAssignedMember
from ottla.consumer.coordinated.member import GroupConsumerMember
from ottla.consumer.coordinated.topic_selection import TopicSelection, partition_counts
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError

log = logging.getLogger(__name__)

T = TypeVar("T")

AnyMember = GroupConsumerMember | BrokerAssignedMember


class MemberAccess(Protocol):
    """Access to the member, which another thread drives."""

    def with_member(self, act: Callable[[AnyMember], T]) -> T:
        """Call `act` with the member."""

    def fail(self, error: Exception) -> None:
        """End the membership, because this error will not go away."""

    def wake(self) -> None:
        """The application has something to be told."""


class TopicWatch:
    """Looks topics up every `max_age_ms` and when `look_now` is called.

    If some are not there yet or no broker answers, it looks again after `pause_ms(failures)`.

    It looks up the topics of a pattern and, if the member is the leader, all topics of the group. Interrupt
    the metadata before `stop`, to end a running look-up.
    """

    def __init__(
        self,
        group_id: str,
        selection: TopicSelection,
        metadata: ClusterMetadata,
        max_age_ms: float,
        access: MemberAccess,
        pause_ms: Callable[[int], float],
    ) -> None:
        self._group_id = group_id
        self._selection = selection
        self._metadata = metadata
        self._max_age_ms = max_age_ms
        self._access = access
        self._pause_ms = pause_ms
        self._failures = 0
        self._missing: dict[str, int] = {}  # topics without known partitions → how often they were looked up
        self._refused: frozenset[str] = frozenset()
        self._untold: deque[KafkaError] = deque()
        self._wanted = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=f"ottla-topics-{group_id}", daemon=True)

    def start(self) -> None:
        """Start the thread, if it is not started yet."""
        if self._thread.ident is None:
            self._thread.start()

    def look_now(self) -> None:
        """Look at once: the leader has to assign. From any thread."""
        self._wanted.set()

    def select(self, selection: TopicSelection) -> None:
        """Look for other topics from now on. From any thread."""
        self._selection = selection
        self._wanted.set()

    @property
    def has_refused_topics(self) -> bool:
        """Whether brokers refuse to show a topic of the group, for a reason that somebody has to remove."""
        return bool(self._refused)

    def take_untold(self) -> KafkaError | None:
        """Return why a topic that this member wants is refused, if the application was not told yet."""
        return self._untold.popleft() if self._untold else None

    def stop(self) -> threading.Thread:
        """End the thread, and return it; does not wait. May be called twice, and before `start`."""
        self._is_stopping = True
        self._wanted.set()
        return self._thread

    def _run(self) -> None:
        while not self._is_stopping:
            self._failures = 0 if self._has_seen_all() else self._failures + 1
            pause_ms = self._pause_ms(self._failures) if self._failures else self._max_age_ms
            self._wanted.wait(pause_ms / 1000)
            self._wanted.clear()

    def _has_seen_all(self) -> bool:
        try:
            return self._look()
        except Exception as error:  # noqa: BLE001 - the application's thread raises it
            if self._is_stopping:
                return True
            if not isinstance(error, OttlaError) or action_about(error, Call.METADATA) is Action.FAIL:
                self._access.fail(error)
                return True  # looks again when the member tries again
            log.warning("group %r: topics could not be looked up: %s", self._group_id, error)
            return False

    def _look(self) -> bool:
        with_member = self._access.with_member
        self._select_by_pattern()
        topics = with_member(lambda member: member.leader_topics)
        if topics is None:
            self._note_missing(frozenset())
            return True
        if topics:
            self._metadata.refresh(sorted(topics), reason="topics of the group")
        counts = partition_counts(self._metadata.view, topics)
        with_member(lambda member: _set_counts(member, topics, counts))
        self._note_missing(topics - counts.keys())
        return len(counts) == len(topics)

    def _select_by_pattern(self) -> None:
        """Have the member subscribe to the topics that match, if the application gave a pattern."""
        selection = self._selection
        if selection.is_pattern:
            matches = selection.matching(self._metadata.refresh_all(reason="topics by pattern"))
            self._access.with_member(lambda member: self._subscribe(member, selection, matches))

    def _note_missing(self, missing: frozenset[str]) -> None:
        """Tell which topics nobody gets, and why: the log again and again, the application refusals, once."""
        known = self._metadata.view.topics
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
            if times[name].bit_count() == 1 and (is_refused or times[name] > 1):  # others may be created soon
                level = logging.ERROR if is_refused else logging.WARNING
                log.log(level, "%s; it is looked up again and again", error)
            if is_refused and name not in before and name in self._selection.names:
                self._untold.append(error)
                self._access.wake()

    def _subscribe(self, member: AnyMember, selection: TopicSelection, matches: frozenset[str]) -> None:
        if selection is self._selection:  # else `select` was called during the look-up
            member.subscribe(matches)


def _is_final(code: int) -> bool:
    return action_for(code, Call.METADATA) is Action.FAIL


def _set_counts(member: AnyMember, topics: frozenset[str], counts: Mapping[str, int]) -> None:
    if isinstance(member, GroupConsumerMember):
        member.set_partition_counts(topics, counts)


class TopicIdWatch(TopicWatch):
    """Finds the names of topics whose ids are in the assignment of a consumer group's member."""

    def _look(self) -> bool:
        self._select_by_pattern()
        wanted = self._access.with_member(_unknown)
        if wanted is None:
            return True
        if wanted:
            self._metadata.refresh(sorted(wanted), reason="topics of the assignment")
        names = {
            topic.topic_id: name for name, topic in self._metadata.view.topics.items() if not topic.error
        }
        self._access.with_member(lambda member: _set_names(member, names))
        return self._access.with_member(_unknown) is None


def _unknown(member: AnyMember) -> frozenset[str] | None:
    """Return the topics to look up; None if all names are known."""
    is_asking = isinstance(member, BrokerAssignedMember) and member.unknown_ids
    return member.wanted_topics if is_asking and isinstance(member, BrokerAssignedMember) else None


def _set_names(member: AnyMember, names: Mapping[bytes, str]) -> None:
    if isinstance(member, BrokerAssignedMember):
        member.set_topic_names(names)
