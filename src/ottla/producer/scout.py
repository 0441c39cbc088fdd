"""The thread that asks brokers about the cluster: topics, leaders, the producer's id.

Nobody else waits for such answers while holding anything up: what lingers, is sent or expires meanwhile has
threads of its own.
"""

from __future__ import annotations

import logging
import random
import threading

from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.retry import Action, Backoff, action_about, action_for
from ottla.model.cluster_view import NO_LEADER, ClusterView
from ottla.model.errors import KafkaError, LocalProtocolError, OttlaError
from ottla.producer.dispatcher import Dispatcher
from ottla.producer.sequences import Identity
from ottla.wire.api.init_producer_id import InitProducerIdRequest

LOG = logging.getLogger(__name__)


class Scout:
    """See the module."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        metadata: ClusterMetadata,
        chance: random.Random,
    ) -> None:
        self._dispatcher = dispatcher
        self._metadata = metadata
        self._chance = chance
        client = dispatcher.config.client
        self._backoff = Backoff(client.retry_backoff_ms, client.retry_backoff_max_ms)
        self._max_age_ms = client.metadata_max_age_ms
        self._is_lost = False  # nobody answered the last time
        self._interruption = Interruption()
        self._pool = ConnectionPool(client, metadata, clock=dispatcher.clock, interruption=self._interruption)
        self._thread = threading.Thread(target=self._run, name=f"{client.client_id}-scout", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """From any thread: give up what it waits for."""
        self._interruption.interrupt()
        self._metadata.interrupt()

    def join(self, timeout: float | None) -> None:
        """Wait for the end."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    # ---- the thread

    def _run(self) -> None:
        failures = 0
        try:
            while self._wait(failures):
                failures = 0 if self._turn() else failures + 1
        except Exception as error:
            if not self._dispatcher.is_stopped:
                LOG.exception("the scout failed")
                failure = OttlaError(f"the producer cannot go on: {error!r}")
                self._dispatcher.fail(failure)
        finally:
            self._pool.close()
            self._interruption.close()

    def _wait(self, failures: int) -> bool:
        """Until there is something to ask, and not too soon after failures; False at the end."""
        dispatcher = self._dispatcher
        now_ms = dispatcher.clock.now_ms()
        not_before_ms = now_ms + self._backoff.pause_ms(failures, self._chance)
        with dispatcher.changed:
            while not dispatcher.is_stopped:
                left_ms = not_before_ms - dispatcher.clock.now_ms()
                if left_ms > 0:
                    dispatcher.changed.wait(left_ms / 1000.0)
                elif self._is_wanted() or not dispatcher.changed.wait(self._max_age_ms / 1000.0):
                    return True
        return False

    def _is_wanted(self) -> bool:
        dispatcher = self._dispatcher
        return bool(
            dispatcher.wanted
            or dispatcher.stale
            or dispatcher.core.leaderless
            or (dispatcher.core.wants_identity and not dispatcher.core.is_empty)
        )

    def _turn(self) -> bool:
        """Ask for what is wanted; whether all of it is known now."""
        dispatcher = self._dispatcher
        with dispatcher.lock:
            is_stale = dispatcher.stale or bool(dispatcher.wanted or dispatcher.core.leaderless)
            topics = {*dispatcher.wanted, *(topic for topic, _ in dispatcher.core.places)}
            dispatcher.stale = False
        try:
            if is_stale:
                view = self._metadata.refresh(topics, reason="the producer needs leaders")
                dispatcher.learn(view)
                self._refuse_topics(view)
            elif not dispatcher.core.wants_identity:
                self._metadata.refresh_if_old()
                dispatcher.learn(self._metadata.view)
            if dispatcher.core.wants_identity and not dispatcher.core.is_empty:
                self._identify()
        except OttlaError as error:
            if dispatcher.is_stopped:
                return False
            self._failed(error)
            with dispatcher.lock:
                dispatcher.stale = dispatcher.stale or is_stale
            return False
        self._is_lost = False
        with dispatcher.lock:
            dispatcher.core.troubles.pop(NO_LEADER, None)
            return not self._is_wanted()

    def _failed(self, error: OttlaError) -> None:
        """What cannot be mended by waiting ends what waits."""
        dispatcher = self._dispatcher
        with dispatcher.lock:
            dispatcher.last_error = dispatcher.core.troubles[NO_LEADER] = error
        LOG.log(logging.DEBUG if self._is_lost else logging.INFO, "the producer's scout: %s", error)
        self._is_lost = True
        if action_about(error) is Action.FAIL:
            dispatcher.abandon(error)
            for topic in list(dispatcher.wanted):
                dispatcher.topic_refused(topic, error)

    def _refuse_topics(self, view: ClusterView) -> None:
        for topic in list(self._dispatcher.wanted):
            told = view.topics.get(topic)
            if told is not None and told.error:
                error = KafkaError(told.error, f"topic {topic!r}")
                self._dispatcher.last_error = error
                if action_for(told.error) is Action.FAIL:
                    self._dispatcher.topic_refused(topic, error)

    # ---- the producer's id

    def _identify(self) -> None:
        connection = self._pool.to_any()
        try:
            version = connection.version_for(InitProducerIdRequest.API)
        except LocalProtocolError as error:
            self._do_without(f"enable.idempotence: {error}")
            return
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = connection.call(request, version=version)
        if answer.error_code:
            failure = KafkaError(answer.error_code, "InitProducerId")
            if action_for(answer.error_code) is not Action.FAIL:
                raise failure
            self._do_without(f"enable.idempotence: {failure}")
            return
        LOG.info("producer id %d, epoch %d", answer.producer_id, answer.producer_epoch)
        dispatcher = self._dispatcher
        with dispatcher.lock:
            dispatcher.core.identity = Identity(answer.producer_id, answer.producer_epoch)
        dispatcher.wake_senders()

    def _do_without(self, why: str) -> None:
        """The brokers have no idempotence: an error if the user demanded it."""
        dispatcher = self._dispatcher
        if dispatcher.config.demands_idempotence:
            refusal = LocalProtocolError(f"{why}. Set enable.idempotence=false to produce without it")
            dispatcher.fail(refusal)
            return
        LOG.info("records may be stored twice after a failure, in order all the same: %s", why)
        with dispatcher.lock:
            dispatcher.core.is_idempotent = False
        dispatcher.wake_senders()
