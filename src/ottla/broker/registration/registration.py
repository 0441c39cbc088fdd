"""ZooKeeperRegistration: the thread that keeps the brokers of a process registered.

    registration = await ZooKeeperRegistration.start(cluster)     # its nodes are up, and now registered
    ...
    await registration.stop()                                     # the session ends: they are gone at once

    loop: owns the brokers ── flags ──▶ thread `ottla-zookeeper`: owns the session, waits for its answers
              ▲                                      │
              └── views and orders, one at a time ───┘

ZooKeeper's answers are waited for on this thread only, so the brokers serve on while it is away. When it is
back, everything is registered anew, and what has changed on either side is brought into agreement.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Self, TypeVar

from ottla.broker.cluster import Cluster
from ottla.broker.registration.broker_nodes import Conflict
from ottla.broker.registration.flags import Flags
from ottla.broker.registration.offsets import OffsetsOfVersion0
from ottla.broker.registration.orders import Order, carry_out
from ottla.broker.registration.registrar import INTERRUPTED, Registrar
from ottla.broker.registration.view import RegisteredView, cluster_view
from ottla.broker.storage.partition import Partition
from ottla.model.errors import ConfigError
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.session import SessionState, ZooKeeperSession
from ottla.zookeeper.zookeeper_errors import NodeError, SessionClosed

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

TICK_MS = 2000
"""ZooKeeper's default: a session ends up to one tick after its timeout."""

RACE_PAUSE_S = 0.05
CONFLICT_PAUSE_S = 1.0
TIDY_PAUSE_S = 60.0
STOP_S = 5.0
LOOP_CHECK_S = 1.0


class ZooKeeperRegistration:
    """Made by `start`. `offsets` serves OffsetCommit and OffsetFetch of version 0."""

    def __init__(self, cluster: Cluster, session: ZooKeeperSession) -> None:
        self._cluster = cluster
        self._session = session
        self._flags = Flags()
        self._started: Future[None] = Future()
        self._ended = asyncio.Event()
        self._registrar = Registrar(
            session, self, self._flags, cluster.store.cluster_id, cluster.runtime.now_ms, time.monotonic
        )
        self._last_warning: str | None = None
        self._tidied_at = time.monotonic()
        self.offsets = OffsetsOfVersion0(session, cluster.store, cluster.runtime.loop)

    @classmethod
    async def start(cls, cluster: Cluster) -> Self:
        """Register the nodes that are up. Raises ConfigError or ZooKeeperError; nothing is left then."""
        config = cluster.store.config
        if not config.zookeeper_connect:
            raise ConfigError("zookeeper.connect is not set")
        timeout_ms = config.zookeeper_session_timeout_ms
        settings = KazooSettings(
            config.zookeeper_connect, timeout_ms, config.zookeeper_connection_timeout_ms or timeout_ms
        )
        registration = cls(cluster, KazooZooKeeperSession(settings))
        registration._flags.raise_brokers()
        cluster.leaders.leader_listeners.append(registration._leader_changed)
        cluster.store.topic_listeners.append(registration._flags.raise_topic)
        cluster.leaders.broker_listeners.append(registration._flags.raise_brokers)
        threading.Thread(target=registration._run, name="ottla-zookeeper", daemon=True).start()
        try:
            await asyncio.wrap_future(registration._started)
        except BaseException:
            await registration.stop()
            raise
        return registration

    async def stop(self) -> None:
        """End the session, which removes the brokers from ZooKeeper; the topics stay.

        A server that hangs is not waited for: the thread ends by itself when the session does.
        """
        self._cluster.leaders.leader_listeners.remove(self._leader_changed)
        self._cluster.store.topic_listeners.remove(self._flags.raise_topic)
        self._cluster.leaders.broker_listeners.remove(self._flags.raise_brokers)
        self._flags.stop()
        self.offsets.close()
        try:
            await asyncio.wait_for(self._ended.wait(), STOP_S)
        except TimeoutError:
            log.warning("ZooKeeper does not answer: the brokers are registered there until the session ends")

    def _leader_changed(self, partition: Partition, _leader_before: int) -> None:
        self._flags.raise_topic(partition.topic)

    # --- the brokers, as the thread sees them

    def view(self, names: set[str] | None) -> RegisteredView:
        """See Brokers."""
        return self._on_loop(lambda: cluster_view(self._cluster, names))

    def carry_out(self, order: Order) -> None:
        """See Brokers."""
        self._on_loop(lambda: carry_out(self._cluster, order))

    def _on_loop(self, function: Callable[[], _Result]) -> _Result:
        result: Future[_Result] = Future()

        def run() -> None:
            try:
                result.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised in the calling thread
                result.set_exception(error)

        self._cluster.runtime.loop.call_soon_threadsafe(run)
        while True:
            try:
                return result.result(LOOP_CHECK_S)
            except TimeoutError:
                if result.done():
                    raise
                if self._flags.is_stopping:
                    raise SessionClosed("the broker has stopped") from None

    # --- the thread

    def _run(self) -> None:
        self._session.add_listener(self._state_changed)
        try:
            self._session.connect()
            self._register()
        except BaseException as error:  # noqa: BLE001 - raised by start()
            self._started.set_exception(error)
        else:
            self._started.set_result(None)
            self._serve()
        finally:
            self._session.close()
            with suppress(RuntimeError):  # a loop that did not wait for us is closed
                self._cluster.runtime.loop.call_soon_threadsafe(self._ended.set)

    def _state_changed(self, state: SessionState) -> None:
        log.info("the ZooKeeper session is %s", state.value)
        self._flags.raise_session()

    def _register(self) -> None:
        """Register for the first time. Waits until the nodes of a session from before a crash are gone."""
        end = time.monotonic() + (self._session.session_timeout_ms + TICK_MS) / 1000
        while not self._flags.is_stopping:
            try:
                self._registrar.work()
                return
            except (Conflict, NodeError, *INTERRUPTED) as error:
                left = end - time.monotonic()
                if left <= 0:
                    raise
                pause_s = RACE_PAUSE_S if isinstance(error, NodeError) else CONFLICT_PAUSE_S
                self._flags.wait(min(left, pause_s))

    def _serve(self) -> None:
        pause_s = TIDY_PAUSE_S
        while True:
            self._flags.wait(pause_s)
            if self._flags.is_stopping:
                return
            pause_s = self._turn()

    def _turn(self) -> float:
        """Do what is due. Returns how long to wait for the next flag, in seconds."""
        if time.monotonic() - self._tidied_at > TIDY_PAUSE_S:
            self._tidied_at = time.monotonic()
            self._registrar.tidy()
        try:
            self._registrar.work()
        except INTERRUPTED as error:
            self._warn(f"ZooKeeper is away, the brokers serve on: {error}")
            return CONFLICT_PAUSE_S
        except NodeError:
            return RACE_PAUSE_S
        except Conflict as error:
            self._warn(f"not registered: {error}")
            return CONFLICT_PAUSE_S
        except Exception:
            log.exception("the registration in ZooKeeper failed, and is tried again")
            return TIDY_PAUSE_S
        if self._last_warning is not None:
            self._last_warning = None
            log.warning("ZooKeeper is back, and the brokers are registered")
        return TIDY_PAUSE_S

    def _warn(self, text: str) -> None:
        """Log a warning once for each failure, not for each retry."""
        if self._last_warning is None:
            log.warning("%s", text)
        self._last_warning = text
