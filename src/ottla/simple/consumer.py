"""SimpleConsumer: one connection to one broker, and Kafka's low-level questions over it.

    with SimpleConsumer("kafka-1", 9092, client_id="billing") as consumer:
        response = consumer.fetch(FetchRequestBuilder().add_fetch("orders", 0, 0, 100_000).build())
        for message, offset in response.message_set("orders", 0): ...

It knows no leaders, positions or groups: whoever uses it does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar

from ottla.client.clock import MONOTONIC
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.metadata_source import view_of
from ottla.client.version_memory import VersionMemory
from ottla.fetching import TopicAndPartition
from ottla.model.errors import (
    ConfigError,
    ConnectionLost,
    KafkaError,
    LocalProtocolError,
    OttlaError,
)
from ottla.offsets import OffsetAndMetadata
from ottla.simple.fetch_request import FetchRequest
from ottla.simple.fetch_response import FetchResponse
from ottla.simple.metadata import TopicMetadata, metadata_request, topics_metadata
from ottla.simple.offset_calls import (
    LATEST_TIME,
    checked_offsets,
    checked_places,
    checked_question,
    commit,
    offsets_before,
    stored,
)
from ottla.simple.settings import INT_MAX, broker_address, checked_number, checked_text, consumer_config
from ottla.wire.api import fetch as wire
from ottla.wire.api.metadata import MetadataRequest

log = logging.getLogger(__name__)

T = TypeVar("T")


class SimpleConsumer:
    """Connects at the first call. Any thread may call it; calls go one after the other.

    `so_timeout`: how many milliseconds connecting, and an answer, may take; a fetch may take its `max_wait`
    on top. `buffer_size`: the socket's receive buffer in bytes, -1 leaves it to the system. `properties`:
    TLS, SASL and the other settings of clients by Kafka's names, and `broker_version` for 0.8 and 0.9.

    A call whose connection breaks is sent once more over a new one, as Kafka's own does. Calls raise
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
        **properties: object,
    ) -> None:
        self._address = broker_address(host, port)
        self._config = consumer_config(self._address, so_timeout, buffer_size, client_id, properties)
        self._memory = VersionMemory()
        self._interruption = Interruption()
        self._turn = threading.Lock()  # guards what is below
        self._connection: Connection | None = None
        self._connected_as = ""
        self._is_closed = False

    @property
    def host(self) -> str:
        """Of the broker."""
        return self._address.host

    @property
    def port(self) -> int:
        """Of the broker."""
        return self._address.port

    # --- messages

    def fetch(self, request: FetchRequest) -> FetchResponse:
        """Read from partitions that this broker leads. Errors of single partitions are in the response.

        A fetch_size that is too small for a message is told by the log and by `FetchResponse.remark`.
        """
        if not isinstance(request, FetchRequest):
            raise ConfigError(f"{request!r} is no FetchRequest: make one with FetchRequestBuilder")
        response = self._asked(lambda connection: self._fetched(connection, request), request.client_id)
        for place in request.request_info:
            remark = response.remark(*place)
            if remark:
                is_stuck = not response.message_set(*place).valid_bytes
                log.log(logging.WARNING if is_stuck else logging.INFO, "%s", remark)
        return response

    def _fetched(self, connection: Connection, request: FetchRequest) -> FetchResponse:
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
        """Offsets of a partition: LATEST_TIME (-1), EARLIEST_TIME (-2), or by milliseconds since 1970.

        Up to Kafka 3.9 the broker answers as it always did: the log's end for -1, the first offsets of
        its segments, newest first, so many at most; for a time, those of segments last written before it.
        Kafka 4 answers at most one offset: the end, the beginning, or that of the first message with this
        timestamp or a later one, and none if there is no such message.
        """
        place = checked_question(topic_partition, time, max_num_offsets)
        return self._asked(lambda connection: offsets_before(connection, place, time, max_num_offsets))

    def topic_metadata(self, *topics: str) -> tuple[TopicMetadata, ...]:
        """Partitions, leaders, replicas and those in sync, of these topics or of all.

        Unknown topics come with an error code. Brokers before 0.11 may make them, if they are set up so.
        """
        for topic in topics:
            checked_text("topic", topic)
        return self._asked(lambda connection: self._metadata(connection, topics))

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
        """Store where a group goes on. Version 0 stores in ZooKeeper, 1 and above in Kafka.

        For Kafka this must be the group's coordinator (`find_coordinator`), and the group must have no
        members at present. Raises OffsetCommitFailed, a KafkaError, if some are refused: the others are
        stored. Raises LocalProtocolError if the broker does not have the store that is asked for.
        """
        name, version = checked_text("group", group), _checked_version(version)
        checked = checked_offsets(offsets)
        self._asked(lambda connection: commit(connection, name, checked, version))

    def fetch_offsets(
        self, group: str, partitions: Iterable[TopicAndPartition], *, version: int = 1
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Where a group goes on, without partitions for which nothing is stored; as `commit_offsets`.

        Raises OffsetFetchFailed, a KafkaError.
        """
        name, version = checked_text("group", group), _checked_version(version)
        places = checked_places(partitions)
        return self._asked(lambda connection: stored(connection, name, places, version))

    # --- the connection

    def _asked(self, question: Callable[[Connection], T], client_id: str = "") -> T:
        """Ask over the connection, and once more over a new one if it breaks."""
        name = client_id or self._config.client_id
        with self._turn:
            try:
                return self._once(question, name)
            except ConnectionLost as error:
                if self._connection is None or self._interruption.is_set:
                    raise
                self._drop()
                log.info("%s is asked again: %s", self._address, error)
                return self._once(question, name)

    def _once(self, question: Callable[[Connection], T], name: str) -> T:
        connection = self._connected(name)
        try:
            return question(connection)
        except OttlaError:
            raise  # the connection is sound, or knows that it is not
        except BaseException:
            self._drop()  # Ctrl-C: nobody will take the answer
            raise

    def _connected(self, name: str) -> Connection:
        if self._is_closed:
            raise ConfigError(f"this consumer of {self._address} is closed: make a new one")
        current = self._connection
        if current is not None and self._connected_as == name and current.is_usable():
            return current
        self._drop()
        # A connection has one client id, so another one needs another connection.
        self._connection = Connection.open(
            self._address,
            replace(self._config, client_id=name),
            interruption=self._interruption,
            memory=self._memory,
        )
        self._connected_as = name
        log.info("connected to %s as %r", self._address, name)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """For good, from any thread: a call under way ends with ConnectionLost. May be called twice."""
        self._interruption.interrupt()
        with self._turn:
            self._is_closed = True
            self._drop()
            self._interruption.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _checked_version(version: int) -> int:
    return checked_number("version", version, 0, INT_MAX, "0 is ZooKeeper, 1 and above are Kafka")
