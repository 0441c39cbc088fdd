"""FetchRounds: one request after the other to one broker, for the partitions that it leads. Pure.

    receive ──▶ see where each partition continues ──▶ send the next request ──▶ decode and queue the records

So the broker works on the next response while this one is decoded, and at most one response waits unread. Its
driver, a thread or a task, repeats `received`, `welcome`, `questions`, `plan`, `request`, and gives the
received records to the table. Partitions that the broker does not lead are given back by `take_departed`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ottla.client.list_offsets import OffsetQuestion
from ottla.fetching.cursor import Cursor, Departure
from ottla.fetching.feed_interface import NO_ATTENDANT, Attendant
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_errors import Reaction, reaction_about
from ottla.fetching.fetch_session import SESSIONS_SINCE, ClientSession
from ottla.fetching.partition_info import BrokerAndFetcherId, BrokerAndInitialOffset
from ottla.fetching.partition_table import PartitionTable
from ottla.fetching.request_plan import (
    LIMITED_SINCE,
    TOPIC_IDS_SINCE,
    FetchPlan,
    ReceivedRecords,
    fetch_request,
    newest_version,
)
from ottla.model.cluster_view import BrokerNode, LeaderHint
from ottla.model.offset_spec import UNKNOWN_OFFSET
from ottla.wire.api.fetch import FetchRequest, FetchResponse

log = logging.getLogger(__name__)

LINGER_MS = 3_000
"""How long a fetcher without partitions keeps its connection: a rebalance often brings them back."""
SHOWN_MAX = 5


class FetchRounds:
    """Belongs to one fetcher. Other threads may set only `has_orders`."""

    def __init__(
        self,
        key: BrokerAndFetcherId,
        table: PartitionTable,
        config: FetchConfig,
        now_ms: Callable[[], float],
    ) -> None:
        self.table = table
        self.has_orders = False
        self.in_flight: FetchPlan | None = None
        self._key = key
        self._config = config
        self._now_ms = now_ms
        self._session = ClientSession()
        self._idle_since_ms = now_ms()

    def welcome(self, arrivals: list[Cursor], attendant: Attendant) -> None:
        """Fetch these partitions too."""
        for cursor in arrivals:
            # In this order: a reader's order comes to the attendant, or is seen when the cursor is added.
            feed = cursor.feed
            is_current = feed.generation == cursor.generation
            begin = cursor.position if is_current else max(feed.start, UNKNOWN_OFFSET)
            feed.attach(attendant, BrokerAndInitialOffset(self._key.broker, begin))
            self.table.add(cursor)
        if arrivals:
            shown = ", ".join(
                f"{cursor.feed.topic_partition}@{cursor.position}" for cursor in arrivals[:SHOWN_MAX]
            )
            more = f" and {len(arrivals) - SHOWN_MAX} more" if len(arrivals) > SHOWN_MAX else ""
            log.info("%s reads %s%s", self._key, shown, more)

    def questions(self) -> list[OffsetQuestion]:
        """Carry out what the readers have ordered. Returns the offsets to look up before the next request."""
        if self.has_orders:
            self.has_orders = False
            self.table.attend()
        return self.table.questions()

    def plan(self, version: int) -> FetchPlan:
        """Plan the next request, to a broker with this version of Fetch."""
        return self.table.plan(is_limited=version >= LIMITED_SINCE)

    def request(self, plan: FetchPlan, version: int) -> tuple[FetchRequest, int | None]:
        """Return the planned request, and the highest version that can carry it.

        It counts as in flight from now on.
        """
        at_most = newest_version(request.cursor for request in plan.requests.values())
        self.in_flight = plan
        if version < SESSIONS_SINCE:
            return fetch_request(plan, self._config), at_most
        uses_ids = at_most is None and version >= TOPIC_IDS_SINCE
        return self._session.request(plan, self._config, uses_ids=uses_ids), at_most

    def received(self, response: FetchResponse) -> list[ReceivedRecords]:
        """Process the response to the request in flight. Returns the records, for
        `PartitionTable.deliver`.
        """
        plan, self.in_flight = self.in_flight, None
        assert plan is not None
        whole = self._session.whole(plan, response)
        return self.table.note(plan, whole) if whole is not None else []

    def take_hints(self, response: FetchResponse) -> tuple[list[LeaderHint], list[BrokerNode]]:
        """Return the leaders that the response names, and their addresses (KIP-951)."""
        hints, self.table.hints = self.table.hints, []
        nodes = [
            BrokerNode(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints
        ]
        return hints, nodes

    def farewell(self) -> FetchRequest | None:
        """Return the last request of a fetcher, which ends the fetch session; None if there is no session.

        Its answer is not needed.
        """
        return self._session.farewell()

    def rest_ms(self, plan: FetchPlan) -> float | None:
        """Return how long there is nothing to do; None: until woken. 0 or less: there are no partitions, so
        end.
        """
        now_ms = self._now_ms()
        if len(self.table):
            self._idle_since_ms = now_ms
            return None if plan.wake_at_ms is None else max(0.0, plan.wake_at_ms - now_ms)
        return self._idle_since_ms + LINGER_MS - now_ms

    # --- partitions that go

    def take_departed(self) -> list[Departure]:
        """Return the partitions that need another broker."""
        return given_up(self.table.take_departed())

    def lost(self, cursors: list[Cursor], reason: Exception | None) -> list[Departure]:
        """Report that the broker or the fetcher failed, and stop the readers if another try cannot help."""
        if not cursors or reason is None:
            return []
        reaction = reaction_about(reason)
        is_fatal = reaction is Reaction.STOP
        log.log(logging.ERROR if is_fatal else logging.WARNING, "%s ends: %s", self._key, reason)
        for cursor in cursors:
            cursor.feed.report(reason, reaction, cursor.position)
            if is_fatal:
                cursor.feed.stop(cursor.feed.generation, reason)
        return given_up([Departure(cursor, reason) for cursor in cursors])


def given_up(departed: Iterable[Departure]) -> list[Departure]:
    """Detach partitions from their fetcher."""
    departures = list(departed)
    for departure in departures:
        departure.cursor.feed.attach(NO_ATTENDANT)
    return departures
