"""SimpleConsumer: one connection to one broker, and Kafka's low-level requests over it.

    with SimpleConsumer("kafka-1", 9092, client_id="billing") as consumer:
        response = consumer.fetch(FetchRequestBuilder().add_fetch("orders", 0, 0, 100_000).build())
        for message, offset in response.message_set("orders", 0): ...

It does not know leaders, positions or group members: that is up to the caller.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from ottla.client.clock import MONOTONIC
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption, acquired
from ottla.client.metadata_search import view_of
from ottla.client.version_memory import VersionMemory
from ottla.consumer.simple.fetch_request import FetchRequest
from ottla.consumer.simple.fetch_response import FetchResponse
from ottla.consumer.simple.offset_calls import (
    LATEST_TIME,
    checked_offsets,
    checked_offsets_before,
    checked_partitions,
    commit,
    offsets_before,
    stored,
)
from ottla.consumer.simple.simple_settings import (
    INT_MAX,
    broker_address,
    checked_number,
    checked_text,
    consumer_config,
)
from ottla.consumer.simple.topic_metadata import TopicMetadata, metadata_request, topics_metadata
from ottla.model.closing import Closing
from ottla.model.errors import (
    ConfigError,
    ConnectionLost,
    KafkaError,
    LocalProtocolError,
    OttlaError,
)
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.property_table import merged
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import OffsetAndMetadata
from ottla.wire.api import fetch as wire
from ottla.wire.api.metadata import MetadataRequest

log = logging.getLogger(__name__)

T = TypeVar("T")


class _Link(Closing):
    """The connection of a SimpleConsumer: a separate object, so that it is closed if the application drops
    the consumer.
    """

    def __init__(self) -> None:
        self.interruption = Interruption()
        self.connection: Connection | None = None
        self.client_id = ""

    def drop(self) -> None:
        """Close the connection; the next call opens another one."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close the connection for good. May be called twice."""
        self.interruption.interrupt()
        self.drop()
        self.interruption.close()


class SimpleConsumer(Closing):
    """One connection to one broker, made at the first call. Threads may share it; calls run one at a time.

        >>> from ottla import FetchRequestBuilder, SimpleConsumer
        >>> with SimpleConsumer("127.0.0.1", 9092) as consumer:
        ...     request = FetchRequestBuilder().add_fetch("orders", 0, 1, 100_000).build()
        ...     for message, offset in consumer.fetch(request).message_set("orders", 0):
        ...         print(offset, message.value)
        1 b'coffee'
        2 b'cake'

    `so_timeout`: milliseconds for connecting, and for each answer; a fetch may take its `max_wait` longer.
    `buffer_size`: the socket's receive buffer in bytes, -1 leaves it to the system. `properties` and
    `settings`: TLS, SASL and the other client settings by Kafka's names, with dots or underscores, and
    `broker_version` for 0.8 and 0.9.

    A call whose connection breaks is repeated once over a new one, as Kafka's does. Calls raise
    BrokerUnreachable, ConnectionLost, RequestTimedOut, AuthenticationFailed, and KafkaError for what a
    broker refuses.
    """

    def __init__(
        self,
        host: str,
        port: int,
        so_timeout: int = 30_000,
        buffer_size: int = 64 * 1024,
        client_id: str = "",
        *,
        properties: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        self._address = broker_address(host, port)
        own = {"so_timeout": so_timeout, "buffer_size": buffer_size, "client_id": client_id}
        self._config = consumer_config(self._address, own | merged(properties, settings))
        self._memory = VersionMemory()
        self._turn = threading.Lock()  # guards what is below
        self._link = link = _Link()
        self._is_closed = False
        self._forgotten = stop_if_forgotten(
            self,
            f"SimpleConsumer of {self._address}",
            link.close,
            is_running=lambda: link.connection is not None,
        )

    @property
    def host(self) -> str:
        """The broker's host."""
        return self._address.host

    @property
    def port(self) -> int:
        """The broker's port."""
        return self._address.port

    # --- messages

    def fetch(self, request: FetchRequest) -> FetchResponse:
        """Fetch from partitions that this broker leads. Errors of single partitions are in the response.

        If a fetch_size is too small for a message, the log and `FetchResponse.remark` say so.
        """
        if not isinstance(request, FetchRequest):
            raise ConfigError(f"{request!r} is not a FetchRequest: build one with FetchRequestBuilder")
        response = self._call(lambda connection: self._fetch(connection, request), request.client_id)
        for topic_partition in request.request_info:
            remark = response.remark(*topic_partition)
            if remark:
                is_stuck = not response.message_set(*topic_partition).valid_bytes
                log.log(logging.WARNING if is_stuck else logging.INFO, "%s", remark)
        return response

    def _fetch(self, connection: Connection, request: FetchRequest) -> FetchResponse:
        api, newest = wire.FetchRequest.API, request.request_version
        try:
            version = connection.version_for(api, at_most=newest)
        except LocalProtocolError as error:
            raise LocalProtocolError(
                f"{self._address}: Fetch with request_version {newest}: {error}"
            ) from error
        timeout_ms = request.max_wait + self._config.request_timeout_ms
        answer = connection.call(request.message(), version=version, timeout_ms=timeout_ms)
        if answer.error_code:
            raise KafkaError(answer.error_code, f"{self._address}: Fetch")
        return FetchResponse(request, answer, version)

    # --- where logs begin and end

    def get_offsets_before(
        self, topic_partition: TopicAndPartition, time: int = LATEST_TIME, max_num_offsets: int = 1
    ) -> tuple[int, ...]:
        """Return offsets of a partition; `time` is LATEST_TIME (-1), EARLIEST_TIME (-2) or ms since 1970.

        Up to Kafka 3.9 the result has up to `max_num_offsets` offsets, newest first: for -1 the end of the
        log and then the first offsets of its segments; for a time, the first offsets of segments that were
        last written before it. Kafka 4 returns at most one: the end, the beginning, or the offset of the
        first message with this timestamp or a later one; none if there is no such message.
        """
        wanted = checked_offsets_before(topic_partition, time, max_num_offsets)
        return self._call(lambda connection: offsets_before(connection, wanted, time, max_num_offsets))

    def topic_metadata(self, *topics: str) -> tuple[TopicMetadata, ...]:
        """Return partitions, leaders, replicas and in-sync replicas of these topics, or of all.

        Unknown topics have an error code. Brokers before 0.11 may create them, if auto-creation is on.
        """
        for topic in topics:
            checked_text("topic", topic)
        return self._call(lambda connection: self._metadata(connection, topics))

    def _metadata(self, connection: Connection, topics: tuple[str, ...]) -> tuple[TopicMetadata, ...]:
        version = connection.version_for(MetadataRequest.API)
        may_create = self._config.allow_auto_create_topics
        answer = connection.call(metadata_request(topics, version, may_create=may_create), version=version)
        if answer.error_code:
            raise KafkaError(answer.error_code, f"{self._address}: Metadata")
        return topics_metadata(view_of(answer, MONOTONIC.now_ms(), is_whole=not topics))

    # --- offsets of groups

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata | int], *, version: int = 1
    ) -> None:
        """Commit the next offsets that a group reads: with version 0 to ZooKeeper, with 1 and above to Kafka.

        For Kafka this must be the coordinator of the group (`find_coordinator`), and the group must have no
        live members. Raises OffsetCommitFailed, a KafkaError, if some are refused; the others are stored.
        Raises LocalProtocolError if the broker does not serve the requested store.
        """
        name, version = checked_text("group", group), _checked_version(version)
        checked = checked_offsets(offsets)
        self._call(lambda connection: commit(connection, name, checked, version))

    def fetch_offsets(
        self, group: str, partitions: Iterable[TopicAndPartition], *, version: int = 1
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group; partitions without one are missing.

        `version` and errors are as for `commit_offsets`, with OffsetFetchFailed.
        """
        name, version = checked_text("group", group), _checked_version(version)
        wanted = checked_partitions(partitions)
        return self._call(lambda connection: stored(connection, name, wanted, version))

    # --- the connection

    def _call(self, request: Callable[[Connection], T], client_id: str = "") -> T:
        """Make a request over the connection, and once more over a new one if it breaks."""
        name = client_id or self._config.client_id
        with self._turn:
            try:
                return self._once(request, name)
            except ConnectionLost as error:
                if self._link.connection is None or self._link.interruption.is_set:
                    raise
                self._link.drop()
                log.info("%s: repeating the request over a new connection: %s", self._address, error)
                return self._once(request, name)
            finally:
                if self._is_closed:  # `close` may not have waited for us
                    self._link.close()

    def _once(self, request: Callable[[Connection], T], name: str) -> T:
        connection = self._connected(name)
        try:
            return request(connection)
        except OttlaError:
            raise  # the connection is usable, or is marked as broken
        except BaseException:
            self._link.drop()  # Ctrl-C: nobody reads the answer any more
            raise

    def _connected(self, name: str) -> Connection:
        if self._is_closed:
            raise ConfigError(f"this consumer of {self._address} is closed: make a new one")
        link = self._link
        if link.connection is not None and link.client_id == name and link.connection.is_usable():
            return link.connection
        link.drop()
        # A connection has one client id, so another one needs another connection.
        link.connection = Connection.open(
            self._address,
            replace(self._config, client_id=name),
            interruption=link.interruption,
            memory=self._memory,
        )
        link.client_id = name
        log.info("connected to %s as %r", self._address, name)
        return link.connection

    def close(self) -> None:
        """Close the connection. Any thread may call it, more than once.

        A running call of another thread raises ConnectionLost, later calls raise ConfigError.
        """
        self._forgotten.detach()
        self._link.interruption.interrupt()
        self._is_closed = True
        if acquired(self._turn, repr(self)):
            self._link.close()
            self._turn.release()

    def __repr__(self) -> str:
        is_open = self._link.connection is not None
        state = "closed" if self._is_closed else "open" if is_open else "not connected"
        return f"<SimpleConsumer of {self._address}, {state}>"


def _checked_version(version: int) -> int:
    return checked_number("version", version, 0, INT_MAX, "0 is ZooKeeper, 1 and above are Kafka")
