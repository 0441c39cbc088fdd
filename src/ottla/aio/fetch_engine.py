"""LoopFetchEngine: partitions in, chunks of Arrow columns out, driven by one event loop.

One task finds leaders. For each (broker, fetcher id) another task sends fetches. The same classes decide as
for threads: `Leaderless`, `FetchRounds`, `PartitionTable`. `Decoders` says where answers are decoded.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable
from contextlib import suppress
from typing import cast

from ottla.aio.cluster import LoopMetadata
from ottla.aio.connection import LoopConnection
from ottla.aio.decoding import Decoders, Decoding
from ottla.aio.waiting import LoopCondition, Tasks, is_set_within
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC
from ottla.client.lookup_calls import ask_offsets
from ottla.fetching.cursor import Cursor, Departure
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.feed_interface import BY_RESET_POLICY
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_rounds import FetchRounds
from ottla.fetching.inbox import Inbox
from ottla.fetching.leaderless import Leaderless, leaders_to_ask
from ottla.fetching.partition_feeds import PartitionFeeds
from ottla.fetching.partition_info import BrokerAndFetcherId
from ottla.fetching.request_plan import FetchPlan, ReceivedRecords
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.client_connection import ReceivedResponse

log = logging.getLogger(__name__)


class LoopInbox(Inbox):
    """The inbox of a reader on an event loop."""

    def __init__(self) -> None:
        self.loop_changed = LoopCondition()
        super().__init__(self.loop_changed)

    def outside_condition(self) -> LoopCondition:
        """Return the inbox's own condition: feeds are waited for together with the inbox."""
        return self.loop_changed

    async def until_news(self, timeout_ms: float | None) -> bool:
        """Wait for something to take, `wake` or `close`; False after `timeout_ms`. Takes nothing."""
        seconds = None if timeout_ms is None else timeout_ms / 1000
        return await self.loop_changed.until(self.has_reason, seconds)


class LoopFetchEngine(PartitionFeeds):
    """Reads partitions from their leaders. Starts no task before the first `add`."""

    def __init__(
        self, client_config: ClientConfig, config: FetchConfig, metadata: LoopMetadata, *, name: str = "ottla"
    ) -> None:
        super().__init__(client_config, config, MONOTONIC, random.Random())
        self._client_config = client_config
        self._metadata = metadata
        self._name = name
        self._leaderless = Leaderless(
            config.num_consumer_fetchers, self._backoff, MONOTONIC.now_ms, self._chance
        )
        self._arrivals: list[Departure | Cursor] = []
        self._has_orders = False
        self._wake = asyncio.Event()
        self._fetchers: dict[BrokerAndFetcherId, LoopFetcher] = {}
        self._tasks = Tasks()
        self._finder: asyncio.Task[None] | None = None
        self.decoders = Decoders(name)

    @property
    def is_running(self) -> bool:
        """Whether it has tasks: from the first `add` to `close`."""
        return self._finder is not None and not self._finder.done()

    def add(
        self, topic_partition: TopicAndPartition, offset: int = BY_RESET_POLICY, *, inbox: Inbox | None = None
    ) -> PartitionFeed:
        """Read a partition from an offset on, or from LATEST, EARLIEST or BY_RESET_POLICY.

        Raises ConfigError if the partition is being read here already, or the engine is closed.
        """
        feed = self._open_feed(topic_partition, offset, inbox or LoopInbox())
        if self._finder is None:
            self._finder = self._tasks.start(self._find_leaders(), f"{self._name}-leader-finder")
        self.take_in([Cursor(feed)])
        return feed

    def take_in(self, departures: Iterable[Departure | Cursor]) -> None:
        """Find a fetcher for these partitions."""
        self._arrivals.extend(departures)
        if self._arrivals:
            self._wake.set()

    def room_was_made(self) -> None:
        """Do nothing: partitions without a leader are not fetched."""

    def orders_changed(self) -> None:
        """Note that a reader made a seek, skipped, retried or closed its feed."""
        self._has_orders = True
        self._wake.set()

    # --- leaders

    async def _find_leaders(self) -> None:
        while True:
            self._wake.clear()
            arrivals, self._arrivals = self._arrivals, []
            self._leaderless.add(arrivals, self)
            if self._has_orders:
                self._has_orders = False
                self._leaderless.follow_orders()
            due = self._leaderless.take_due()
            if due:
                await self._find(due)
            next_ms = self._leaderless.next_at_ms()
            left_s = None if next_ms is None else max(0.0, next_ms - MONOTONIC.now_ms()) / 1000
            await is_set_within(self._wake, left_s)

    async def _find(self, cursors: list[Cursor]) -> None:
        try:
            view = self._metadata.view
            topics = leaders_to_ask(cursors, view)
            if topics:
                view = await self._metadata.refresh(topics, reason="partitions without a leader")
        except Exception as error:
            if not isinstance(error, OttlaError):
                log.exception("the search for leaders failed")
            self._leaderless.retry_later([(cursor, error) for cursor in cursors])
            return
        for key, members in self._leaderless.assigned(cursors, view).items():
            fetcher = self._fetchers.get(key)
            if fetcher is None or not fetcher.join(members):
                table = self._new_table(scans_once=False)
                rounds = FetchRounds(key, table, self._config, MONOTONIC.now_ms)
                fetcher = self._fetchers[key] = LoopFetcher(key, rounds, self)
                fetcher.join(members)
                self._tasks.start(fetcher.run(), f"{self._name}-fetcher-{key.broker.broker_id}")

    # --- for fetchers

    async def connect(self, key: BrokerAndFetcherId) -> LoopConnection:
        """Open a connection for a fetcher."""
        return await LoopConnection.open(
            key.broker.address,
            self._client_config,
            broker_id=key.broker.broker_id,
            allocate=self._memory.allocate,
            memory=self._metadata.memory,
            errors=self._metadata.errors,
        )

    async def look_up(self, connection: LoopConnection, rounds: FetchRounds) -> None:
        """Look up offsets, while no other request is in flight."""
        questions = rounds.questions()
        if questions:
            isolation_level = int(self._config.isolation_level)
            rounds.table.take_offsets(await ask_offsets(connection, questions, isolation_level))

    def learn(self, rounds: FetchRounds, response: FetchResponse) -> None:
        """Use the leaders that a response names."""
        if rounds.table.hints:
            self._metadata.learn(*rounds.take_hints(response))

    @property
    def request_timeout_ms(self) -> float:
        """How long a broker may take, beyond the time that it may hold an answer back."""
        return self._client_config.request_timeout_ms

    async def close(self) -> None:
        """Close all feeds and end all tasks now. May be called twice."""
        for feed in self._close_intake():
            feed.close()
        await self._tasks.cancel()
        self.decoders.close()


class LoopFetcher:
    """Fetches the partitions that a broker leads for one fetcher id, as FetchRounds says.

    It ends after a cancellation, a lost connection, or LINGER_MS without partitions.
    """

    def __init__(self, key: BrokerAndFetcherId, rounds: FetchRounds, engine: LoopFetchEngine) -> None:
        self._key = key
        self._rounds = rounds
        self._engine = engine
        self._arrivals: list[Cursor] = []
        self._has_ended = False
        self._wake = asyncio.Event()
        self._due: asyncio.Future[ReceivedResponse] | None = None

    def join(self, cursors: Iterable[Cursor]) -> bool:
        """Fetch these partitions too, from the next request on; False if the fetcher has ended."""
        if self._has_ended:
            return False
        self._arrivals.extend(cursors)
        self._wake.set()
        return True

    def room_was_made(self) -> None:
        """Note that a reader has taken a chunk."""
        self._wake.set()

    def orders_changed(self) -> None:
        """Note that a reader paused, resumed, made a seek or closed its feed."""
        self._rounds.has_orders = True
        self._wake.set()

    async def run(self) -> None:
        """Fetch until the end; then the partitions go back to the engine."""
        reason: Exception | None = None
        connection: LoopConnection | None = None
        try:
            connection = await self._engine.connect(self._key)
            await self._serve(connection)
        except OttlaError as error:
            reason = error
        except Exception as error:
            log.exception("%s failed", self._key)
            reason = error
        finally:
            self._has_ended = True
            self._engine.take_in(self._rounds.take_departed())
            cursors = [*self._rounds.table.clear(), *self._arrivals]
            self._engine.take_in(self._rounds.lost(cursors, reason))
            if connection is not None:
                self._say_farewell(connection)
                await connection.close()

    def _say_farewell(self, connection: LoopConnection) -> None:
        """End the fetch session, if the connection still works, without waiting for the answer."""
        request = self._rounds.farewell()
        if request is not None:
            with suppress(OttlaError):
                connection.send(request)

    async def _serve(self, connection: LoopConnection) -> None:
        rounds = self._rounds
        while True:
            received = await self._receive(connection)
            arrivals, self._arrivals = self._arrivals, []
            rounds.welcome(arrivals, self)
            await self._engine.look_up(connection, rounds)
            version = connection.version_for(FetchRequest.API)
            plan = rounds.plan(version)
            if plan.requests:
                request, at_most = rounds.request(plan, version)
                await connection.unthrottled()
                self._due = connection.send(request, at_most=at_most, kept_ms=plan.max_wait_ms)
            await self._deliver(received)
            rounds.table.settle()
            self._engine.take_in(rounds.take_departed())
            if not plan.requests and not received and not await self._rests(plan):
                return
            received = []  # their memory is used for the next answer

    async def _receive(self, connection: LoopConnection) -> list[ReceivedRecords]:
        due, self._due, plan = self._due, None, self._rounds.in_flight
        if due is None or plan is None:
            return []
        answer = await connection.answer(due, plan.max_wait_ms + self._engine.request_timeout_ms)
        response = cast(FetchResponse, answer.message)
        received = self._rounds.received(response)
        self._engine.learn(self._rounds, response)
        return received

    async def _deliver(self, received: list[ReceivedRecords]) -> None:
        """Decode the records and queue them."""
        table = self._rounds.table
        wanted = [(records, decode) for records in received if (decode := table.decoding(records))]
        decodings = [
            Decoding(records.request.cursor.feed.topic_partition, len(records.answer.records or b""), decode)
            for records, decode in wanted
        ]
        decoded = await self._engine.decoders.decoded(decodings)
        for (records, _), collected in zip(wanted, decoded, strict=True):
            table.queue(records, collected)

    async def _rests(self, plan: FetchPlan) -> bool:
        """Wait for something to do; False if there were no partitions for LINGER_MS."""
        wait_ms = self._rounds.rest_ms(plan)
        if wait_ms is not None and wait_ms <= 0 and not len(self._rounds.table) and not self._arrivals:
            return False
        await is_set_within(self._wake, None if wait_ms is None else max(0.0, wait_ms) / 1000)
        self._wake.clear()
        return True
