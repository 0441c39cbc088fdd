"""Which brokers are asked for metadata, in which order and for how long, and what their answers mean.

The order of brokers: the one of the open connection, then known brokers, then the bootstrap addresses; those
that failed recently come last. The time is divided among them: one that is silent must not use up the time
of the others. Opens no connection and waits for nothing.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Collection, Generator
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from ottla.client.client_config import CANONICAL_NAMES, ClientConfig
from ottla.client.clock import Clock, Deadline
from ottla.client.reactions import Action, Call, action_for
from ottla.model.address import Address
from ottla.model.cluster_view import BrokerNode, ClusterView, PartitionView, TopicView
from ottla.model.error_codes import Code
from ottla.model.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ConnectionLost,
    KafkaError,
    OttlaError,
    RemoteProtocolError,
    RequestTimedOut,
)
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse, MetadataTopic, MetadataTopicResponse

log = logging.getLogger(__name__)

_NONE_IS_ALL_SINCE = 1  # in version 0 an empty list requests all topics
_AUTO_CREATION_SINCE = 4

_SILENCES = (
    2  # of a peer before it is given up (`version_discovery`): each broker gets at least the time for that
)

TRY_NEXT_BROKER = (ConnectionLost, RequestTimedOut, RemoteProtocolError, AuthenticationFailed, KafkaError)


class MetadataTry(NamedTuple):
    """Ask this broker, until the deadline."""

    address: Address
    broker_id: int | None
    deadline: Deadline


Search = Generator[MetadataTry, ClusterView | OttlaError, ClusterView]


class MetadataSearch:
    """Remembers which addresses have failed."""

    def __init__(self, config: ClientConfig, clock: Clock, chance: random.Random) -> None:
        self.bootstrap = config.bootstrap
        """May be replaced by any thread."""
        self.has_aliases = config.dns_lookup == CANONICAL_NAMES
        """Whether the bootstrap addresses have to be replaced by their canonical names before the search."""
        self._config = config
        self._clock = clock
        self._chance = chance
        self._failed_at_ms: dict[Address, float] = {}

    def call_by_names(self, names: tuple[Address, ...]) -> None:
        """Use these names of the bootstrap servers."""
        self.bootstrap, self.has_aliases = names, False

    def asking(
        self,
        known: ClusterView,
        current: tuple[Address, int | None] | None,
        reason: str,
        deadline: Deadline,
    ) -> Search:
        """Yields one broker after the other, and is sent its answer or its error. Returns the first answer.

        `current` is the broker of the open connection. If no broker answers, raises AuthenticationFailed if
        any broker refused us, else BrokerUnreachable.
        """
        failures: list[OttlaError] = []
        candidates = self._candidates(known, current)
        for number, (address, broker_id) in enumerate(candidates):
            if failures and deadline.passed:
                break
            patience = self._patience(deadline, len(candidates) - number)
            outcome = yield MetadataTry(address, broker_id, patience)
            if isinstance(outcome, ClusterView):
                self._failed_at_ms.pop(address, None)
                return outcome
            if _is_final(outcome):
                raise outcome
            # One line each time that a broker goes away, not for each request.
            level = logging.DEBUG if address in self._failed_at_ms else logging.INFO
            self._failed_at_ms[address] = self._clock.now_ms()
            log.log(level, "no metadata (%s) from %s: %s", reason, address, outcome)
            failures.append(outcome)
        for failure in failures:
            if isinstance(failure, AuthenticationFailed):
                raise failure
        # The bootstrap addresses may have changed by now.
        self.has_aliases = self._config.dns_lookup == CANONICAL_NAMES
        why = "; ".join(f"{failure}" for failure in failures)
        unasked = len(candidates) - len(failures)
        if unasked:
            why = f"{why}; {unasked} more were not asked in {deadline.timeout_ms:.0f} ms"
        nobody = "no broker" if len(failures) == 1 else f"none of {len(failures)} brokers"
        raise BrokerUnreachable(f"{nobody} describes the cluster: {why}")

    def _patience(self, deadline: Deadline, count: int) -> Deadline:
        """Return the deadline for the next of `count` brokers."""
        left_ms = deadline.left_ms()
        share_ms = math.inf if left_ms is None else left_ms / count
        return deadline.for_try(max(share_ms, _SILENCES * self._config.discovery_timeout_ms))

    def _candidates(
        self, known: ClusterView, current: tuple[Address, int | None] | None
    ) -> list[tuple[Address, int | None]]:
        candidates: dict[Address, int | None] = {}
        if current is not None:
            candidates[current[0]] = current[1]
        for group in (
            [(node.address, node.broker_id) for node in known.brokers.values()],
            [(address, None) for address in self.bootstrap],
        ):
            self._chance.shuffle(group)
            group.sort(key=lambda candidate: self._failed_at_ms.get(candidate[0], 0.0))
            for address, broker_id in group:
                candidates.setdefault(address, broker_id)
        return list(candidates.items())

    # --- one broker

    def request(self, topics: Collection[str] | None, version: int) -> MetadataRequest:
        """Return the request for these topics; with `topics=None` for all."""
        if self._asks_all(topics, version):
            topics = None
        request = MetadataRequest(topics=_requested(topics, version))
        if version >= _AUTO_CREATION_SINCE:
            request.allow_auto_topic_creation = self._config.allow_auto_create_topics
        return request

    def view(
        self, response: MetadataResponse, topics: Collection[str] | None, version: int, address: Address
    ) -> ClusterView:
        """Return the answer to `request` as a view.

        Raises KafkaError, or ConnectionLost if the broker is still starting.
        """
        if response.error_code:
            raise KafkaError(response.error_code, f"{address}: Metadata")
        if not response.brokers:
            raise ConnectionLost(f"{address} knows no brokers yet: it is still starting")
        all_requested = self._asks_all(topics, version)
        is_whole = topics is None or all_requested or (not topics and version < _NONE_IS_ALL_SINCE)
        view = view_of(response, self._clock.now_ms(), is_whole=is_whole)
        return _only(topics, view) if all_requested and topics is not None else view

    def _asks_all(self, topics: Collection[str] | None, version: int) -> bool:
        """Whether all topics are requested instead, because the broker would create the named ones."""
        return bool(topics) and version < _AUTO_CREATION_SINCE and not self._config.allow_auto_create_topics


def _is_final(error: OttlaError) -> bool:
    """Whether other brokers would answer the same. REBOOTSTRAP_REQUIRED only means to try another broker."""
    if not isinstance(error, KafkaError) or error.code == Code.REBOOTSTRAP_REQUIRED:
        return False
    return action_for(error.code, Call.METADATA) is Action.FAIL


def _requested(topics: Collection[str] | None, version: int) -> list[MetadataTopic] | None:
    if topics is None:
        return None if version >= _NONE_IS_ALL_SINCE else []
    return [MetadataTopic(name=name) for name in topics]


def _only(topics: Collection[str], view: ClusterView) -> ClusterView:
    """Return the part of a complete view that a request for these topics would have returned."""
    topics_in_view = {
        name: view.topics.get(name) or TopicView(name, error=Code.UNKNOWN_TOPIC_OR_PARTITION)
        for name in topics
    }
    return replace(view, topics=MappingProxyType(topics_in_view), is_whole=False)


def view_of(response: MetadataResponse, now_ms: float, *, is_whole: bool) -> ClusterView:
    """Return the response as a view."""
    brokers = {
        broker.node_id: BrokerNode(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in response.brokers
    }
    topics = {topic.name: _topic(topic, topic.name) for topic in response.topics if topic.name is not None}
    return ClusterView(
        brokers=MappingProxyType(brokers),
        topics=MappingProxyType(topics),
        controller_id=response.controller_id,
        cluster_id=response.cluster_id,
        fetched_at_ms=now_ms,
        is_whole=is_whole,
    )


def _topic(response: MetadataTopicResponse, name: str) -> TopicView:
    partitions = [
        PartitionView(
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            partition.error_code,
        )
        for partition in response.partitions
    ]
    partitions.sort(key=lambda partition: partition.index)
    return TopicView(name, response.topic_id, tuple(partitions), response.error_code, response.is_internal)
