"""LeaderFinder: the thread that gives partitions to the fetchers of their leaders.

A partition comes here when it is new, when its broker does not lead it (any more), and when its fetcher has
lost the broker. It goes to the fetcher of its leader, at the offset after what was queued. Only this thread
makes fetchers.

The known metadata are used while they name another leader than the one that failed; otherwise they are
refreshed. The first try is immediate, the next ones come after pauses that double. An error that no other try
can cure soon (a login, a topic that may not be read) stops the reader; such a partition is tried again less
and less often, and at once when its reader decides.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable

from ottla.client.clock import Clock
from ottla.client.metadata import ClusterMetadata
from ottla.client.retry import Backoff
from ottla.fetching.cursor import Cursor
from ottla.fetching.fetch_errors import STOPPED_BACKOFF, Reaction, reaction_about
from ottla.fetching.fetcher import BrokerFetcher
from ottla.fetching.partition_info import BrokerAndFetcherId
from ottla.fetching.partition_table import Departure
from ottla.model.cluster_view import ClusterView
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.hashes import fetcher_id

log = logging.getLogger(__name__)

MakeFetcher = Callable[[BrokerAndFetcherId], BrokerFetcher]


def leaders_to_ask(cursors: Iterable[Cursor], view: ClusterView) -> list[str]:
    """The topics of partitions without a known leader, or whose known leader has just failed. Pure."""
    topics: dict[str, None] = {}
    for cursor in cursors:
        topic_partition = cursor.feed.topic_partition
        known = view.leader_of(*topic_partition)
        if known is None or (cursor.failures and known == cursor.leader):
            topics[topic_partition.topic] = None
    return list(topics)


def no_leader(view: ClusterView, topic_partition: TopicAndPartition) -> KafkaError:
    """The reason why a partition has no leader, according to the metadata. Pure."""
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


class LeaderFinder:
    """Its maker starts the thread; `stop` ends it and the fetchers."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        make_fetcher: MakeFetcher,
        *,
        fetcher_count: int,
        backoff: Backoff,
        clock: Clock,
        name: str,
        chance: random.Random | None = None,
    ) -> None:
        self._metadata = metadata
        self._make_fetcher = make_fetcher
        self._fetcher_count = fetcher_count
        self._backoff = backoff
        self._clock = clock
        self._chance = chance or random.Random()
        self._lock = threading.Lock()  # guards the next three
        self._arrivals: deque[Departure | Cursor] = deque()
        self._fetchers: dict[BrokerAndFetcherId, BrokerFetcher] = {}
        self._is_stopped = False
        self._wake = threading.Event()
        self._has_orders = False
        self._without_leader: list[Cursor] = []
        self._last_logged: tuple[type[Exception], int] | None = None  # the kind of error that was logged last
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- other threads

    def take_in(self, departures: Iterable[Departure | Cursor]) -> None:
        """Find a fetcher for these partitions. Does not wait."""
        with self._lock:
            self._arrivals.extend(departures)
        self._wake.set()

    def room_was_made(self) -> None:
        """A reader has taken a chunk: nothing is fetched for it here."""

    def orders_changed(self) -> None:
        """A reader made a seek, skipped, retried or closed its feed."""
        self._has_orders = True
        self._wake.set()

    def stop(self) -> list[threading.Thread]:
        """End this thread and all fetchers; returns the threads. Does not wait for them."""
        with self._lock:
            self._is_stopped = True
            fetchers = list(self._fetchers.values())
        self._wake.set()
        for fetcher in fetchers:
            fetcher.stop()
        return [fetcher.thread for fetcher in fetchers]

    @property
    def fetchers(self) -> list[BrokerFetcher]:
        """The fetchers that are running."""
        with self._lock:
            return [fetcher for fetcher in self._fetchers.values() if fetcher.thread.is_alive()]

    # --- the thread

    def _run(self) -> None:
        while not self._is_stopped:
            self._welcome()
            self._follow_orders()
            now_ms = self._clock.now_ms()
            if any(cursor.retry_at_ms <= now_ms for cursor in self._without_leader):
                # When one is due, try all: one metadata response serves them all. But not stopped ones.
                due: list[Cursor] = []
                waiting: list[Cursor] = []
                for cursor in self._without_leader:
                    (waiting if cursor.stops and cursor.retry_at_ms > now_ms else due).append(cursor)
                self._without_leader = waiting
                self._find(due)
            self._rest()

    def _rest(self) -> None:
        wait_s = None
        if self._without_leader:
            next_ms = min(cursor.retry_at_ms for cursor in self._without_leader)
            wait_s = max(0.0, next_ms - self._clock.now_ms()) / 1000
        self._wake.wait(wait_s)
        self._wake.clear()

    def _welcome(self) -> None:
        with self._lock:
            arrivals = list(self._arrivals)
            self._arrivals.clear()
        for arrival in arrivals:
            cursor = arrival.cursor if isinstance(arrival, Departure) else arrival
            cursor.feed.attach(self)
            if isinstance(arrival, Departure):
                self._postpone(cursor)
            self._without_leader.append(cursor)

    def _follow_orders(self) -> None:
        """Try stopped partitions at once if their readers have acted; forget closed ones."""
        if not self._has_orders:
            return
        self._has_orders = False
        self._without_leader = [each for each in self._without_leader if not each.feed.is_closed]
        for cursor in self._without_leader:
            if cursor.stops and cursor.feed.failure is None:
                cursor.stops = 0
                cursor.retry_at_ms = 0.0

    def _postpone(self, cursor: Cursor) -> None:
        """Set the time of the next try: at once after the first failure, later with pauses."""
        pause_ms = self._backoff.pause_ms(cursor.failures, self._chance)
        cursor.failures += 1
        if cursor.feed.failure is not None:
            cursor.stops += 1
            pause_ms = STOPPED_BACKOFF.pause_ms(cursor.stops, self._chance)
        cursor.retry_at_ms = self._clock.now_ms() + pause_ms

    def _find(self, cursors: list[Cursor]) -> None:
        cursors = [cursor for cursor in cursors if not cursor.feed.is_closed]
        try:
            topics = leaders_to_ask(cursors, self._metadata.view)
            view = self._metadata.refresh(topics, reason="partitions without a leader") if topics else None
        except Exception as error:
            if not isinstance(error, OttlaError):
                log.exception("the search for leaders failed")
            if self._is_stopped:
                return  # the search was interrupted: that is no error of a partition
            self._retry_later([(cursor, error) for cursor in cursors])
        else:
            self._assign(cursors, view or self._metadata.view)

    def _keep(self, cursor: Cursor) -> None:
        self._postpone(cursor)
        self._without_leader.append(cursor)

    def _retry_later(self, failed: list[tuple[Cursor, Exception]]) -> None:
        """Report the errors, and try again later."""
        for cursor, error in failed:
            reaction = reaction_about(error)
            cursor.feed.report(error, reaction, cursor.position)
            if reaction is Reaction.STOP:
                cursor.feed.stop(cursor.feed.generation, error)
            self._keep(cursor)
        if failed and not self._is_stopped:
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

    def _assign(self, cursors: list[Cursor], view: ClusterView) -> None:
        groups: dict[BrokerAndFetcherId, list[Cursor]] = {}
        failed: list[tuple[Cursor, Exception]] = []
        for cursor in cursors:
            topic_partition = cursor.feed.topic_partition
            leader = view.leader_of(*topic_partition)
            if leader is None:
                failed.append((cursor, no_leader(view, topic_partition)))
                continue
            cursor.leader = leader
            cursor.topic_id = view.topics[topic_partition.topic].topic_id
            cursor.retry_at_ms = 0.0
            key = BrokerAndFetcherId(leader.node, fetcher_id(*topic_partition, self._fetcher_count))
            groups.setdefault(key, []).append(cursor)
        self._retry_later(failed)
        if groups and not failed:
            self._last_logged = None
        for key, members in groups.items():
            try:
                self._give(key, members)
            except Exception as error:  # the machine has no descriptor or no thread left
                log.exception("%s cannot be read from", key)
                self._retry_later([(cursor, error) for cursor in members])

    def _give(self, key: BrokerAndFetcherId, cursors: list[Cursor]) -> None:
        with self._lock:
            if self._is_stopped:
                return
            fetcher = self._fetchers.get(key)
            if fetcher is not None and fetcher.join(cursors):
                return
            self._fetchers = {
                other: running for other, running in self._fetchers.items() if running.thread.is_alive()
            }
            fetcher = self._make_fetcher(key)
            fetcher.join(cursors)
            fetcher.thread.start()
            self._fetchers[key] = fetcher
