"""One thread a broker: takes batches from the core, sends them, and tells what came of them.

Connecting, writing and waiting for one broker keeps no other broker waiting. The thread sleeps in one place,
for answers and for its waker.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.model.cluster_view import BrokerNode, LeaderHint
from ottla.model.error_codes import Code
from ottla.model.errors import (
    AuthenticationFailed,
    ConnectionLost,
    KafkaError,
    LocalProtocolError,
    OttlaError,
    RemoteProtocolError,
    RequestTimedOut,
)
from ottla.producer.accumulator import Place
from ottla.producer.batches import Batch, Outcome
from ottla.producer.dispatcher import Dispatcher
from ottla.producer.produce_requests import VERSION_MAX, produce_request
from ottla.producer.verdicts import Verdict
from ottla.wire.api.produce import ProducePartitionResponse, ProduceRequest, ProduceResponse

LOG = logging.getLogger(__name__)


class Waker:
    """Wakes a thread out of its selector. One byte is under way at most."""

    def __init__(self) -> None:
        self._woken, self._waker = socket.socketpair()
        self._woken.settimeout(0)
        self._waker.settimeout(0)
        self._is_due = False

    def fileno(self) -> int:
        """What the selector watches."""
        return self._woken.fileno()

    def wake(self) -> None:
        """From any thread."""
        if not self._is_due:
            self._is_due = True
            with contextlib.suppress(OSError):  # it is closed
                self._waker.send(b"\0")

    def clear(self) -> None:
        """By the thread that was woken, before it looks at what there is to do."""
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(64)
        self._is_due = False  # last: who wakes from here on is seen anyway, or sends another byte

    def close(self) -> None:
        """By the thread that was woken, at its end."""
        self._is_due = True
        self._woken.close()
        self._waker.close()


class _InFlight(NamedTuple):
    batches: list[Batch]
    deadline_ms: float


class BrokerSender:
    """The thread of one broker."""

    def __init__(self, broker_id: int, dispatcher: Dispatcher, metadata: ClusterMetadata) -> None:
        self.broker_id = broker_id
        self._dispatcher = dispatcher
        self._metadata = metadata
        self._config = dispatcher.config
        self._clock = dispatcher.clock
        self._interruption = Interruption()
        self._pool = ConnectionPool(
            self._config.client, metadata, clock=self._clock, interruption=self._interruption
        )
        self._waker = Waker()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._connection: Connection | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._is_away = False  # it could not be reached the last time
        self._not_before_ms = 0.0  # throttled, or waiting to connect again
        self._thread = threading.Thread(
            target=self._run, name=f"{self._config.client.client_id}-to-{broker_id}", daemon=True
        )

    # ---- from other threads

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something to send."""
        self._waker.wake()

    def stop(self) -> None:
        """End now, whatever is in flight."""
        self._interruption.interrupt()
        self._waker.wake()

    def join(self, timeout: float | None) -> None:
        """Wait for the end."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

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
        # Answers may have come while a request was written, when the selector does not tell of them.
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
        """When there is something to send, and it may be sent."""
        if len(self._in_flight) >= self._config.max_in_flight:
            return float("inf")
        with self._dispatcher.lock:
            ready_at = self._dispatcher.core.ready_at(self.broker_id)
        return max(ready_at, self._not_before_ms)

    # ---- sending

    def _send_next(self, now_ms: float) -> None:
        connection = self._connected()
        if connection is None:
            return
        with self._dispatcher.lock:
            batches = self._dispatcher.core.take(self.broker_id, now_ms)
            wants_identity = not batches and self._dispatcher.core.wants_identity
        if batches:
            self._send(connection, batches)
        elif wants_identity:
            self._dispatcher.ask()

    def _connected(self) -> Connection | None:
        """The connection, opened if need be; None, and a pause, if it cannot be."""
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
            self._dispatcher.troubled(self.broker_id, error)
            return None
        self._is_away = False
        self._selector.register(self._connection, selectors.EVENT_READ)
        return self._connection

    def _send(self, connection: Connection, batches: list[Batch]) -> None:
        config = self._config
        carried = batches
        try:
            version = connection.version_for(ProduceRequest.API, at_most=VERSION_MAX)
            request, carried, unsendable = produce_request(
                batches, version, config.acks, config.client.request_timeout_ms, config.codec, config.level
            )
            self._fail(unsendable)
            if not carried:
                return
            deadline_ms = self._clock.now_ms() + config.client.request_timeout_ms
            sent = connection.send(request, version=version)
        except LocalProtocolError as error:
            self._fail([(batch, error) for batch in carried])
        except (ConnectionLost, RequestTimedOut, RemoteProtocolError) as error:
            self._in_flight.append(_InFlight(carried, 0.0))
            self._disconnected(error)
        else:
            if sent.expects_response:
                self._in_flight.append(_InFlight(carried, deadline_ms))
            else:
                with self._dispatcher.lock:
                    core = self._dispatcher.core
                    outcomes = [one for batch in carried for one in core.stored(batch, -1, -1)]
                self._dispatcher.settle(outcomes)

    def _fail(self, refused: Sequence[tuple[Batch, OttlaError]]) -> None:
        if refused:
            with self._dispatcher.lock:
                core = self._dispatcher.core
                outcomes = [one for batch, error in refused for one in core.unsendable(batch, error)]
            self._dispatcher.settle(outcomes)

    # ---- receiving

    def _receive(self) -> bool:
        """Take every answer that is there; whether anything came. An overdue one costs the connection."""
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
        """What is in flight comes again, in order."""
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
        with self._dispatcher.lock:
            outcomes = self._dispatcher.core.lost(lost, error, self._clock.now_ms())
        self._dispatcher.settle(outcomes)
        self._dispatcher.troubled(self.broker_id, error)

    def _answered(self, batches: list[Batch], response: ProduceResponse) -> None:
        """Tell the core what a broker says of each batch."""
        now_ms = self._clock.now_ms()
        if response.throttle_time_ms:
            self._not_before_ms = now_ms + response.throttle_time_ms
        told = {
            (topic.name, one.index): one for topic in response.responses for one in topic.partition_responses
        }
        outcomes: list[Outcome] = []
        misdirected: list[Place] = []
        with self._dispatcher.lock:
            self._dispatcher.core.troubles.pop(self.broker_id, None)
            for batch in batches:
                verdict, settled = self._judged(batch, told.get((batch.topic, batch.partition)), now_ms)
                outcomes += settled
                if verdict is Verdict.MOVE:
                    misdirected.append((batch.topic, batch.partition))
                elif verdict is Verdict.NEW_IDENTITY:
                    self._dispatcher.changed.notify_all()
        self._dispatcher.settle(outcomes)
        if misdirected:
            self._dispatcher.moved(misdirected)
            self._take_hints(response)

    def _judged(
        self, batch: Batch, told: ProducePartitionResponse | None, now_ms: float
    ) -> tuple[Verdict, list[Outcome]]:
        core = self._dispatcher.core
        if told is None:
            error = RemoteProtocolError(f"broker {self.broker_id} says nothing of {batch}")
            return Verdict.RETRY, core.lost([batch], error, now_ms)
        if told.error_code in {Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER}:
            return Verdict.STORED, core.stored(batch, told.base_offset, told.log_append_time_ms)
        context = f"{batch}, broker {self.broker_id}"
        if told.error_message:
            context = f"{context} ({told.error_message})"
        return core.refused(batch, KafkaError(told.error_code, context), now_ms)

    def _take_hints(self, response: ProduceResponse) -> None:
        """Newer brokers tell who leads instead (KIP-951): no need to ask."""
        hints = [
            LeaderHint(topic.name, one.index, one.current_leader.leader_id, one.current_leader.leader_epoch)
            for topic in response.responses
            for one in topic.partition_responses
            if one.current_leader.leader_id >= 0
        ]
        if hints:
            nodes = [
                BrokerNode(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints
            ]
            self._dispatcher.learn(self._metadata.learn(hints, nodes))
