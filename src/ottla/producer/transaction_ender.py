"""Ends transactions of other producers: those that were handed over, and those that were abandoned."""

from __future__ import annotations

import random
from collections.abc import Mapping

from ottla.client.clock import MONOTONIC
from ottla.client.conversation import completed
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.model.closing import Closing
from ottla.model.property_table import merged
from ottla.producer.prepared_transaction import PreparedTransaction
from ottla.producer.producer_config import ProducerConfig
from ottla.producer.sequences import Identity
from ottla.producer.transaction_link import TransactionLink


class TransactionEnder(Closing):
    """For one thread. `properties` are those of a Producer. Each call waits up to max.block.ms.

    >>> from ottla import EmbeddedBroker, Producer
    >>> from ottla.producer import TransactionEnder
    >>> with EmbeddedBroker() as broker:
    ...     with Producer(bootstrap_servers=broker.bootstrap, transactional_id="billing-1") as producer:
    ...         producer.begin()
    ...         _ = producer.send("orders", "tea")
    ...         prepared = producer.hand_over()
    ...     with TransactionEnder(bootstrap_servers=broker.bootstrap) as ender:
    ...         ender.end(prepared, is_commit=True)
    """

    def __init__(self, properties: Mapping[str, object] | None = None, **settings: object) -> None:
        config = ProducerConfig.from_properties(merged(properties, settings))
        self._metadata = ClusterMetadata(config.client, MONOTONIC)
        self._pool = ConnectionPool(config.client, self._metadata)
        self._link = TransactionLink(config, self._pool.peers, MONOTONIC, random.Random())

    def end(self, prepared: PreparedTransaction, *, is_commit: bool) -> None:
        """Commit or abort. May be repeated with the same outcome, unless the id has moved on.

        Raises ProducerFenced or TransactionAborted if the transaction has ended otherwise, or its id has
        moved on; and what connections raise, then the call may be repeated.
        """
        self._link.transactional_id = prepared.transactional_id
        self._link.is_implicit = prepared.is_implicit
        identity = Identity(prepared.producer_id, prepared.epoch)
        completed(self._link.end(identity, self._link.deadline(), is_commit=is_commit))

    def take_over(self, transactional_id: str, resumed: Identity | None = None) -> Identity:
        """Abort the open transaction of the id, refuse its producer from now on; return the next identity.

        With `resumed` only if nobody has taken over since. Raises as `Producer.init_transactions`.
        """
        self._link.transactional_id = transactional_id
        return completed(self._link.init(resumed, self._link.deadline()))

    def close(self) -> None:
        """Close the connections. May be called twice."""
        self._pool.close()
        self._metadata.close()
