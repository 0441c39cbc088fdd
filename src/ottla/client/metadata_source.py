"""Asks brokers for metadata, one after the other until one answers, and makes a ClusterView of the response.

Used by one thread at a time, the one that refreshes. It keeps one connection. `metadata_search` decides which
brokers are asked.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

from ottla.client.canonical_names import canonical
from ottla.client.client_config import ClientConfig
from ottla.client.clock import Clock, Deadline
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.metadata_search import TRY_NEXT_BROKER, MetadataSearch
from ottla.client.network_errors import NetworkErrors
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.cluster_view import ClusterView
from ottla.model.errors import OttlaError
from ottla.wire.api.metadata import MetadataRequest


class MetadataSource:
    """To be used by one thread at a time."""

    def __init__(
        self,
        config: ClientConfig,
        clock: Clock,
        chance: random.Random,
        memory: VersionMemory,
        errors: NetworkErrors,
        interruption: Interruption,
    ) -> None:
        self._config = config
        self._clock = clock
        self._memory = memory
        self._errors = errors
        self._interruption = interruption
        self._search = MetadataSearch(config, clock, chance)
        self._connection: Connection | None = None

    def bootstrap_at(self, addresses: Iterable[Address]) -> None:
        """Replace the bootstrap addresses. From any thread."""
        self._search.bootstrap = tuple(addresses)

    def ask(
        self, topics: Collection[str] | None, known: ClusterView, reason: str, deadline: Deadline
    ) -> ClusterView:
        """Return the view of the first broker that answers, with these topics; with `topics=None` with all
        topics.

        Raises as `MetadataSearch.asking`.
        """
        current = self._connection
        is_usable = current is not None and current.is_usable()
        peer = (current.address, current.broker_id) if current is not None and is_usable else None
        if self._search.has_aliases:
            self._search.call_by_names(canonical(self._config.bootstrap))
        search = self._search.asking(known, peer, reason, deadline)
        try:
            chosen = next(search)
            while True:
                outcome: ClusterView | OttlaError
                try:
                    connection = self._connected(*chosen)
                    outcome = self._answer(connection, topics, chosen.deadline)
                except TRY_NEXT_BROKER as error:
                    self._interruption.check()
                    self.close()
                    outcome = error
                chosen = search.send(outcome)
        except StopIteration as end:
            view: ClusterView = end.value
            return view

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self, address: Address, broker_id: int | None, deadline: Deadline) -> Connection:
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
            errors=self._errors,
            deadline=deadline,
        )
        return self._connection

    def _answer(
        self, connection: Connection, topics: Collection[str] | None, deadline: Deadline
    ) -> ClusterView:
        version = connection.version_for(MetadataRequest.API)
        timeout_ms = deadline.capped_ms(self._config.request_timeout_ms)
        request = self._search.request(topics, version)
        response = connection.call(request, version=version, timeout_ms=timeout_ms)
        return self._search.view(response, topics, version, connection.address)
