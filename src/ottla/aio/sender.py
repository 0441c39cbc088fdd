"""LoopSender: the task that sends to one broker."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, cast

from ottla.aio.cluster import LoopMetadata
from ottla.aio.connection import LoopConnection
from ottla.aio.pool import LoopPool
from ottla.aio.waiting import DONE_HERE_BYTES, Tasks, is_set_within
from ottla.client.clock import MONOTONIC
from ottla.model.errors import (
    AuthenticationFailed,
    ConnectionLost,
    KafkaError,
    LocalProtocolError,
    OttlaError,
    RemoteProtocolError,
    RequestTimedOut,
)
from ottla.producer.batches import ProducerBatch
from ottla.producer.dispatcher import AcceptedBatch, BatchAnswer, Dispatcher
from ottla.producer.produce_answers import batch_answers, leader_hints
from ottla.producer.produce_requests import VERSION_MAX, produce_request
from ottla.producer.producer_config import ProducerConfig
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.client_connection import ReceivedResponse

LOG = logging.getLogger(__name__)


class SenderResources(NamedTuple):
    """What all senders of a producer share."""

    config: ProducerConfig
    metadata: LoopMetadata
    tasks: Tasks
    encoders: ThreadPoolExecutor


class _InFlight(NamedTuple):
    batches: list[ProducerBatch]
    due: asyncio.Future[ReceivedResponse]
    deadline_ms: float


class LoopSender:
    """Takes batches for one broker from the dispatcher, sends them, reports the answers."""

    def __init__(self, broker_id: int, dispatcher: Dispatcher, shared: SenderResources) -> None:
        self._broker_id = broker_id
        self._shared = shared
        self._dispatcher = dispatcher
        self._config = shared.config
        self._pool = LoopPool(shared.config.client, shared.metadata)
        self._wake = asyncio.Event()
        self._connection: LoopConnection | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._not_before_ms = 0.0  # throttled, or waiting to connect again

    def start(self) -> None:
        """Start the task."""
        self._shared.tasks.start(self._run(), f"ottla-to-{self._broker_id}")

    def wake(self) -> None:
        """Look for something to send."""
        self._wake.set()

    def stop(self) -> None:
        """Do nothing: the engine cancels the task."""

    async def _run(self) -> None:
        try:
            while True:
                await self._turn()
        except Exception as error:
            LOG.exception("the sender to broker %d failed", self._broker_id)
            self._dispatcher.fail(OttlaError(f"the sender to broker {self._broker_id} failed: {error!r}"))
        finally:
            await self._pool.close()

    async def _turn(self) -> None:
        self._wake.clear()
        await self._receive()
        now_ms = MONOTONIC.now_ms()
        ready_at = float("inf")
        if len(self._in_flight) < self._config.max_in_flight:
            ready_at = max(self._dispatcher.ready_at(self._broker_id), self._not_before_ms)
        if ready_at <= now_ms:
            await self._send_next(now_ms)
            return
        wake_at = min([ready_at, *(request.deadline_ms for request in self._in_flight)])
        await is_set_within(self._wake, None if wake_at == float("inf") else (wake_at - now_ms) / 1000.0)

    # --- sending

    async def _send_next(self, now_ms: float) -> None:
        connection = await self._connected()
        if connection is None:
            return
        batches = self._dispatcher.next_batches(self._broker_id, now_ms)
        if batches:
            await self._send(connection, batches)

    async def _connected(self) -> LoopConnection | None:
        """Return the connection; opens it if there is none.

        Returns None, and sets a pause, if it cannot be opened.
        """
        if self._connection is not None and self._connection.is_open:
            return self._connection
        pause_ms = self._pool.pause_left_ms(self._broker_id)
        if pause_ms > 0:
            self._not_before_ms = MONOTONIC.now_ms() + pause_ms
            return None
        try:
            self._connection = await self._pool.to(self._broker_id)
        except AuthenticationFailed as error:
            self._dispatcher.abandon(error)
            return None
        except (ConnectionLost, RequestTimedOut, RemoteProtocolError, KafkaError) as error:
            backoff_ms = self._pool.pause_left_ms(self._broker_id) or self._config.client.reconnect_backoff_ms
            self._not_before_ms = MONOTONIC.now_ms() + backoff_ms
            self._dispatcher.unreachable(self._broker_id, error)
            return None
        return self._connection

    async def _send(self, connection: LoopConnection, batches: list[ProducerBatch]) -> None:
        carried = batches
        try:
            version = connection.version_for(ProduceRequest.API, at_most=VERSION_MAX)
            make = partial(produce_request, batches, version, self._config)
            if sum(batch.size for batch in batches) <= DONE_HERE_BYTES:
                request, carried, unsendable = make()
            else:
                loop = asyncio.get_running_loop()
                request, carried, unsendable = await loop.run_in_executor(self._shared.encoders, make)
            if unsendable:
                self._dispatcher.unsendable(unsendable)
            if not carried:
                return
            due = connection.send(request, version=version)
        except LocalProtocolError as error:
            self._dispatcher.unsendable([(batch, error) for batch in carried])
        except (ConnectionLost, RemoteProtocolError) as error:
            await self._disconnected(error, carried)
        else:
            if due is None:
                answers = [BatchAnswer(batch, AcceptedBatch()) for batch in carried]
                self._dispatcher.answered(self._broker_id, answers, MONOTONIC.now_ms())
                return
            due.add_done_callback(lambda _: self._wake.set())
            deadline_ms = MONOTONIC.now_ms() + self._config.client.request_timeout_ms
            self._in_flight.append(_InFlight(carried, due, deadline_ms))

    # --- receiving

    async def _receive(self) -> None:
        """Process every answer that has arrived. Disconnects if an answer is overdue."""
        connection = self._connection
        if connection is None:
            return
        try:
            while self._in_flight and self._in_flight[0].due.done():
                answer = connection.taken(self._in_flight[0].due)
                batches = self._in_flight.popleft().batches
                self._answered(batches, cast(ProduceResponse, answer.message))
        except (ConnectionLost, RemoteProtocolError, AuthenticationFailed) as error:
            await self._disconnected(error)
            return
        if self._in_flight and self._in_flight[0].deadline_ms <= MONOTONIC.now_ms():
            await self._disconnected(
                RequestTimedOut(
                    f"broker {self._broker_id} has not answered a Produce request within"
                    f" request.timeout.ms={self._config.client.request_timeout_ms}"
                )
            )

    async def _disconnected(self, error: OttlaError, unsent: list[ProducerBatch] | None = None) -> None:
        """Report the broken connection: what is in flight is sent again, in order."""
        LOG.info("broker %d: %s", self._broker_id, error)
        self._connection = None
        lost = [batch for request in self._in_flight for batch in request.batches] + (unsent or [])
        self._in_flight.clear()
        self._dispatcher.disconnected(self._broker_id, lost, error, MONOTONIC.now_ms())
        await self._pool.drop(self._broker_id)

    def _answered(self, batches: list[ProducerBatch], response: ProduceResponse) -> None:
        """Report the broker's answer for each batch."""
        now_ms = MONOTONIC.now_ms()
        if response.throttle_time_ms:
            self._not_before_ms = now_ms + response.throttle_time_ms
        answers = batch_answers(self._broker_id, batches, response)
        if self._dispatcher.answered(self._broker_id, answers, now_ms):
            hints, nodes = leader_hints(response)
            if hints:
                self._dispatcher.leaders_changed(self._shared.metadata.learn(hints, nodes))
