"""BrokerFetcher: one thread and one connection for the partitions that a broker leads for one fetcher id.

    receive ──▶ see where each partition goes on ──▶ send the next request ──▶ decode and queue what came

So the broker works on the next answer while this one is decoded, and at most one answer waits unread. The
thread owns its partitions. They come through `join` and go back to `Homes` when the broker does not lead them
or the connection is lost; one that its reader closed is forgotten.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import closing
from typing import Protocol, cast

from ottla.client.clock import Clock
from ottla.client.config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.fetching.config import FetchConfig
from ottla.fetching.cursor import Cursor
from ottla.fetching.errors import Reaction, reaction_about
from ottla.fetching.feed import NOBODY
from ottla.fetching.frame_memory import FrameMemory
from ottla.fetching.offset_lookup import list_offsets_request, offset_answers
from ottla.fetching.partition_table import Delivery, Departure, PartitionTable
from ottla.fetching.places import BrokerAndFetcherId, BrokerAndInitialOffset
from ottla.fetching.request_plan import LIMITED_SINCE, FetchPlan, fetch_request, newest_version
from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import OttlaError
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.list_offsets import ListOffsetsRequest

log = logging.getLogger(__name__)

LINGER_MS = 3_000
"""A fetcher without partitions keeps its connection so long: a rebalance takes them and brings them back."""
ISOLATION_SINCE = 2  # of ListOffsets
SHOWN_MAX = 5


class Homes(Protocol):
    """Finds a broker for partitions that have none."""

    def take_in(self, departures: Iterable[Departure]) -> None:
        """These are not read by anybody now. Does not wait."""


class BrokerFetcher:
    """Started by its maker, ended by `stop`, by a lost connection, or some time after its last partition."""

    def __init__(
        self,
        place: BrokerAndFetcherId,
        table: PartitionTable,
        *,
        client_config: ClientConfig,
        config: FetchConfig,
        metadata: ClusterMetadata,
        memory: FrameMemory,
        homes: Homes,
        clock: Clock,
        name: str,
    ) -> None:
        self.place = place
        self._table = table
        self._client_config = client_config
        self._config = config
        self._metadata = metadata
        self._memory = memory
        self._homes = homes
        self._clock = clock
        self._interruption = Interruption()
        self._lock = threading.Lock()  # guards the next two
        self._arrivals: deque[Cursor] = deque()
        self._has_ended = False
        self._wake = threading.Event()
        self._has_orders = True
        self._in_flight: FetchPlan | None = None
        self._idle_since_ms = clock.now_ms()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    # --- other threads

    def join(self, cursors: Iterable[Cursor]) -> bool:
        """Read these too, from the next request on; False if the fetcher has ended."""
        with self._lock:
            if self._has_ended:
                return False
            self._arrivals.extend(cursors)
        self._wake.set()
        return True

    def room_was_made(self) -> None:
        """A reader took a chunk."""
        self._wake.set()

    def orders_changed(self) -> None:
        """A reader paused, resumed, went elsewhere or left."""
        self._has_orders = True
        self._wake.set()

    def stop(self) -> None:
        """End now, whatever it waits for. Does not wait for the thread."""
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
            log.exception("%s failed", self.place)
            reason = error
        finally:
            self._end(reason)

    def _connect(self) -> Connection:
        return Connection.open(
            self.place.broker.address,
            self._client_config,
            broker_id=self.place.broker.broker_id,
            allocate=self._memory.allocate,
            interruption=self._interruption,
            clock=self._clock,
            memory=self._metadata.memory,
        )

    def _serve(self, connection: Connection) -> None:
        while not self._interruption.is_set:
            plan, is_busy = self._turn(connection)
            if not is_busy and not self._rests(plan):
                return

    def _turn(self, connection: Connection) -> tuple[FetchPlan, bool]:
        """Receive, ask for the next answer, decode this one. What was received is gone after that, so that
        the next answer goes into the same memory, which is in the processor's cache."""
        deliveries = self._receive(connection)
        self._welcome()
        self._attend(connection)
        plan = self._table.plan(is_limited=connection.version_for(FetchRequest.API) >= LIMITED_SINCE)
        if plan.asked:
            self._send(connection, plan)
        for delivery in deliveries:
            self._table.deliver(delivery)
        self._table.settle()
        self._hand_on()
        return plan, bool(plan.asked or deliveries)

    def _send(self, connection: Connection, plan: FetchPlan) -> None:
        at_most = newest_version(asked.cursor for asked in plan.asked.values())
        connection.send(fetch_request(plan, self._config), at_most=at_most)
        self._in_flight = plan

    def _receive(self, connection: Connection) -> list[Delivery]:
        plan = self._in_flight
        if plan is None:
            return []
        answer = connection.receive(plan.max_wait_ms + self._client_config.request_timeout_ms)
        self._in_flight = None
        response = cast(FetchResponse, answer.message)
        deliveries = self._table.note(plan, response)
        if self._table.hints:
            nodes = [BrokerNode(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
            self._metadata.learn(self._table.hints, nodes)
            self._table.hints = []
        return deliveries

    def _welcome(self) -> None:
        """Take in who has joined."""
        with self._lock:
            arrivals = list(self._arrivals)
            self._arrivals.clear()
        for cursor in arrivals:
            self._table.add(cursor)
            cursor.feed.attach(self, BrokerAndInitialOffset(self.place.broker, cursor.position))
            self._has_orders = True
        if arrivals:
            shown = ", ".join(f"{one.feed.topic_partition}@{one.position}" for one in arrivals[:SHOWN_MAX])
            more = f" and {len(arrivals) - SHOWN_MAX} more" if len(arrivals) > SHOWN_MAX else ""
            log.info("%s reads %s%s", self.place, shown, more)

    def _attend(self, connection: Connection) -> None:
        """Do as the readers say, and look up the offsets that this needs, with nothing else in flight."""
        if self._has_orders:
            self._has_orders = False
            self._table.attend()
        questions = self._table.questions()
        if not questions:
            return
        version = connection.version_for(ListOffsetsRequest.API)
        isolation = int(self._config.isolation_level) if version >= ISOLATION_SINCE else 0
        response = connection.call(list_offsets_request(questions, isolation), version=version)
        self._table.found(offset_answers(response))

    def _hand_on(self) -> None:
        departed = self._table.take_departed()
        if departed:
            self._give_up(departed)

    def _give_up(self, departed: list[Departure]) -> None:
        for departure in departed:
            departure.cursor.feed.attach(NOBODY)
        self._homes.take_in(departed)

    def _rests(self, plan: FetchPlan) -> bool:
        """Wait for something to do; False if there has been nothing to read for long."""
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
        """Refuse newcomers from now on, unless one has just come."""
        with self._lock:
            self._has_ended = not self._arrivals
            return self._has_ended

    def _end(self, reason: Exception | None) -> None:
        """Give back what is left, and who was leaving when the connection broke."""
        self._hand_on()
        with self._lock:
            self._has_ended = True
            cursors = [*self._table.clear(), *self._arrivals]
            self._arrivals.clear()
        if self._interruption.is_set:
            log.debug("%s is closed", self.place)
        else:
            self._lose(cursors, reason)
        self._interruption.close()

    def _lose(self, cursors: list[Cursor], reason: Exception | None) -> None:
        """The broker, or this thread, failed: others read on; what another try cannot cure stops readers."""
        if not cursors or reason is None:
            return
        reaction = reaction_about(reason)
        is_fatal = reaction is Reaction.STOP
        log.log(logging.ERROR if is_fatal else logging.WARNING, "%s ends: %s", self.place, reason)
        for cursor in cursors:
            cursor.feed.report(reason, reaction, cursor.position)
            if is_fatal:
                cursor.feed.stop(cursor.feed.generation, reason)
        self._give_up([Departure(cursor, reason) for cursor in cursors])
