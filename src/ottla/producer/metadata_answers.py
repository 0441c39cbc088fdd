"""What answers about the cluster mean for a producer: topics, leaders, its id. Does not wait."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.client.network_errors import SHOWN_MAX, topic
from ottla.client.reactions import Action, Call, action_about, action_for
from ottla.model.cluster_view import ClusterView
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, LocalProtocolError, OttlaError
from ottla.producer.dispatcher import Dispatcher
from ottla.producer.producer_state import ProducerParts
from ottla.producer.sequences import Identity
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

LOG = logging.getLogger(__name__)

PRODUCER_ID = "the producer id"


class MetadataAnswers:
    """Processes answers, and tells the dispatcher."""

    def __init__(self, state: ProducerParts, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._topics = state.topics
        self._errors = state.errors
        self._demands_idempotence = state.config.demands_idempotence
        self.is_lost = False  # no broker answered the last time

    def view_came(self, topics: frozenset[str], requested_ms: float, view: ClusterView) -> None:
        """Process `view`, the answer to a request for these topics at this time."""
        self._topics.refreshed(topics, requested_ms, view)
        self._dispatcher.leaders_changed(view)
        self._report_topics(topics, view)
        self._refuse_topics(view)

    def failed(self, error: OttlaError) -> None:
        """Note that a request failed. If waiting does not help, everything that waits fails."""
        LOG.log(logging.DEBUG if self.is_lost else logging.INFO, "the producer has no metadata: %s", error)
        self.is_lost = True
        if action_about(error, Call.METADATA) is Action.FAIL:
            self._dispatcher.abandon(error)
            for name in self._topics.wanted:
                self._dispatcher.refuse_topic(name, error)

    def _report_topics(self, names: Iterable[str], view: ClusterView) -> None:
        """Report the topics with records to send that cannot be written to, and why."""
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

    def identity_failed(self, error: OttlaError) -> None:
        """Note that no broker has answered with an id; another try is made."""
        self._errors.failed(PRODUCER_ID, error)

    def identity_came(self, response: InitProducerIdResponse) -> None:
        """Process the answer with the producer's id. Raises KafkaError if it has to be requested again."""
        if response.error_code:
            failure = KafkaError(response.error_code, "InitProducerId")
            if action_for(response.error_code, Call.INIT_PRODUCER_ID) is not Action.FAIL:
                raise failure
            self.go_without_identity(f"enable.idempotence: {failure}")
            return
        LOG.info("producer id %d, epoch %d", response.producer_id, response.producer_epoch)
        self._dispatcher.identified(Identity(response.producer_id, response.producer_epoch))
        self._errors.answered(PRODUCER_ID)

    def go_without_identity(self, why: str) -> None:
        """Send without idempotence, which the brokers do not have: an error if the user demanded it."""
        self._errors.answered(PRODUCER_ID)
        if self._demands_idempotence:
            refusal = LocalProtocolError(f"{why}. Set enable.idempotence=false to produce without it")
            self._dispatcher.fail(refusal)
            return
        LOG.info("records may be stored twice after a failure, in order all the same: %s", why)
        self._dispatcher.identified(None)


def identity_request() -> InitProducerIdRequest:
    """Return the request for the id of an idempotent producer."""
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


def _problem(view: ClusterView, name: str) -> KafkaError | None:
    """Return why a topic, or some of its partitions, cannot be written to; None if they can."""
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
