"""LeaderFinder: the thread that gives partitions to the fetchers of their leaders.

A partition comes here when it is new, when its broker does not lead it (any more), and when its fetcher has
lost the broker. It goes to the fetcher of its leader, at the offset after what was queued. Only this thread
makes fetchers. `Leaderless` decides when to look, and what an answer means.
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
from ottla.fetching.cursor import Cursor, Departure
from ottla.fetching.fetcher import BrokerFetcher
from ottla.fetching.leaderless import Leaderless, leaders_to_ask
from ottla.fetching.partition_info import BrokerAndFetcherId
from ottla.model.errors import OttlaError

log = logging.getLogger(__name__)

MakeFetcher = Callable[[BrokerAndFetcherId], BrokerFetcher]


class LeaderFinder:
    """The engine starts the thread; `stop` ends it and the fetchers."""

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
        self._clock = clock
        self._lock = threading.Lock()  # guards the next three
        self._arrivals: deque[Departure | Cursor] = deque()
        self._fetchers: dict[BrokerAndFetcherId, BrokerFetcher] = {}
        self._is_stopped = False
        self._wake = threading.Event()
        self._has_orders = False
        self._leaderless = Leaderless(fetcher_count, backoff, clock.now_ms, chance or random.Random())
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- other threads

    def take_in(self, departures: Iterable[Departure | Cursor]) -> None:
        """Find a fetcher for these partitions. Does not wait."""
        with self._lock:
            self._arrivals.extend(departures)
        if not self._wake.is_set():  # to set it again costs as much as the first time
            self._wake.set()

    def room_was_made(self) -> None:
        """Do nothing: partitions without a leader are not fetched."""

    def orders_changed(self) -> None:
        """Note that a reader made a seek, skipped, retried or closed its feed."""
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
            if self._has_orders:
                self._has_orders = False
                self._leaderless.follow_orders()
            due = self._leaderless.take_due()
            if due:
                self._find(due)
            self._rest()

    def _rest(self) -> None:
        next_ms = self._leaderless.next_at_ms()
        self._wake.wait(None if next_ms is None else max(0.0, next_ms - self._clock.now_ms()) / 1000)
        self._wake.clear()

    def _welcome(self) -> None:
        with self._lock:
            arrivals = list(self._arrivals)
            self._arrivals.clear()
        self._leaderless.add(arrivals, self)

    def _find(self, cursors: list[Cursor]) -> None:
        try:
            topics = leaders_to_ask(cursors, self._metadata.view)
            view = self._metadata.refresh(topics, reason="partitions without a leader") if topics else None
        except Exception as error:
            if not isinstance(error, OttlaError):
                log.exception("the search for leaders failed")
            if self._is_stopped:
                return  # the search was interrupted: that is no error of a partition
            self._leaderless.retry_later([(cursor, error) for cursor in cursors])
        else:
            groups = self._leaderless.assigned(cursors, view or self._metadata.view)
            for key, members in groups.items():
                try:
                    self._give(key, members)
                except Exception as error:  # the machine has no descriptor or no thread left
                    log.exception("%s cannot be read from", key)
                    self._leaderless.retry_later([(cursor, error) for cursor in members])

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
