"""The thread that asks brokers about the cluster: topics, leaders, the producer's id.

No other thread waits for these answers: linger, sending and expiry have threads of their own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.retry import Backoff
from ottla.model.errors import LocalProtocolError, OttlaError
from ottla.producer.dispatcher import Dispatcher, Questions
from ottla.producer.metadata_answers import MetadataAnswers, identity_request
from ottla.producer.producer_state import ProducerParts
from ottla.wire.api.init_producer_id import InitProducerIdRequest

LOG = logging.getLogger(__name__)


class MetadataThread:
    """Sends the `Dispatcher.questions` whenever `metadata_wanted` is set, and reports the answers.

    `register` tells the transaction coordinator which partitions are to be written.
    """

    def __init__(
        self,
        state: ProducerParts,
        dispatcher: Dispatcher,
        metadata: ClusterMetadata,
        register: Callable[[], None],
    ) -> None:
        config, clock = state.config, state.clock
        self._clock = clock
        self._chance = state.chance
        self._dispatcher = dispatcher
        self._metadata = metadata
        self._register = register
        assert isinstance(state.metadata_wanted, threading.Event)
        self._wanted = state.metadata_wanted
        self._backoff = Backoff(config.client.retry_backoff_ms, config.client.retry_backoff_max_ms)
        self._max_age_ms = config.client.metadata_max_age_ms
        self._answers = MetadataAnswers(state, dispatcher)
        self._interruption = Interruption()
        self._pool = ConnectionPool(config.client, metadata, clock=clock, interruption=self._interruption)
        name = f"{config.client.client_id}-metadata"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def stop(self) -> None:
        """End the thread, whatever it waits for. From any thread, when the dispatcher is stopped."""
        self._interruption.interrupt()
        self._metadata.interrupt()
        self._wanted.set()

    # ---- the thread

    def _run(self) -> None:
        failures = 0
        try:
            while self._wait(failures):
                failures = 0 if self._turn() else failures + 1
        except Exception as error:
            if not self._dispatcher.is_stopped:
                LOG.exception("the metadata thread failed")
                self._dispatcher.fail(OttlaError(f"the producer cannot go on: {error!r}"))
        finally:
            self._pool.close()
            self._interruption.close()

    def _wait(self, failures: int) -> bool:
        """Wait until there is something to ask, and after failures for a pause. Returns False at the end."""
        not_before_ms = self._clock.now_ms() + self._backoff.pause_ms(failures, self._chance)
        while not self._dispatcher.is_stopped:
            left_ms = not_before_ms - self._clock.now_ms()
            self._wanted.clear()
            if left_ms > 0:
                if not self._dispatcher.is_stopped:
                    self._wanted.wait(left_ms / 1000.0)
            elif self._has_questions() or not self._wanted.wait(self._max_age_ms / 1000.0):
                return not self._dispatcher.is_stopped
        return False

    def _has_questions(self) -> bool:
        return self._dispatcher.questions().is_any or self._dispatcher.is_stopped

    def _turn(self) -> bool:
        """Send the questions that are due; return whether everything is known now."""
        questions = self._dispatcher.questions()
        try:
            self._ask(questions)
        except OttlaError as error:
            if not self._dispatcher.is_stopped:
                self._answers.failed(error)
                if questions.topics is not None:
                    self._dispatcher.leaders_are_stale()
            return False
        self._answers.is_lost = False
        return not self._has_questions()

    def _ask(self, questions: Questions) -> None:
        if questions.topics is not None:
            requested_ms = self._clock.now_ms()
            self._dispatcher.leaders_requested()
            view = self._metadata.refresh(questions.topics, reason="the producer needs leaders")
            self._answers.view_came(questions.topics, requested_ms, view)
        elif not questions.is_any:
            self._metadata.refresh_if_old()
            self._dispatcher.leaders_changed(self._metadata.view)
        if self._dispatcher.questions().wants_identity:
            try:
                self._identify()
            except OttlaError as error:
                self._answers.identity_failed(error)
                raise
        if questions.wants_partitions:
            self._register()

    # ---- the producer's id

    def _identify(self) -> None:
        connection = self._pool.to_any()
        try:
            version = connection.version_for(InitProducerIdRequest.API)
        except LocalProtocolError as error:
            self._answers.go_without_identity(f"enable.idempotence: {error}")
            return
        self._answers.identity_came(connection.call(identity_request(), version=version))
