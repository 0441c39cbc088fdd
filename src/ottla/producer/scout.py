"""The thread that asks brokers about the cluster: topics, leaders, the producer's id.

No other thread waits for these answers: linger, sending and expiry have threads of their own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.network_errors import SHOWN_MAX, topic
from ottla.client.pool import ConnectionPool
from ottla.client.reactions import Action, Call, action_about, action_for
from ottla.client.retry import Backoff
from ottla.model.cluster_view import ClusterView
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, LocalProtocolError, OttlaError
from ottla.producer.dispatcher import Dispatcher, Questions
from ottla.producer.producer_state import ProducerState
from ottla.producer.sequences import Identity
from ottla.wire.api.init_producer_id import InitProducerIdRequest

LOG = logging.getLogger(__name__)

PRODUCER_ID = "the producer id"


class Scout:
    """Asks what `Dispatcher.questions` says whenever `scout_wanted` is set, and gives the answers back.

    `register` tells the transaction coordinator which partitions are to be written.
    """

    def __init__(
        self,
        state: ProducerState,
        dispatcher: Dispatcher,
        metadata: ClusterMetadata,
        register: Callable[[], None],
    ) -> None:
        config, clock = state.config, state.clock
        self._clock = clock
        self._chance = state.chance
        self._dispatcher = dispatcher
        self._topics = state.topics
        self._errors = state.errors
        self._metadata = metadata
        self._register = register
        self._wanted = state.scout_wanted
        self._demands_idempotence = config.demands_idempotence
        self._backoff = Backoff(config.client.retry_backoff_ms, config.client.retry_backoff_max_ms)
        self._max_age_ms = config.client.metadata_max_age_ms
        self._is_lost = False  # no broker answered the last time
        self._interruption = Interruption()
        self._pool = ConnectionPool(config.client, metadata, clock=clock, interruption=self._interruption)
        name = f"{config.client.client_id}-scout"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def stop(self) -> None:
        """End whatever the thread waits for; from any thread, when the dispatcher is stopped."""
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
                LOG.exception("the scout failed")
                self._dispatcher.fail(OttlaError(f"the producer cannot go on: {error!r}"))
        finally:
            self._pool.close()
            self._interruption.close()

    def _wait(self, failures: int) -> bool:
        """Wait until there is something to ask, after failures at least for a while. False at the end."""
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
                self._failed(error)
                if questions.topics is not None:
                    self._dispatcher.leaders_are_stale()
            return False
        self._is_lost = False
        return not self._has_questions()

    def _ask(self, questions: Questions) -> None:
        if questions.topics is not None:
            requested_ms = self._clock.now_ms()
            self._dispatcher.leaders_requested()
            view = self._metadata.refresh(questions.topics, reason="the producer needs leaders")
            self._topics.refreshed(questions.topics, requested_ms, view)
            self._dispatcher.leaders_changed(view)
            self._report_topics(questions.topics, view)
            self._refuse_topics(view)
        elif not questions.is_any:
            self._metadata.refresh_if_old()
            self._dispatcher.leaders_changed(self._metadata.view)
        if self._dispatcher.questions().wants_identity:
            try:
                self._identify()
            except OttlaError as error:
                self._errors.failed(PRODUCER_ID, error)
                raise
            self._errors.answered(PRODUCER_ID)
        if questions.wants_partitions:
            self._register()

    def _failed(self, error: OttlaError) -> None:
        """If waiting does not help, everything that waits fails."""
        LOG.log(logging.DEBUG if self._is_lost else logging.INFO, "the producer's scout: %s", error)
        self._is_lost = True
        if action_about(error, Call.METADATA) is Action.FAIL:
            self._dispatcher.abandon(error)
            for name in self._topics.wanted:
                self._dispatcher.refuse_topic(name, error)

    def _report_topics(self, names: Iterable[str], view: ClusterView) -> None:
        """Note which topics with records to send cannot be written to as a whole, and why."""
        awaited = self._dispatcher.awaited_topics
        for name in names:
            error = _problem(view, name)
            if error is None:
                self._errors.answered(topic(name))
            elif name in awaited:
                self._errors.failed(topic(name), error)
            else:
                self._errors.forget(topic(name))

    def _refuse_topics(self, view: ClusterView) -> None:
        for name in self._topics.wanted:
            described = view.topics.get(name)
            if described is not None and action_for(described.error, Call.METADATA) is Action.FAIL:
                self._dispatcher.refuse_topic(name, KafkaError(described.error, f"topic {name!r}"))

    # ---- the producer's id

    def _identify(self) -> None:
        connection = self._pool.to_any()
        try:
            version = connection.version_for(InitProducerIdRequest.API)
        except LocalProtocolError as error:
            self._go_without_identity(f"enable.idempotence: {error}")
            return
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = connection.call(request, version=version)
        if response.error_code:
            failure = KafkaError(response.error_code, "InitProducerId")
            if action_for(response.error_code, Call.INIT_PRODUCER_ID) is not Action.FAIL:
                raise failure
            self._go_without_identity(f"enable.idempotence: {failure}")
            return
        LOG.info("producer id %d, epoch %d", response.producer_id, response.producer_epoch)
        self._dispatcher.identified(Identity(response.producer_id, response.producer_epoch))

    def _go_without_identity(self, why: str) -> None:
        """The brokers have no idempotence: an error if the user demanded it."""
        if self._demands_idempotence:
            refusal = LocalProtocolError(f"{why}. Set enable.idempotence=false to produce without it")
            self._dispatcher.fail(refusal)
            return
        LOG.info("records may be stored twice after a failure, in order all the same: %s", why)
        self._dispatcher.identified(None)


def _problem(view: ClusterView, name: str) -> KafkaError | None:
    """Why a topic, or some of its partitions, cannot be written to; None if they can."""
    described = view.topics.get(name)
    if described is None:
        return KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
    if described.error:
        return KafkaError(described.error, f"topic {name!r}")
    leaderless = [
        partition.index for partition in described.partitions if view.leader_of(name, partition.index) is None
    ]
    if leaderless or not described.partitions:
        shown = ", ".join(map(str, leaderless[:SHOWN_MAX])) + (", …" if len(leaderless) > SHOWN_MAX else "")
        return KafkaError(Code.LEADER_NOT_AVAILABLE, f"topic {name!r}, partitions {shown or 'none yet'}")
    return None
