"""A Kafka cluster of yours in the place of the embedded broker: `pytest --kafka-bootstrap HOST:PORT`.

It makes topics over the protocol, remembers them, and deletes them at the end. What only the embedded broker
can do (faults, brokers that stop) skips the test that asks for it. Without TLS and SASL.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import pytest

from ottla.client.config import ClientConfig
from ottla.client.connection import Connection
from ottla.model.address import Address
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.wire.api.create_topics import CreateTopic, CreateTopicConfig, CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopic, DeleteTopicsRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse, MetadataTopic

log = logging.getLogger(__name__)

CLUSTER_DEFAULT = -1
_LEADERS_S, _PAUSE_S = 30.0, 0.05
_DEFAULTS_SINCE = 4  # of CreateTopics: -1 stands for the cluster's default
_TOPICS_SINCE = 6  # of DeleteTopics: topics, not topic_names


class RealCluster:
    """Stands in for EmbeddedBroker. Raises ConfigError if nobody answers at `bootstrap`."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        try:
            self._config = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
        except ConfigError as error:
            raise ConfigError(f"--kafka-bootstrap: {error}") from None
        self._made: dict[str, None] = {}
        with self._any_broker():
            pass

    # --- as EmbeddedBroker

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int = CLUSTER_DEFAULT,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic and wait for its leaders. Raises KafkaError, e.g. 36 if it exists."""
        with self._controller() as client:
            if (
                replication_factor == CLUSTER_DEFAULT
                and client.version_for(CreateTopicsRequest.API) < _DEFAULTS_SINCE
            ):
                replication_factor = 1
            topic = CreateTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                configs=[CreateTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
            )
            made = client.call(CreateTopicsRequest(topics=[topic])).topics[0]
        if made.error_code:
            raise KafkaError(made.error_code, f"topic {name!r}: {made.error_message or 'refused'}")
        self._made[name] = None
        self._await_leaders(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Take a topic away. Raises KafkaError 3 if there is none."""
        self._made.pop(name, None)
        with self._controller() as client:
            if client.version_for(DeleteTopicsRequest.API) >= _TOPICS_SINCE:
                request = DeleteTopicsRequest(topics=[DeleteTopic(name=name)], timeout_ms=30_000)
            else:
                request = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
            error = client.call(request).responses[0].error_code
        if error:
            raise KafkaError(error, f"topic {name!r}")

    @property
    def is_running(self) -> bool:
        """It is not ours to stop."""
        return True

    def heal(self) -> None:
        """There are no faults to end."""

    def clear_faults(self) -> None:
        """There are none."""

    def close(self) -> None:
        """Delete the topics that were made here and are still there."""
        for name in list(self._made):
            try:
                self.delete_topic(name)
            except OttlaError as error:
                log.warning("topic %r of a test stays on %s: %s", name, self.bootstrap, error)

    # --- what only the embedded broker can do: the test is skipped

    def fail(self, *_: Any, **__: Any) -> NoReturn:
        """Skip."""
        _skip()

    delay = drop = stop_broker = start_broker = move_leader = start = stop = fail

    @property
    def data_dir(self) -> NoReturn:
        """Skip."""
        _skip()

    # --- the wire

    def _any_broker(self) -> Connection:
        failures = []
        for address in self._config.bootstrap:
            try:
                return Connection.open(address, self._config)
            except OttlaError as error:
                failures.append(str(error))
        raise ConfigError(f"--kafka-bootstrap {self.bootstrap}: no broker answers ({'; '.join(failures)})")

    def _controller(self) -> Connection:
        """A connection to the broker that does the administration."""
        client = self._any_broker()
        about = client.call(MetadataRequest(topics=[]))
        for broker in about.brokers:
            if broker.node_id == about.controller_id:
                client.close()
                return Connection.open(Address(broker.host, broker.port), self._config)
        return client  # 0.10 and older do not say

    def _await_leaders(self, name: str, partitions: int) -> None:
        """Until every broker tells of every partition's leader: clients may ask any of them."""
        deadline = time.monotonic() + _LEADERS_S
        while not all(_is_led(answer, partitions) for answer in self._told(name)):
            if time.monotonic() > deadline:
                raise KafkaError(Code.LEADER_NOT_AVAILABLE, f"topic {name!r} after {_LEADERS_S:.0f} s")
            time.sleep(_PAUSE_S)

    def _told(self, name: str) -> Iterator[MetadataResponse]:
        request = MetadataRequest(topics=[MetadataTopic(name=name)], allow_auto_topic_creation=False)
        with self._any_broker() as client:
            brokers = client.call(request).brokers
        for broker in brokers:
            with Connection.open(Address(broker.host, broker.port), self._config) as client:
                yield client.call(request)


def _is_led(answer: MetadataResponse, partitions: int) -> bool:
    found = answer.topics[0].partitions
    return len(found) == partitions and all(one.leader_id >= 0 for one in found)


def _skip() -> NoReturn:
    pytest.skip("needs the embedded broker")
