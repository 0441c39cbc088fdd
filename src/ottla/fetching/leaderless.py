"""Leaderless: partitions that are fetched from no broker, and when their leaders are looked up. Pure.

The known metadata are used while they name another leader than the one that failed; otherwise they are
refreshed. The first try is immediate, the next ones come after pauses that double. An error that no other try
can cure soon (a login, a topic that may not be read) stops the reader; such a partition is tried again less
and less often, and at once when its reader seeks, skips or retries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ottla.client.retry import Backoff
from ottla.fetching.cursor import Cursor, Departure
from ottla.fetching.feed_interface import Attendant
from ottla.fetching.fetch_errors import STOPPED_BACKOFF, Reaction, reaction_about
from ottla.fetching.partition_info import BrokerAndFetcherId
from ottla.model.chance import Chance
from ottla.model.cluster_view import ClusterView, PartitionLeader
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.hashes import fetcher_id

log = logging.getLogger(__name__)


def leaders_to_ask(cursors: Iterable[Cursor], view: ClusterView) -> list[str]:
    """Return the topics of partitions without a known leader, or whose known leader has just failed. Pure."""
    topics: dict[str, None] = {}
    for cursor in cursors:
        topic_partition = cursor.feed.topic_partition
        known = view.leader_of(*topic_partition)
        if known is None or (cursor.failures and known == cursor.leader):
            topics[topic_partition.topic] = None
    return list(topics)


def no_leader(view: ClusterView, topic_partition: TopicAndPartition) -> KafkaError:
    """Return why a partition has no leader, according to the metadata. Pure."""
    topic, partition = view.topics.get(topic_partition.topic), view.partition(*topic_partition)
    if topic is None:
        return KafkaError(
            Code.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition}: the cluster has no such topic"
        )
    if topic.error != Code.NONE:
        return KafkaError(topic.error, f"{topic_partition}: topic {topic_partition.topic}")
    if partition is None:
        count = len(topic.partitions)
        return KafkaError(
            Code.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition}: the topic has {count} partitions"
        )
    return KafkaError(partition.error or Code.LEADER_NOT_AVAILABLE, f"{topic_partition}")


class Leaderless:
    """Belongs to the thread or task that looks for leaders; `now_ms` is the time."""

    def __init__(
        self, fetcher_count: int, backoff: Backoff, now_ms: Callable[[], float], chance: Chance
    ) -> None:
        self._fetcher_count = fetcher_count
        self._backoff = backoff
        self._now_ms = now_ms
        self._chance = chance
        self._cursors: list[Cursor] = []
        self._last_logged: tuple[type[Exception], int] | None = None  # the kind of error that was logged last

    def add(self, arrivals: Iterable[Departure | Cursor], attendant: Attendant) -> None:
        """Add partitions that need a leader; their readers' orders go to `attendant`."""
        for arrival in arrivals:
            cursor = arrival.cursor if isinstance(arrival, Departure) else arrival
            cursor.feed.attach(attendant)
            if isinstance(arrival, Departure) and arrival.reason is not None:
                cursor.replica = None
                self._postpone(cursor)
            self._cursors.append(cursor)

    def next_at_ms(self) -> float | None:
        """When the next look-up is due; None if no partition waits."""
        return min((cursor.retry_at_ms for cursor in self._cursors), default=None)

    def take_due(self) -> list[Cursor]:
        """Return the partitions to look up now.

        When one is due, all but the stopped partitions are: one response serves them all.
        """
        now_ms = self._now_ms()
        if not any(cursor.retry_at_ms <= now_ms for cursor in self._cursors):
            return []
        due: list[Cursor] = []
        waiting: list[Cursor] = []
        for cursor in self._cursors:
            (waiting if cursor.stops and cursor.retry_at_ms > now_ms else due).append(cursor)
        self._cursors = waiting
        return [cursor for cursor in due if not cursor.feed.is_closed]

    def follow_orders(self) -> None:
        """Try stopped partitions at once if their readers have acted; drop partitions that were closed."""
        self._cursors = [each for each in self._cursors if not each.feed.is_closed]
        for cursor in self._cursors:
            if cursor.stops and cursor.feed.failure is None:
                cursor.stops = 0
                cursor.retry_at_ms = 0.0

    def _postpone(self, cursor: Cursor) -> None:
        """Set the time of the next try: at once after the first failure, then after growing pauses."""
        pause_ms = self._backoff.pause_ms(cursor.failures, self._chance)
        cursor.failures += 1
        if cursor.feed.failure is not None:
            cursor.stops += 1
            pause_ms = STOPPED_BACKOFF.pause_ms(cursor.stops, self._chance)
        cursor.retry_at_ms = self._now_ms() + pause_ms

    def _keep(self, cursor: Cursor) -> None:
        self._postpone(cursor)
        self._cursors.append(cursor)

    def retry_later(self, failed: list[tuple[Cursor, Exception]]) -> None:
        """Report the errors, and try again later."""
        for cursor, error in failed:
            reaction = reaction_about(error)
            cursor.feed.report(error, reaction, cursor.position)
            if reaction is Reaction.STOP:
                cursor.feed.stop(cursor.feed.generation, error)
            self._keep(cursor)
        if failed:
            self._log(failed)

    def _log(self, failed: list[tuple[Cursor, Exception]]) -> None:
        """Warn when the kind of error changes, and again less and less often."""
        cursor, error = failed[0]
        report = cursor.feed.trouble
        kind = type(error), getattr(error, "code", 0)
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        what = "no leader to read from: %s%s: %s"
        is_repeated = kind == self._last_logged and (report is None or not report.is_logged)
        level = logging.DEBUG if is_repeated else logging.WARNING
        log.log(level, what, cursor.feed.topic_partition, more, error)
        self._last_logged = kind

    def assigned(self, cursors: list[Cursor], view: ClusterView) -> dict[BrokerAndFetcherId, list[Cursor]]:
        """Return the partitions that have a leader, by fetcher. The others are tried again later."""
        groups: dict[BrokerAndFetcherId, list[Cursor]] = {}
        failed: list[tuple[Cursor, Exception]] = []
        leaders: dict[PartitionLeader, PartitionLeader] = {}  # one object for all partitions of a leader
        for cursor in cursors:
            topic_partition = cursor.feed.topic_partition
            leader = view.leader_of(*topic_partition)
            if leader is None:
                failed.append((cursor, no_leader(view, topic_partition)))
                continue
            cursor.leader = leaders.setdefault(leader, leader)
            cursor.topic_id = view.topics[topic_partition.topic].topic_id
            cursor.retry_at_ms = 0.0
            node = view.brokers.get(cursor.replica.broker_id) if cursor.replica is not None else None
            if node is None or node == leader.node:
                cursor.replica, node = None, leader.node
            key = BrokerAndFetcherId(node, fetcher_id(*topic_partition, self._fetcher_count))
            groups.setdefault(key, []).append(cursor)
        self.retry_later(failed)
        if groups and not failed:
            self._last_logged = None
        return groups
