"""One thread for each broker: takes batches from the dispatcher, sends them, reports the answers.

A broker that is slow to connect, write to or answer delays no other broker. The thread sleeps in one place,
where answers and its waker end the sleep.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
from collections import deque
from typing import NamedTuple

from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
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
from ottla.producer.produce_requests import REGISTERED_VERSION_MAX, VERSION_MAX, produce_request
from ottla.producer.producer_state import ProducerParts
from ottla.wire.api.produce import ProduceRequest, ProduceResponse

LOG = logging.getLogger(__name__)


class Waker:
    """Wakes a thread that sleeps in its selector. At most one byte is unread."""

    def __init__(self) -> None:
        self._woken, self._waker = socket.socketpair()
        self._woken.settimeout(0)
        self._waker.settimeout(0)
        self._is_due = False

    def fileno(self) -> int:
        """The descriptor that the selector watches."""
        return self._woken.fileno()

    def wake(self) -> None:
        """Wake the thread; from any thread."""
        if not self._is_due:
            self._is_due = True
            with contextlib.suppress(OSError):  # the socket is closed
                self._waker.send(b"\0")

    def clear(self) -> None:
        """Called by the thread that was woken, before it looks for work."""
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(64)
        self._is_due = False  # last: a wake from here on sends another byte

    def close(self) -> None:
        """Called by the thread at its end."""
        self._is_due = True
        self._woken.close()
        self._waker.close()


class _InFlight(NamedTuple):
    batches: list[ProducerBatch]
    deadline_ms: float


class BrokerSender:
    """The thread of one broker."""

    def __init__(
        self, broker_id: int, state: ProducerParts, dispatcher: Dispatcher, metadata: ClusterMetadata
    ) -> None:
        client, clock = state.config.client, state.clock
        self.broker_id = broker_id
        self._dispatcher = dispatcher
        self._metadata = metadata
        self._config = state.config
        self._clock = clock
        self._interruption = Interruption()
        self._pool = ConnectionPool(client, metadata, clock=clock, interruption=self._interruption)
        self._waker = Waker()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._connection: Connection | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._is_away = False  # the broker could not be reached the last time
        self._not_before_ms = 0.0  # throttled, or waiting to connect again
        name = f"{client.client_id}-to-{broker_id}"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    # ---- from other threads

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def wake(self) -> None:
        """There may be something to send."""
        self._waker.wake()

    def stop(self) -> None:
        """End soon, whatever is in flight."""
        self._interruption.interrupt()
        self._waker.wake()

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._dispatcher.is_stopped:
                self._turn()
        except Exception as error:
            if not self._dispatcher.is_stopped:
                LOG.exception("the sender to broker %d failed", self.broker_id)
                self._dispatcher.fail(OttlaError(f"the sender to broker {self.broker_id} failed: {error!r}"))
        finally:
            self._pool.close()
            self._interruption.close()
            self._selector.close()
            self._waker.close()

    def _turn(self) -> None:
        now_ms = self._clock.now_ms()
        ready_at = self._ready_at()
        if ready_at <= now_ms:
            self._send_next(now_ms)
            return
        # Answers that came while a request was written do not wake the selector.
        if self._receive():
            return
        wake_at = ready_at
        if self._in_flight:
            wake_at = min(wake_at, self._in_flight[0].deadline_ms)
        timeout = None if wake_at == float("inf") else max(0.0, wake_at - now_ms) / 1000.0
        self._selector.select(timeout)
        self._waker.clear()
        self._receive()

    def _ready_at(self) -> float:
        """Return when there is something that may be sent."""
        if len(self._in_flight) >= self._config.max_in_flight:
            return float("inf")
        return max(self._dispatcher.ready_at(self.broker_id), self._not_before_ms)

    # ---- sending

    def _send_next(self, now_ms: float) -> None:
        connection = self._connected()
        if connection is None:
            return
        batches = self._dispatcher.next_batches(self.broker_id, now_ms)
        if batches:
            self._send(connection, batches)

    def _connected(self) -> Connection | None:
        """Return the connection; opens it if there is none.

        Returns None, and sets a pause, if it cannot be opened.
        """
        if self._connection is not None and self._connection.is_open:
            return self._connection
        pause_ms = self._pool.pause_left_ms(self.broker_id)
        if pause_ms > 0:
            self._not_before_ms = self._clock.now_ms() + pause_ms
            return None
        try:
            self._connection = self._pool.to(self.broker_id)
        except AuthenticationFailed as error:
            self._dispatcher.abandon(error)
            return None
        except (ConnectionLost, RequestTimedOut, RemoteProtocolError, KafkaError) as error:
            LOG.log(logging.DEBUG if self._is_away else logging.INFO, "broker %d: %s", self.broker_id, error)
            self._is_away = True
            backoff_ms = self._pool.pause_left_ms(self.broker_id) or self._config.client.reconnect_backoff_ms
            self._not_before_ms = self._clock.now_ms() + backoff_ms
            self._dispatcher.unreachable(self.broker_id, error)
            return None
        self._is_away = False
        self._selector.register(self._connection, selectors.EVENT_READ)
        return self._connection

    def _send(self, connection: Connection, batches: list[ProducerBatch]) -> None:
        config = self._config
        carried = batches
        try:
            version_max = VERSION_MAX if self._dispatcher.adds_partitions else REGISTERED_VERSION_MAX
            version = connection.version_for(ProduceRequest.API, at_most=version_max)
            request, carried, unsendable = produce_request(batches, version, config)
            if unsendable:
                self._dispatcher.unsendable(unsendable)
            if not carried:
                return
            deadline_ms = self._clock.now_ms() + config.client.request_timeout_ms
            sent = connection.send(request, version=version)
        except LocalProtocolError as error:
            self._dispatcher.unsendable([(batch, error) for batch in carried])
        except (ConnectionLost, RequestTimedOut, RemoteProtocolError) as error:
            self._in_flight.append(_InFlight(carried, 0.0))
            self._disconnected(error)
        else:
            if sent.expects_response:
                self._in_flight.append(_InFlight(carried, deadline_ms))
            else:
                answers = [BatchAnswer(batch, AcceptedBatch()) for batch in carried]
                self._dispatcher.answered(self.broker_id, answers, self._clock.now_ms())

    # ---- receiving

    def _receive(self) -> bool:
        """Process every answer that has arrived; returns whether there was any.

        Disconnects if an answer is overdue.
        """
        connection = self._connection
        if connection is None:
            return False
        came = False
        try:
            while (answer := connection.poll()) is not None:
                assert isinstance(answer.message, ProduceResponse)
                self._answered(self._in_flight.popleft().batches, answer.message)
                came = True
        except (ConnectionLost, RemoteProtocolError) as error:
            self._disconnected(error)
            return True
        if self._in_flight and self._in_flight[0].deadline_ms <= self._clock.now_ms():
            self._disconnected(
                RequestTimedOut(
                    f"broker {self.broker_id} has not answered a Produce request within"
                    f" request.timeout.ms={self._config.client.request_timeout_ms}"
                )
            )
            return True
        return came

    def _disconnected(self, error: OttlaError) -> None:
        """Report the broken connection: what is in flight is sent again, in order."""
        if self._dispatcher.is_stopped:
            return
        LOG.info("broker %d: %s", self.broker_id, error)
        if self._connection is not None:
            fileno = self._connection.fileno()
            for key in list(self._selector.get_map().values()):
                if key.fileobj is self._connection:
                    self._selector.unregister(key.fd if fileno < 0 else self._connection)
            self._connection = None
        self._pool.drop(self.broker_id)
        lost = [batch for request in self._in_flight for batch in request.batches]
        self._in_flight.clear()
        self._dispatcher.disconnected(self.broker_id, lost, error, self._clock.now_ms())

    def _answered(self, batches: list[ProducerBatch], response: ProduceResponse) -> None:
        """Report the broker's answer for each batch."""
        now_ms = self._clock.now_ms()
        if response.throttle_time_ms:
            self._not_before_ms = now_ms + response.throttle_time_ms
        answers = batch_answers(self.broker_id, batches, response)
        if self._dispatcher.answered(self.broker_id, answers, now_ms):
            hints, nodes = leader_hints(response)
            if hints:
                self._dispatcher.leaders_changed(self._metadata.learn(hints, nodes))
