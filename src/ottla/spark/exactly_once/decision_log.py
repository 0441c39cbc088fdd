"""The topic with the decisions: one compacted partition, with a key for each named write."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from ottla.admin import Admin, NewTopic
from ottla.client.client_config import CLIENT_PROPERTIES, ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.consumer.partition.replay import replay
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, RequestTimedOut
from ottla.model.property_table import snake
from ottla.model.topic_partition import TopicAndPartition
from ottla.producer import Producer
from ottla.producer.sequences import Identity
from ottla.spark.cluster import SparkCluster
from ottla.spark.exactly_once.decisions import BatchDecision, last_of
from ottla.spark.positions import Topics

log = logging.getLogger(__name__)

CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),  # a log is compacted but for its last segment, and is read as a whole
    "min.cleanable.dirty.ratio": "0.1",
}
OWN_TIMEOUT_MS = 10_000
"""The timeout of the transaction that stores a decision. While it is open, no decision can be read."""
PATIENCE_MS = 60_000.0
LOOK_MS = 20.0
COMMITTED = 1
_CLIENT_NAMES = {name for row in CLIENT_PROPERTIES for name in row.names}


def client_settings(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of a producer that every client has."""
    return {name: value for name, value in properties.items() if snake(name) in _CLIENT_NAMES}


class DecisionLog:
    """The decisions in a topic of the cluster that is written to. Holds nothing open."""

    def __init__(self, topic: str, properties: Mapping[str, object]) -> None:
        self._partition = TopicAndPartition(topic, 0)
        self._properties = dict(properties)
        self._client = client_settings(properties)

    def last(self, name: str) -> BatchDecision | None:
        """Return the last decision under a name; creates the topic if there is none.

        The transactions of the name's own producer must have ended: it has just been taken over.
        """
        end = self._stable_end()
        if not end:
            return None
        records = replay(
            self._partition.topic,
            [self._partition.partition],
            until=end,
            properties={**self._client, "isolation.level": "read_committed"},
        )
        with records:
            table = records.to_table()
        return last_of(name, zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))

    def record(
        self, transactional_id: str, resumed: Identity, name: str, decision: BatchDecision | None
    ) -> Identity:
        """Store a decision, None to forget the name; return the identity for the next call.

        Raises ProducerFenced if another producer has taken over the transactional id since `resumed`; then
        nothing is stored. Any other error means that it is not known whether it is stored.
        """
        settings = {
            **self._properties,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": OWN_TIMEOUT_MS,
            "linger.ms": 0,
        }
        with Producer(settings) as producer:
            producer.init_transactions(resumed)
            with producer.transaction():
                value = None if decision is None else decision.encode()
                producer.send(self._partition.topic, value, key=name, partition=self._partition.partition)
            return producer.init_transactions()

    def _stable_end(self) -> int:
        """Return the end of the log, when every transaction before it has ended. Raises RequestTimedOut."""
        config = replace(ClientConfig.from_properties(self._client), allow_auto_create_topics=False)
        deadline = Deadline(MONOTONIC, PATIENCE_MS)
        with (
            closing(SparkCluster(config)) as cluster,
            closing(SparkCluster(config, isolation_level=COMMITTED)) as committed,
        ):
            if not cluster.partitions(Topics((self._partition.topic,))):
                self._make()
            end = cluster.latest([self._partition])[self._partition]
            while end and committed.latest([self._partition])[self._partition] < end:
                if deadline.passed:
                    raise RequestTimedOut(
                        f"{self._partition}: another query's decision has been open for {PATIENCE_MS:.0f} ms"
                    )
                MONOTONIC.pause(LOOK_MS)
        return end

    def _make(self) -> None:
        with Admin(self._client) as admin:
            try:
                admin.create_topics(NewTopic(self._partition.topic, 1, configs=CONFIGS))
            except KafkaError as error:
                if error.code != Code.TOPIC_ALREADY_EXISTS:
                    raise
        log.info("topic %s is made, for decisions of writes with exactlyOnce", self._partition.topic)
