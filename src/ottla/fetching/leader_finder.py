"""LeaderFinder: the thread that gives partitions to fetchers.

A partition comes here when it is new, when its broker does not lead it (any more), and when its fetcher lost
the broker. It leaves to the fetcher of its leader, at the offset behind what was queued. Only this thread
makes fetchers.

What is known of the cluster is used while it names another leader than the one that failed; else it is asked
for. The first try is at once, the next ones after pauses that double. What no other try can cure (a login, a
topic that may not be read) stops the reader, and the search until the reader decides.
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
from ottla.fetching.errors import Reaction, reaction_about
from ottla.fetching.fetcher import BrokerFetcher
from ottla.fetching.partition_table import Departure
from ottla.fetching.places import BrokerAndFetcherId, TopicAndPartition
from ottla.model.cluster_view import ClusterView
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError
from ottla.records.hashes import fetcher_id

log = logging.getLogger(__name__)

MakeFetcher = Callable[[BrokerAndFetcherId], BrokerFetcher]


def leaders_to_ask(cursors: Iterable[Cursor], view: ClusterView) -> list[str]:
    """Topics of partitions for which what is known is nothing, or what has just failed. Pure."""
    asked: dict[str, None] = {}
    for cursor in cursors:
        place = cursor.feed.topic_partition
        known = view.leader_of(*place)
        if known is None or (cursor.failures and known == cursor.leader):
            asked[place.topic] = None
    return list(asked)


def no_leader(view: ClusterView, place: TopicAndPartition) -> KafkaError:
    """Why a partition has no leader, as far as the cluster tells. Pure."""
    topic, partition = view.topics.get(place.topic), view.partition(*place)
    if topic is None:
        return KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"{place}: the cluster has no such topic")
    if topic.error != Code.NONE:
        return KafkaError(topic.error, f"{place}: topic {place.topic}")
    if partition is None:
        count = len(topic.partitions)
        return KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"{place}: the topic has {count} partitions")
    return KafkaError(partition.error or Code.LEADER_NOT_AVAILABLE, f"{place}")


class LeaderFinder:
    """Started by its maker, ended by `stop`, which also ends the fetchers."""

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
        self._homeless: list[Cursor] = []
        self._trouble: tuple[type[Exception], int] | None = None  # what the log was told last
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- other threads

    def take_in(self, departures: Iterable[Departure | Cursor]) -> None:
        """Find a fetcher for these. Does not wait."""
        with self._lock:
            self._arrivals.extend(departures)
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
        """Those that run."""
        with self._lock:
            return [one for one in self._fetchers.values() if one.thread.is_alive()]

    # --- the thread

    def _run(self) -> None:
        while not self._is_stopped:
            self._welcome()
            now_ms = self._clock.now_ms()
            if any(cursor.retry_at_ms <= now_ms for cursor in self._homeless):
                # When one is due all come along: the answer to one question serves them all.
                homeless, self._homeless = self._homeless, []
                self._find(homeless)
            self._rest()

    def _rest(self) -> None:
        wait_s = None
        if self._homeless:
            next_ms = min(cursor.retry_at_ms for cursor in self._homeless)
            wait_s = max(0.0, next_ms - self._clock.now_ms()) / 1000
        self._wake.wait(wait_s)
        self._wake.clear()

    def _welcome(self) -> None:
        with self._lock:
            arrivals = list(self._arrivals)
            self._arrivals.clear()
        for arrival in arrivals:
            cursor = arrival.cursor if isinstance(arrival, Departure) else arrival
            if isinstance(arrival, Departure):
                self._postpone(cursor)
            self._homeless.append(cursor)

    def _postpone(self, cursor: Cursor) -> None:
        """Not at all after a first failure: who leads now is mostly known by then."""
        cursor.retry_at_ms = self._clock.now_ms() + self._backoff.pause_ms(cursor.failures, self._chance)
        cursor.failures += 1

    def _find(self, cursors: list[Cursor]) -> None:
        cursors = self._sought(cursors)
        try:
            topics = leaders_to_ask(cursors, self._metadata.view)
            view = self._metadata.refresh(topics, reason="partitions without a leader") if topics else None
        except Exception as error:
            if not isinstance(error, OttlaError):
                log.exception("the search for leaders failed")
            self._unsettle([(cursor, error) for cursor in cursors])
        else:
            self._settle(cursors, view or self._metadata.view)

    def _sought(self, cursors: list[Cursor]) -> list[Cursor]:
        """Closed ones are forgotten; those that stopped wait until their readers have decided."""
        sought = []
        for cursor in cursors:
            if cursor.feed.is_closed:
                continue
            if cursor.feed.failure is None:
                sought.append(cursor)
            else:
                self._keep(cursor)
        return sought

    def _keep(self, cursor: Cursor) -> None:
        self._postpone(cursor)
        self._homeless.append(cursor)

    def _unsettle(self, failed: list[tuple[Cursor, Exception]]) -> None:
        """Tell the readers, and try again later."""
        for cursor, error in failed:
            reaction = reaction_about(error)
            cursor.feed.report(error, reaction, cursor.position)
            if reaction is Reaction.STOP:
                cursor.feed.stop(cursor.feed.generation, error)
            self._keep(cursor)
        if failed and not self._is_stopped:
            self._log(failed)

    def _log(self, failed: list[tuple[Cursor, Exception]]) -> None:
        """A warning for each kind of trouble, and not for every try."""
        cursor, error = failed[0]
        trouble = type(error), getattr(error, "code", 0)
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        what = "no leader to read from: %s%s: %s"
        level = logging.DEBUG if trouble == self._trouble else logging.WARNING
        log.log(level, what, cursor.feed.topic_partition, more, error)
        self._trouble = trouble

    def _settle(self, cursors: list[Cursor], view: ClusterView) -> None:
        groups: dict[BrokerAndFetcherId, list[Cursor]] = {}
        failed: list[tuple[Cursor, Exception]] = []
        for cursor in cursors:
            place = cursor.feed.topic_partition
            leader = view.leader_of(*place)
            if leader is None:
                failed.append((cursor, no_leader(view, place)))
                continue
            cursor.leader = leader
            cursor.topic_id = view.topics[place.topic].topic_id
            cursor.retry_at_ms = 0.0
            key = BrokerAndFetcherId(leader.node, fetcher_id(*place, self._fetcher_count))
            groups.setdefault(key, []).append(cursor)
        self._unsettle(failed)
        if groups and not failed:
            self._trouble = None
        for key, members in groups.items():
            self._give(key, members)

    def _give(self, key: BrokerAndFetcherId, cursors: list[Cursor]) -> None:
        with self._lock:
            if self._is_stopped:
                return
            fetcher = self._fetchers.get(key)
            if fetcher is not None and fetcher.join(cursors):
                return
            self._fetchers = {one: other for one, other in self._fetchers.items() if other.thread.is_alive()}
            fetcher = self._fetchers[key] = self._make_fetcher(key)
            fetcher.join(cursors)
            fetcher.thread.start()
