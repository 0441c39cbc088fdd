"""Finding the leader of a partition and of a group, and reading one partition from its current leader.

    metadata = find_leader("kafka-1:9092,kafka-2:9092", "orders", 0)
    SimpleConsumer(*metadata.leader.address)
    metadata = find_new_leader(metadata)      # after an error that says that the leader is gone

`LeaderConsumer` does both for one partition; most programs need only that.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ottla.client.attempts import attempts, error_to_raise
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.reactions import Action, Call, action_about, action_for
from ottla.client.retry import Backoff
from ottla.consumer.simple.fetch_request import FetchRequestBuilder
from ottla.consumer.simple.fetch_response import FetchResponse
from ottla.consumer.simple.offset_calls import LATEST_TIME
from ottla.consumer.simple.simple_consumer import SimpleConsumer
from ottla.consumer.simple.simple_settings import (
    INT_MAX,
    checked_partition,
    checked_text,
    finder_config,
)
from ottla.consumer.simple.topic_metadata import PartitionMetadata, partition_metadata
from ottla.model.closing import Closing
from ottla.model.cluster_view import NO_EPOCH, BrokerNode
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.property_table import merged

log = logging.getLogger(__name__)

T = TypeVar("T")

TIMEOUT_S = 30.0
SAME_AGAIN_MS = 1_000
"""How long an unchanged leader is not believed after it failed: the cluster may not have noticed yet."""
FETCH_SIZE = 1 << 20
_TRIED_AGAIN = {Action.REFRESH, Action.RETRY}


def find_leader(
    seed_brokers: str | Iterable[str],
    topic: str,
    partition: int,
    *,
    timeout: float | None = TIMEOUT_S,
    **properties: object,
) -> PartitionMetadata:
    """Ask the seed brokers, one after the other, for the leader of a partition; `leader` is never None.

    Waits up to `timeout` seconds for elections and for topics that are being created. Raises KafkaError with
    what the last broker answered, BrokerUnreachable if none answered.
    """
    wanted = checked_partition(topic, partition)
    with ClusterMetadata(finder_config(seed_brokers, properties)) as metadata:
        return _leader(metadata, wanted.topic, wanted.partition, _deadline(timeout))


def find_new_leader(
    old: PartitionMetadata,
    seed_brokers: str | Iterable[str] = (),
    *,
    timeout: float | None = TIMEOUT_S,
    **properties: object,
) -> PartitionMetadata:
    """Ask the replicas and the seed brokers for the leader of a partition after its leader failed.

    Returns at once if another broker leads, or the same one after a new election. If nothing has changed it
    asks again for a second, because a cluster needs time to notice. Raises as `find_leader`.
    """
    deadline, pause = _deadline(timeout), Deadline(MONOTONIC, SAME_AGAIN_MS)
    seeds = [f"{node.address}" for node in old.replicas if node.host]
    seeds += seed_brokers.split(",") if isinstance(seed_brokers, str) else seed_brokers
    config = finder_config(seeds, properties)
    with ClusterMetadata(config) as metadata:
        for _ in attempts(_backoff(config), deadline, random.Random()):
            current = _leader(metadata, old.topic, old.partition_id, deadline)
            if pause.passed or _is_other(current, old):
                break
            metadata.invalidate(old.topic, old.partition_id)
    assert current.leader is not None
    number, address = current.leader.broker_id, current.leader.address
    log.info("%s-%d is led by broker %d (%s)", old.topic, old.partition_id, number, address)
    return current


def find_coordinator(
    seed_brokers: str | Iterable[str], group: str, *, timeout: float | None = TIMEOUT_S, **properties: object
) -> BrokerNode:
    """Return the broker that keeps the offsets of a group, for `commit_offsets` and `fetch_offsets`.

    Waits up to `timeout` seconds while the cluster creates the offsets topic. Raises as `find_leader`, and
    LocalProtocolError for brokers before 0.8.2, which keep offsets in ZooKeeper.
    """
    name, config = checked_text("group", group), finder_config(seed_brokers, properties)
    with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata) as pool:
        return pool.coordinator(name, _deadline(timeout))


class LeaderConsumer(Closing):
    """Reads one partition from its current leader. For one thread.

        >>> from ottla.consumer.simple import EARLIEST_TIME, LeaderConsumer
        >>> with LeaderConsumer("127.0.0.1:9092", "orders", 0) as consumer:
        ...     (start,) = consumer.get_offsets_before(EARLIEST_TIME)
        ...     for message, offset in consumer.fetch(start).message_set("orders", 0):
        ...         print(offset, message.value)
        0 b'tea'
        1 b'coffee'
        2 b'cake'

    A call that finds the leader gone looks for the new one and repeats the request there, for `timeout`
    seconds in all. Errors that a new leader does not cure, such as an offset out of range, are in the
    response. The other arguments are those of SimpleConsumer.
    """

    def __init__(
        self,
        seed_brokers: str | Iterable[str],
        topic: str,
        partition: int,
        *,
        timeout: float | None = TIMEOUT_S,
        so_timeout: int = 30_000,
        buffer_size: int = 64 * 1024,
        client_id: str = "",
        properties: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        own = {"so_timeout": so_timeout, "buffer_size": buffer_size, "client_id": client_id}
        self.topic_partition = checked_partition(topic, partition)
        self._timeout_ms = _checked_timeout_ms(timeout)
        self._seeds = seed_brokers if isinstance(seed_brokers, str) else tuple(seed_brokers)
        self._properties: dict[str, Any] = own | merged(properties, settings)
        self._config = finder_config(self._seeds, self._properties)
        self._metadata: PartitionMetadata | None = None
        self._consumer: SimpleConsumer | None = None
        self._is_closed = False

    @property
    def leader(self) -> BrokerNode | None:
        """The broker of the last call; None before the first."""
        return None if self._metadata is None else self._metadata.leader

    def fetch(
        self, offset: int, fetch_size: int = FETCH_SIZE, *, max_wait: int = 500, min_bytes: int = 1
    ) -> FetchResponse:
        """Fetch up to `fetch_size` bytes from an offset on. Errors of the partition are in the response.

        At the end of the log the broker waits up to `max_wait` milliseconds for `min_bytes`.
        """
        builder = FetchRequestBuilder().max_wait(max_wait).min_bytes(min_bytes)
        request = builder.add_fetch(*self.topic_partition, offset, fetch_size).build()

        def fetch_once(consumer: SimpleConsumer) -> FetchResponse:
            response = consumer.fetch(request)
            code = response.error_code(*self.topic_partition)
            if action_for(code, Call.FETCH) in _TRIED_AGAIN:
                raise KafkaError(code, f"{self.topic_partition} at offset {offset}")
            return response

        return self._at_leader(fetch_once)

    def get_offsets_before(self, time: int = LATEST_TIME, max_num_offsets: int = 1) -> tuple[int, ...]:
        """Return offsets of the partition, as `SimpleConsumer.get_offsets_before` does."""
        wanted = self.topic_partition
        return self._at_leader(
            lambda consumer: consumer.get_offsets_before(wanted, time, max_num_offsets), Call.LIST_OFFSETS
        )

    def __repr__(self) -> str:
        leader = f"led by broker {self.leader.broker_id}" if self.leader is not None else "not connected"
        return f"<LeaderConsumer of {self.topic_partition}, {'closed' if self._is_closed else leader}>"

    def _at_leader(self, ask: Callable[[SimpleConsumer], T], call: Call = Call.FETCH) -> T:
        if self._is_closed:
            raise ConfigError(f"this consumer of {self.topic_partition} is closed: make a new one")
        deadline = Deadline(MONOTONIC, self._timeout_ms)
        failure: OttlaError | None = None
        for _ in attempts(_backoff(self._config), deadline, random.Random()):
            try:
                return ask(self._connected(deadline))
            except OttlaError as error:
                action = action_about(error, call)
                if action not in _TRIED_AGAIN:
                    raise
                log.info("%s: %s: %s", self.topic_partition, action.value, error)
                if action is Action.REFRESH:
                    self._drop()
                failure = error_to_raise(failure, error, deadline)
        assert failure is not None
        raise failure

    def _connected(self, deadline: Deadline) -> SimpleConsumer:
        if self._consumer is None:
            left = None
            if deadline.timeout_ms is not None:
                left = (deadline.for_try(deadline.timeout_ms).timeout_ms or 0.0) / 1000
            if self._metadata is None:
                metadata = find_leader(self._seeds, *self.topic_partition, timeout=left, **self._properties)
            else:
                metadata = find_new_leader(self._metadata, self._seeds, timeout=left, **self._properties)
            assert metadata.leader is not None
            self._metadata = metadata
            self._consumer = SimpleConsumer(*metadata.leader.address, **self._properties)
            self._forgotten = stop_if_forgotten(
                self, f"LeaderConsumer of {self.topic_partition}", self._consumer.close
            )
        return self._consumer

    def _drop(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            self._forgotten.detach()
            consumer.close()

    def close(self) -> None:
        """End the connection. Later calls raise ConfigError. May be called twice."""
        self._is_closed = True
        self._drop()


def _leader(metadata: ClusterMetadata, topic: str, partition: int, deadline: Deadline) -> PartitionMetadata:
    metadata.leader(topic, partition, deadline)
    current = partition_metadata(metadata.view, topic, partition)
    if current is None or current.leader is None:
        raise KafkaError(Code.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
    return current


def _is_other(current: PartitionMetadata, old: PartitionMetadata) -> bool:
    if NO_EPOCH in {current.leader_epoch, old.leader_epoch}:
        return current.leader != old.leader
    return current.leader_epoch > old.leader_epoch  # a broker that lags may report an earlier leader


def _deadline(timeout: float | None) -> Deadline:
    return Deadline(MONOTONIC, _checked_timeout_ms(timeout))


def _checked_timeout_ms(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout < INT_MAX:
        raise ConfigError(f"timeout is {timeout!r}: give seconds, 0 or more, or None to wait for ever")
    return timeout * 1000


def _backoff(config: ClientConfig) -> Backoff:
    return Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
