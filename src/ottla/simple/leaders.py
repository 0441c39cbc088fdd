"""Who leads a partition, who leads it now, and reading from whoever that is.

    found = find_leader("kafka-1:9092,kafka-2:9092", "orders", 0)
    SimpleConsumer(*found.leader.address)
    found = find_new_leader(found)            # after an error that says that the leader is gone

`LeaderConsumer` does the two for one partition, and is all that most programs need of this.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.retry import Action, Backoff, action_about, action_for, attempts
from ottla.model.cluster_view import NO_EPOCH, BrokerNode
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.simple.consumer import SimpleConsumer
from ottla.simple.fetch_request import FetchRequestBuilder
from ottla.simple.fetch_response import FetchResponse
from ottla.simple.metadata import PartitionMetadata, partition_metadata
from ottla.simple.offset_calls import LATEST_TIME
from ottla.simple.settings import INT_MAX, checked_number, checked_place, checked_text, finder_config

log = logging.getLogger(__name__)

T = TypeVar("T")

TIMEOUT_MS = 30_000
SAME_AGAIN_MS = 1_000
"""How long a broker that has just failed us is not believed to lead: the cluster may not have noticed."""
FETCH_SIZE = 1 << 20
_ELSEWHERE = {Action.REFRESH, Action.RETRY}


def find_leader(
    seed_brokers: str | Iterable[str],
    topic: str,
    partition: int,
    *,
    timeout_ms: int = TIMEOUT_MS,
    **properties: object,
) -> PartitionMetadata:
    """Ask the seed brokers, one after the other, who leads a partition; its `leader` is never None.

    Elections, and topics that are only being made, are waited for. Raises KafkaError with what the last
    broker said, BrokerUnreachable if none answered.
    """
    place = checked_place(topic, partition)
    with ClusterMetadata(finder_config(seed_brokers, properties)) as metadata:
        return _leader(metadata, place.topic, place.partition, _deadline(timeout_ms))


def find_new_leader(
    old: PartitionMetadata,
    seed_brokers: str | Iterable[str] = (),
    *,
    timeout_ms: int = TIMEOUT_MS,
    **properties: object,
) -> PartitionMetadata:
    """Who leads a partition after its leader failed: ask its replicas, and the seed brokers.

    Another broker is the answer at once, and so is the same one if it was elected anew. What has not changed
    is believed after a second: it takes a cluster some time to notice. Raises as `find_leader`.
    """
    deadline, pause = _deadline(timeout_ms), Deadline(MONOTONIC, SAME_AGAIN_MS)
    seeds = [f"{node.address}" for node in old.replicas if node.host]
    seeds += seed_brokers.split(",") if isinstance(seed_brokers, str) else seed_brokers
    config = finder_config(seeds, properties)
    with ClusterMetadata(config) as metadata:
        for _ in attempts(_backoff(config), deadline, random.Random()):
            found = _leader(metadata, old.topic, old.partition_id, deadline)
            if pause.passed or _is_other(found, old):
                break
            metadata.invalidate(old.topic, old.partition_id)
    assert found.leader is not None
    number, address = found.leader.broker_id, found.leader.address
    log.info("%s-%d is led by broker %d (%s)", old.topic, old.partition_id, number, address)
    return found


def find_coordinator(
    seed_brokers: str | Iterable[str], group: str, *, timeout_ms: int = TIMEOUT_MS, **properties: object
) -> BrokerNode:
    """The broker that keeps the offsets of a group, for `commit_offsets` and `fetch_offsets`.

    Waits for it while the cluster makes the topic of offsets. Raises as `find_leader`, and LocalProtocolError
    for brokers before 0.8.2, which keep them in ZooKeeper.
    """
    name, config = checked_text("group", group), finder_config(seed_brokers, properties)
    with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata) as pool:
        return pool.coordinator(name, _deadline(timeout_ms))


class LeaderConsumer:
    """Reads one partition from whoever leads it. Belongs to one thread; the other arguments are a
    SimpleConsumer's.

    A call that finds the leader gone looks for the new one and is made there, until `timeout_ms` are over.
    What a new leader does not cure is the caller's: an offset out of range is in the response of `fetch`.
    """

    def __init__(
        self,
        seed_brokers: str | Iterable[str],
        topic: str,
        partition: int,
        *,
        timeout_ms: int = TIMEOUT_MS,
        so_timeout: int = 30_000,
        buffer_size: int = 64 * 1024,
        client_id: str = "",
        **properties: object,
    ) -> None:
        own = {"so_timeout": so_timeout, "buffer_size": buffer_size, "client_id": client_id}
        self.topic_partition = checked_place(topic, partition)
        self._timeout_ms = _checked_timeout(timeout_ms)
        self._seeds = seed_brokers if isinstance(seed_brokers, str) else tuple(seed_brokers)
        self._properties: dict[str, Any] = {**own, **properties}
        self._config = finder_config(self._seeds, self._properties)
        self._found: PartitionMetadata | None = None
        self._consumer: SimpleConsumer | None = None
        self._is_closed = False

    @property
    def leader(self) -> BrokerNode | None:
        """Whom the last call went to; None before the first one."""
        return None if self._found is None else self._found.leader

    def fetch(
        self, offset: int, fetch_size: int = FETCH_SIZE, *, max_wait: int = 500, min_bytes: int = 1
    ) -> FetchResponse:
        """Read from an offset on. At the log's end the broker waits `max_wait` milliseconds for more."""
        builder = FetchRequestBuilder().max_wait(max_wait).min_bytes(min_bytes)
        request = builder.add_fetch(*self.topic_partition, offset, fetch_size).build()

        def question(consumer: SimpleConsumer) -> FetchResponse:
            response = consumer.fetch(request)
            code = response.error_code(*self.topic_partition)
            if action_for(code) in _ELSEWHERE:
                raise KafkaError(code, f"{self.topic_partition} at offset {offset}")
            return response

        return self._at_leader(question)

    def get_offsets_before(self, time: int = LATEST_TIME, max_num_offsets: int = 1) -> tuple[int, ...]:
        """As `SimpleConsumer.get_offsets_before`."""
        place = self.topic_partition
        return self._at_leader(lambda consumer: consumer.get_offsets_before(place, time, max_num_offsets))

    def _at_leader(self, question: Callable[[SimpleConsumer], T]) -> T:
        if self._is_closed:
            raise ConfigError(f"this consumer of {self.topic_partition} is closed: make a new one")
        deadline = Deadline(MONOTONIC, self._timeout_ms)
        failure: OttlaError | None = None
        for _ in attempts(_backoff(self._config), deadline, random.Random()):
            try:
                return question(self._connected(deadline))
            except OttlaError as error:
                if action_about(error) not in _ELSEWHERE:
                    raise
                log.info("%s: looking for another leader: %s", self.topic_partition, error)
                self._drop()
                failure = error
        assert failure is not None
        raise failure

    def _connected(self, deadline: Deadline) -> SimpleConsumer:
        if self._consumer is None:
            left_ms = max(1, int(deadline.left_ms() or 0))
            if self._found is None:
                place = self.topic_partition
                found = find_leader(self._seeds, *place, timeout_ms=left_ms, **self._properties)
            else:
                found = find_new_leader(self._found, self._seeds, timeout_ms=left_ms, **self._properties)
            assert found.leader is not None
            self._found = found
            self._consumer = SimpleConsumer(*found.leader.address, **self._properties)
        return self._consumer

    def _drop(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def close(self) -> None:
        """For good. May be called twice."""
        self._is_closed = True
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _leader(metadata: ClusterMetadata, topic: str, partition: int, deadline: Deadline) -> PartitionMetadata:
    metadata.leader(topic, partition, deadline)
    found = partition_metadata(metadata.view, topic, partition)
    if found is None or found.leader is None:
        raise KafkaError(Code.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
    return found


def _is_other(found: PartitionMetadata, old: PartitionMetadata) -> bool:
    if NO_EPOCH in {found.leader_epoch, old.leader_epoch}:
        return found.leader != old.leader
    return found.leader_epoch > old.leader_epoch  # a broker that is behind may tell of an earlier one


def _deadline(timeout_ms: int) -> Deadline:
    return Deadline(MONOTONIC, _checked_timeout(timeout_ms))


def _checked_timeout(timeout_ms: int) -> int:
    return checked_number("timeout_ms", timeout_ms, 0, INT_MAX, "give milliseconds, 0 or more")


def _backoff(config: ClientConfig) -> Backoff:
    return Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
