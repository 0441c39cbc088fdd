"""BrokerFetcher: a thread with a connection, for the partitions that a broker leads for one fetcher id.

    receive ──▶ see where each partition continues ──▶ send the next request ──▶ decode and queue the records

So the broker works on the next response while this one is decoded, and at most one response waits unread.
The thread owns its partitions. They come through `join`. They go to the LeaderSearch when the broker does not
lead them or the connection is lost; partitions whose reader has closed them are forgotten.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import closing
from typing import Protocol, cast

from ottla.client.client_config import ClientConfig
from ottla.client.clock import Clock
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.offset_lookup import ask_offsets
from ottla.fetching.cursor import Cursor
from ottla.fetching.feed import NOBODY
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_errors import Reaction, reaction_about
from ottla.fetching.fetch_session import SESSIONS_SINCE, ClientSession
from ottla.fetching.frame_memory import FrameMemory
from ottla.fetching.partition_info import BrokerAndFetcherId, BrokerAndInitialOffset
from ottla.fetching.partition_table import Departure, PartitionTable, ReceivedRecords
from ottla.fetching.request_plan import (
    LIMITED_SINCE,
    TOPIC_IDS_SINCE,
    FetchPlan,
    fetch_request,
    newest_version,
)
from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import OttlaError
from ottla.wire.api.fetch import FetchRequest, FetchResponse

log = logging.getLogger(__name__)

LINGER_MS = 3_000
"""How long a fetcher without partitions keeps its connection: a rebalance often brings them back."""
SHOWN_MAX = 5


class LeaderSearch(Protocol):
    """Finds a broker for partitions that have none."""

    def take_in(self, departures: Iterable[Departure]) -> None:
        """Find a broker for these partitions. Does not wait."""


class BrokerFetcher:
    """Its maker starts the thread. It ends by `stop`, a lost connection, or LINGER_MS without partitions."""

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
        self._has_orders = True
        self._in_flight: FetchPlan | None = None
        self._session = ClientSession()
        self._idle_since_ms = clock.now_ms()
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
        """A reader has taken a chunk."""
        self._wake.set()

    def orders_changed(self) -> None:
        """A reader paused, resumed, made a seek or closed its feed."""
        self._has_orders = True
        self._wake.set()

    def stop(self) -> None:
        """End now, also while it waits for the broker. Does not wait for the thread."""
        self._interruption.interrupt()
        self._wake.set()

    # --- the thread

    def _run(self) -> None:
        reason: Exception | None = None
        try:
            with closing(self._connect()) as connection:
                self._serve(connection)
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

    def _turn(self, connection: Connection) -> tuple[FetchPlan, bool]:
        """Receive a response, send the next request, decode the response.

        The received bytes are released then, so that the next response goes into the same memory, which is in
        the processor's cache.
        """
        received = self._receive(connection)
        self._welcome()
        self._attend(connection)
        plan = self._table.plan(is_limited=connection.version_for(FetchRequest.API) >= LIMITED_SINCE)
        if plan.requests:
            self._send(connection, plan)
        for records in received:
            self._table.deliver(records)
        self._table.settle()
        self._hand_on()
        return plan, bool(plan.requests or received)

    def _send(self, connection: Connection, plan: FetchPlan) -> None:
        at_most = newest_version(request.cursor for request in plan.requests.values())
        version = connection.version_for(FetchRequest.API)
        if version >= SESSIONS_SINCE:
            uses_ids = at_most is None and version >= TOPIC_IDS_SINCE
            request = self._session.request(plan, self._config, uses_ids=uses_ids)
        else:
            request = fetch_request(plan, self._config)
        connection.send(request, at_most=at_most, kept_ms=plan.max_wait_ms)
        self._in_flight = plan

    def _receive(self, connection: Connection) -> list[ReceivedRecords]:
        plan = self._in_flight
        if plan is None:
            return []
        answer = connection.receive(plan.max_wait_ms + self._client_config.request_timeout_ms)
        self._in_flight = None
        response = self._session.whole(plan, cast(FetchResponse, answer.message))
        if response is None:
            return []
        received = self._table.note(plan, response)
        if self._table.hints:
            nodes = [
                BrokerNode(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints
            ]
            self._metadata.learn(self._table.hints, nodes)
            self._table.hints = []
        return received

    def _welcome(self) -> None:
        """Take over the partitions that have joined."""
        with self._lock:
            arrivals = list(self._arrivals)
            self._arrivals.clear()
        for cursor in arrivals:
            self._table.add(cursor)
            cursor.feed.attach(self, BrokerAndInitialOffset(self.key.broker, cursor.position))
            self._has_orders = True
        if arrivals:
            shown = ", ".join(
                f"{cursor.feed.topic_partition}@{cursor.position}" for cursor in arrivals[:SHOWN_MAX]
            )
            more = f" and {len(arrivals) - SHOWN_MAX} more" if len(arrivals) > SHOWN_MAX else ""
            log.info("%s reads %s%s", self.key, shown, more)

    def _attend(self, connection: Connection) -> None:
        """Do what the readers have ordered, and look up offsets, while no other request is in flight."""
        if self._has_orders:
            self._has_orders = False
            self._table.attend()
        questions = self._table.questions()
        if not questions:
            return
        isolation_level = int(self._config.isolation_level)
        self._table.take_offsets(ask_offsets(connection, questions, isolation_level=isolation_level))

    def _hand_on(self) -> None:
        departed = self._table.take_departed()
        if departed:
            self._give_up(departed)

    def _give_up(self, departed: list[Departure]) -> None:
        for departure in departed:
            departure.cursor.feed.attach(NOBODY)
        self._search.take_in(departed)

    def _rests(self, plan: FetchPlan) -> bool:
        """Wait for something to do; False if there were no partitions for LINGER_MS."""
        now_ms = self._clock.now_ms()
        if len(self._table):
            self._idle_since_ms = now_ms
            wait_ms = None if plan.wake_at_ms is None else plan.wake_at_ms - now_ms
        else:
            wait_ms = self._idle_since_ms + LINGER_MS - now_ms
            if wait_ms <= 0 and self._is_over():
                return False
        self._wake.wait(None if wait_ms is None else max(0.0, wait_ms) / 1000)
        self._wake.clear()
        return True

    def _is_over(self) -> bool:
        """Refuse partitions from now on, unless some have just joined."""
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
        else:
            self._lose(cursors, reason)
        self._interruption.close()

    def _lose(self, cursors: list[Cursor], reason: Exception | None) -> None:
        """The broker or this thread failed: report it, and stop the readers if another try cannot help."""
        if not cursors or reason is None:
            return
        reaction = reaction_about(reason)
        is_fatal = reaction is Reaction.STOP
        log.log(logging.ERROR if is_fatal else logging.WARNING, "%s ends: %s", self.key, reason)
        for cursor in cursors:
            cursor.feed.report(reason, reaction, cursor.position)
            if is_fatal:
                cursor.feed.stop(cursor.feed.generation, reason)
        self._give_up([Departure(cursor, reason) for cursor in cursors])
