"""Asks brokers for metadata, one after the other until one answers, and makes a ClusterView of the answer.

Belongs to whoever refreshes at the time; it has one connection, which it keeps. Whom it asks: the broker of
that connection, then the brokers that are known, then the bootstrap addresses; those that failed last come
last.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterator
from types import MappingProxyType

from ottla.client.clock import Clock
from ottla.client.config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.retry import Action, action_for
from ottla.client.version_memory import VersionMemory
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

_NONE_IS_ALL_SINCE = 1  # before, an empty list asks for all topics
_CREATION_IS_ASKED_SINCE = 4

_NEXT_ONE = (ConnectionLost, RequestTimedOut, RemoteProtocolError, AuthenticationFailed, KafkaError)


class MetadataSource:
    """One thread at a time."""

    def __init__(
        self,
        config: ClientConfig,
        clock: Clock,
        chance: random.Random,
        memory: VersionMemory,
        interruption: Interruption,
    ) -> None:
        self.bootstrap = config.bootstrap
        """May be replaced, by any thread."""
        self._config = config
        self._clock = clock
        self._chance = chance
        self._memory = memory
        self._interruption = interruption
        self._connection: Connection | None = None
        self._failed_at_ms: dict[Address, float] = {}

    def ask(self, topics: Collection[str] | None, known: ClusterView, reason: str) -> ClusterView:
        """What the first broker that answers tells of these topics; None is of all.

        Raises AuthenticationFailed if any broker refused us, else BrokerUnreachable, if none answers.
        """
        failures: list[OttlaError] = []
        for address, broker_id in self._candidates(known):
            try:
                view = self._answer(self._connected(address, broker_id), topics)
            except _NEXT_ONE as error:
                self._interruption.check()
                if _is_final(error):
                    raise
                self.close()
                # One line for each time that it goes away, not for each time that we ask.
                level = logging.DEBUG if address in self._failed_at_ms else logging.INFO
                self._failed_at_ms[address] = self._clock.now_ms()
                log.log(level, "no metadata (%s) from %s: %s", reason, address, error)
                failures.append(error)
            else:
                self._failed_at_ms.pop(address, None)
                return view
        for failure in failures:
            if isinstance(failure, AuthenticationFailed):
                raise failure
        why = "; ".join(f"{failure}" for failure in failures)
        raise BrokerUnreachable(f"none of {len(failures)} brokers tells about the cluster: {why}")

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _candidates(self, known: ClusterView) -> Iterator[tuple[Address, int | None]]:
        found: dict[Address, int | None] = {}
        current = self._connection
        if current is not None and current.is_usable():
            found[current.address] = current.broker_id
        for group in (
            [(node.address, node.broker_id) for node in known.brokers.values()],
            [(address, None) for address in self.bootstrap],
        ):
            self._chance.shuffle(group)
            group.sort(key=lambda one: self._failed_at_ms.get(one[0], 0.0))
            for address, broker_id in group:
                found.setdefault(address, broker_id)
        # A list: what is known does not change while it is gone through.
        return iter(list(found.items()))

    def _connected(self, address: Address, broker_id: int | None) -> Connection:
        current = self._connection
        if current is not None and current.address == address and current.is_usable():
            return current
        self.close()
        self._connection = Connection.open(
            address,
            self._config,
            broker_id=broker_id,
            interruption=self._interruption,
            clock=self._clock,
            memory=self._memory,
        )
        return self._connection

    def _answer(self, connection: Connection, topics: Collection[str] | None) -> ClusterView:
        version = connection.version_for(MetadataRequest.API)
        request = MetadataRequest(topics=_asked(topics, version))
        if version >= _CREATION_IS_ASKED_SINCE:
            request.allow_auto_topic_creation = self._config.allow_auto_create_topics
        answer = connection.call(request, version=version)
        if answer.error_code:
            raise KafkaError(answer.error_code, f"{connection.address}: Metadata")
        if not answer.brokers:
            raise ConnectionLost(f"{connection.address} knows of no brokers yet: it is only starting")
        is_whole = topics is None or (not topics and version < _NONE_IS_ALL_SINCE)
        return view_of(answer, self._clock.now_ms(), is_whole=is_whole)


def _is_final(error: OttlaError) -> bool:
    """Whether other brokers would say the same. One that asks us to bootstrap anew is only to be left."""
    if not isinstance(error, KafkaError) or error.code == Code.REBOOTSTRAP_REQUIRED:
        return False
    return action_for(error.code) is Action.FAIL


def _asked(topics: Collection[str] | None, version: int) -> list[MetadataTopic] | None:
    if topics is None:
        return None if version >= _NONE_IS_ALL_SINCE else []
    return [MetadataTopic(name=name) for name in topics]


def view_of(answer: MetadataResponse, now_ms: float, *, is_whole: bool) -> ClusterView:
    """The answer as a view."""
    brokers = {one.node_id: BrokerNode(one.node_id, one.host, one.port, one.rack) for one in answer.brokers}
    topics = {topic.name: _topic(topic, topic.name) for topic in answer.topics if topic.name is not None}
    return ClusterView(
        brokers=MappingProxyType(brokers),
        topics=MappingProxyType(topics),
        controller_id=answer.controller_id,
        cluster_id=answer.cluster_id,
        fetched_at_ms=now_ms,
        is_whole=is_whole,
    )


def _topic(told: MetadataTopicResponse, name: str) -> TopicView:
    partitions = [
        PartitionView(
            one.partition_index,
            one.leader_id,
            one.leader_epoch,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            one.error_code,
        )
        for one in told.partitions
    ]
    partitions.sort(key=lambda one: one.index)
    return TopicView(name, told.topic_id, tuple(partitions), told.error_code, told.is_internal)
