"""BrokerFetcher: a thread with a connection, for the partitions that a broker leads for one fetcher id.

`FetchRounds` decides what is sent. The thread owns its partitions. They come through `join`. They go to the
LeaderSearch when the broker does not lead them or the connection is lost; partitions that their reader has
closed are dropped.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Protocol, cast

from ottla.client.client_config import ClientConfig
from ottla.client.clock import Clock
from ottla.client.connection import Connection
from ottla.client.conversation import completed
from ottla.client.direct import DirectPeer
from ottla.client.interruption import Interruption
from ottla.client.lookup_calls import ask_offsets
from ottla.client.metadata import ClusterMetadata
from ottla.fetching.cursor import Cursor, Departure
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_rounds import FetchRounds
from ottla.fetching.frame_memory import FrameMemory
from ottla.fetching.partition_info import BrokerAndFetcherId
from ottla.fetching.partition_table import PartitionTable
from ottla.fetching.request_plan import FetchPlan, ReceivedRecords
from ottla.model.errors import OttlaError
from ottla.wire.api.fetch import FetchRequest, FetchResponse

log = logging.getLogger(__name__)


class LeaderSearch(Protocol):
    """Finds a broker for partitions that have none."""

    def take_in(self, departures: Iterable[Departure]) -> None:
        """Find a broker for these partitions. Does not wait."""


class BrokerFetcher:
    """The engine starts the thread. It ends after `stop`, a lost connection, or LINGER_MS without
    partitions.
    """

    def __init__(
        self,
        key: BrokerAndFetcherId,
        table: PartitionTable,
        *,
        client_config: ClientConfig,
        config: FetchConfig,
        metadata: ClusterMetadata,
        memory: FrameMemory,
        search: LeaderSearch,
        clock: Clock,
        name: str,
    ) -> None:
        self.key = key
        self._table = table
        self._client_config = client_config
        self._config = config
        self._metadata = metadata
        self._memory = memory
        self._search = search
        self._clock = clock
        self._interruption = Interruption()
        self._lock = threading.Lock()  # guards the next two
        self._arrivals: deque[Cursor] = deque()
        self._has_ended = False
        self._wake = threading.Event()
        self._rounds = FetchRounds(key, table, config, clock.now_ms)
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- other threads

    def join(self, cursors: Iterable[Cursor]) -> bool:
        """Fetch these partitions too, from the next request on; False if the fetcher has ended."""
        with self._lock:
            if self._has_ended:
                return False
            self._arrivals.extend(cursors)
        self._wake.set()
        return True

    def room_was_made(self) -> None:
        """Note that a reader has taken a chunk."""
        if not self._wake.is_set():  # to set it again costs as much as the first time
            self._wake.set()

    def orders_changed(self) -> None:
        """Note that a reader paused, resumed, made a seek or closed its feed."""
        self._rounds.has_orders = True
        self.room_was_made()

    def stop(self) -> None:
        """End now, also while it waits for the broker. Does not wait for the thread."""
        self._interruption.interrupt()
        self._wake.set()

    # --- the thread

    def _run(self) -> None:
        reason: Exception | None = None
        try:
            with closing(self._connect()) as connection:
                try:
                    self._serve(connection)
                finally:
                    self._say_farewell(connection)
        except OttlaError as error:
            reason = error
        except Exception as error:
            log.exception("%s failed", self.key)
            reason = error
        finally:
            self._end(reason)

    def _connect(self) -> Connection:
        return Connection.open(
            self.key.broker.address,
            self._client_config,
            broker_id=self.key.broker.broker_id,
            allocate=self._memory.allocate,
            interruption=self._interruption,
            clock=self._clock,
            memory=self._metadata.memory,
            errors=self._metadata.errors,
        )

    def _serve(self, connection: Connection) -> None:
        while not self._interruption.is_set:
            plan, is_busy = self._turn(connection)
            if not is_busy and not self._rests(plan):
                return

    def _say_farewell(self, connection: Connection) -> None:
        """End the fetch session, if the connection still works, without waiting for the answer."""
        request = self._rounds.farewell()
        if request is not None:
            with suppress(OttlaError):
                connection.send(request)

    def _turn(self, connection: Connection) -> tuple[FetchPlan, bool]:
        """Receive a response, send the next request, decode the response.

        The received bytes are released then, so that the next response goes into the same memory, which is in
        the processor's cache.
        """
        received = self._receive(connection)
        self._rounds.welcome(self._take_arrivals(), self)
        self._look_up(connection)
        version = connection.version_for(FetchRequest.API)
        plan = self._rounds.plan(version)
        if plan.requests:
            request, at_most = self._rounds.request(plan, version)
            connection.send(request, at_most=at_most, kept_ms=plan.max_wait_ms)
        self._table.deliver(received)
        self._table.settle()
        self._hand_on()
        return plan, bool(plan.requests or received)

    def _receive(self, connection: Connection) -> list[ReceivedRecords]:
        plan = self._rounds.in_flight
        if plan is None:
            return []
        answer = connection.receive(plan.max_wait_ms + self._client_config.request_timeout_ms)
        response = cast(FetchResponse, answer.message)
        received = self._rounds.received(response)
        if self._table.hints:
            self._metadata.learn(*self._rounds.take_hints(response))
        return received

    def _take_arrivals(self) -> list[Cursor]:
        with self._lock:
            arrivals = list(self._arrivals)
            self._arrivals.clear()
        return arrivals

    def _look_up(self, connection: Connection) -> None:
        """Look up offsets, while no other request is in flight."""
        questions = self._rounds.questions()
        if questions:
            isolation_level = int(self._config.isolation_level)
            lookup = ask_offsets(DirectPeer(connection), questions, isolation_level)
            self._table.take_offsets(completed(lookup))

    def _hand_on(self) -> None:
        departed = self._rounds.take_departed()
        if departed:
            self._search.take_in(departed)

    def _rests(self, plan: FetchPlan) -> bool:
        """Wait for something to do; False if there were no partitions for LINGER_MS."""
        wait_ms = self._rounds.rest_ms(plan)
        if wait_ms is not None and wait_ms <= 0 and not len(self._table) and self._is_over():
            return False
        self._wake.wait(None if wait_ms is None else max(0.0, wait_ms) / 1000)
        self._wake.clear()
        return True

    def _is_over(self) -> bool:
        """Whether the fetcher ends: no partition has joined in the meantime.

        From now on `join` returns False.
        """
        with self._lock:
            self._has_ended = not self._arrivals
            return self._has_ended

    def _end(self, reason: Exception | None) -> None:
        """Hand all partitions over to the LeaderSearch."""
        self._hand_on()
        with self._lock:
            self._has_ended = True
            cursors = [*self._table.clear(), *self._arrivals]
            self._arrivals.clear()
        if self._interruption.is_set:
            log.debug("%s is closed", self.key)
        elif departed := self._rounds.lost(cursors, reason):
            self._search.take_in(departed)
        self._interruption.close()
