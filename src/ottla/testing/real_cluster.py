"""A real Kafka cluster instead of the embedded broker: `pytest --kafka-bootstrap HOST:PORT`.

It creates topics, remembers them, and deletes them at the end. A test that needs what only the embedded
broker can do (faults, stopping brokers) is skipped. Without TLS and SASL.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import pytest

from ottla.admin import Admin, NewTopic
from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.model.error_codes import Code
from ottla.model.errors import BrokerUnreachable, ConfigError, KafkaError, OttlaError, Unsupported
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse, MetadataTopic

log = logging.getLogger(__name__)

_LEADERS_S, _PAUSE_S = 30.0, 0.05


class RealCluster:
    """Has the methods of EmbeddedBroker. Raises ConfigError if no broker answers at `bootstrap`."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._created: dict[str, None] = {}
        try:
            self._admin = Admin(bootstrap_servers=bootstrap)
        except ConfigError as error:
            raise ConfigError(f"--kafka-bootstrap: {error}") from None
        try:
            self._admin.describe_cluster()
        except BrokerUnreachable as error:
            self._admin.close()
            raise ConfigError(f"--kafka-bootstrap {bootstrap}: no broker answers ({error})") from None

    def __repr__(self) -> str:
        return f"<RealCluster at {self.bootstrap}>"

    # --- as EmbeddedBroker

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait for its leaders. Raises KafkaError, e.g. 36 if it exists.

        Without `replication_factor` it is the cluster's default, or 1 for brokers before 2.4.
        """
        try:
            self._admin.create_topics(NewTopic(name, partitions, replication_factor, configs=config or {}))
        except Unsupported:
            if replication_factor is not None:
                raise
            self._admin.create_topics(NewTopic(name, partitions, 1, configs=config or {}))
        self._created[name] = None
        self._wait_for_all_brokers(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KafkaError 3 if there is none."""
        self._created.pop(name, None)
        self._admin.delete_topics(name)

    @property
    def is_running(self) -> bool:
        """Always true: nothing here stops the cluster."""
        return True

    def heal(self) -> None:
        """Do nothing: there are no faults to end."""

    def clear_faults(self) -> None:
        """Do nothing: there are no faults."""

    def close(self) -> None:
        """Delete the topics that were created here and still exist."""
        for name in list(self._created):
            try:
                self.delete_topic(name)
            except OttlaError as error:
                log.warning("topic %r of a test stays on %s: %s", name, self.bootstrap, error)
        self._admin.close()

    # --- what only the embedded broker can do

    def fail(self, *_: Any, **__: Any) -> NoReturn:
        """Skip the test: only the embedded broker has faults."""
        pytest.skip("needs the embedded broker")

    delay = drop = stop_broker = start_broker = move_leader = start = stop = fail

    @property
    def data_dir(self) -> NoReturn:
        """Skip the test: only the embedded broker has a known data directory."""
        pytest.skip("needs the embedded broker")

    # --- waiting

    def _wait_for_all_brokers(self, name: str, partitions: int) -> None:
        """Wait until every broker knows the leaders. Admin asks one broker, but clients may ask any."""
        deadline = time.monotonic() + _LEADERS_S
        while not all(_has_leaders(response, partitions) for response in self._metadata(name)):
            if time.monotonic() > deadline:
                raise KafkaError(Code.LEADER_NOT_AVAILABLE, f"topic {name!r} after {_LEADERS_S:.0f} s")
            time.sleep(_PAUSE_S)

    def _metadata(self, name: str) -> Iterator[MetadataResponse]:
        request = MetadataRequest(topics=[MetadataTopic(name=name)], allow_auto_topic_creation=False)
        config = ClientConfig.from_properties({"bootstrap.servers": self.bootstrap})
        for broker in self._admin.describe_cluster().brokers:
            with Connection.open(broker.address, config) as connection:
                yield connection.call(request)


def _has_leaders(response: MetadataResponse, partitions: int) -> bool:
    known = response.topics[0].partitions
    return len(known) == partitions and all(partition.leader_id >= 0 for partition in known)
