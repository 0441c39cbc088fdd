"""KafkaOffsets: positions in `__consumer_offsets`, through the coordinator of the group.

Without a membership it commits like a consumer outside the group (generation -1). A coordinator allows that
only while the group has no members.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ottla.client.attempts import attempts
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Clock, Deadline
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption, acquired
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.reactions import Action, Call, action_about, action_for
from ottla.client.retry import Backoff
from ottla.model.closing import Closing
from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import (
    ConnectionLost,
    KafkaError,
    OffsetCommitFailed,
    OffsetFetchFailed,
    OttlaError,
    RequestTimedOut,
)
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import (
    ALL_SINCE,
    NAMES_UNTIL,
    NO_MEMBERSHIP,
    Membership,
    commit_codes,
    commit_request,
    fetch_request,
    fetched_offsets,
)
from ottla.wire.api.offset_fetch import OffsetFetchRequest

Codes = Mapping[TopicAndPartition, int]

_TRIED_AGAIN = {Action.RETRY, Action.REFRESH, Action.FIND_COORDINATOR}


@dataclass(slots=True)
class _Resources:
    """What has to be closed; `metadata` only if it is not shared."""

    owner: str
    lock: threading.Lock
    interruption: Interruption
    pool: ConnectionPool
    metadata: ClusterMetadata | None
    is_used: bool = False

    def __enter__(self) -> None:
        """A call begins."""

    def __exit__(self, *_: object) -> None:
        """A call ends, under the lock. If it took too long for `close`, it closes the connections itself."""
        if self.interruption.is_set:
            self.release()

    def close(self) -> None:
        self.interruption.interrupt()
        if self.metadata is not None:
            self.metadata.interrupt()
        if acquired(self.lock, self.owner):
            self.release()
            self.lock.release()
        if self.metadata is not None:
            self.metadata.close()

    def release(self) -> None:
        """Close the connections, under the lock."""
        self.pool.close()
        self.interruption.close()


class KafkaOffsets(Closing):
    """Stores positions in Kafka. Connects with the first call; calls from several threads run in turn.

    >>> from ottla.client.client_config import ClientConfig
    >>> from ottla.offsets import KafkaOffsets
    >>> with KafkaOffsets(ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:9092"})) as store:
    ...     for topic_partition, position in store.fetch_all("billing").items():
    ...         print(topic_partition, position.offset)
    orders-0 1
    """

    def __init__(
        self,
        config: ClientConfig,
        metadata: ClusterMetadata | None = None,
        *,
        timeout: float | None = None,
        membership: Callable[[], Membership] = lambda: NO_MEMBERSHIP,
        clock: Clock = MONOTONIC,
    ) -> None:
        """`metadata` may be shared; then its owner closes it. `timeout` in seconds limits a call with all
        its retries; by default request.timeout.ms. `membership()` is the identity for each commit."""
        self._membership = membership
        self._address = ",".join(map(str, config.bootstrap))
        self._metadata = metadata or ClusterMetadata(config, clock)
        self._request_timeout_ms = config.request_timeout_ms
        self._timeout_ms = config.request_timeout_ms if timeout is None else timeout * 1000
        self._clock = clock
        self._chance = random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._interruption = Interruption()
        self._lock = threading.Lock()  # a connection carries one call at a time
        self._pool = ConnectionPool(config, self._metadata, clock=clock, interruption=self._interruption)
        self._resources = _Resources(
            repr(self),
            self._lock,
            self._interruption,
            self._pool,
            self._metadata if metadata is None else None,
        )
        resources = self._resources
        self._forgotten = stop_if_forgotten(
            self, repr(self), resources.close, is_running=lambda: resources.is_used
        )

    def __repr__(self) -> str:
        return f"<KafkaOffsets at {self._address}>"

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return the stored positions; partitions without one are missing.

        Raises OffsetFetchFailed, or what connections raise if no coordinator answers in time.
        """
        requested = set(partitions)
        positions: dict[TopicAndPartition, OffsetAndMetadata] = {}
        if not requested:
            return positions

        def ask(connection: Connection, deadline: Deadline) -> Codes:
            version = connection.version_for(OffsetFetchRequest.API, at_most=NAMES_UNTIL)
            request = fetch_request(group, requested, version)
            response = connection.call(request, version=version, timeout_ms=deadline.left_ms())
            offsets, codes, _ = fetched_offsets(response, requested, version)
            positions.update(offsets)
            return codes

        failures = self._settled(Call.OFFSET_FETCH, group, ask)
        if failures:
            raise OffsetFetchFailed(group, failures)
        return positions

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return all stored positions of a group, sorted; empty if the coordinator does not know the group.

        Brokers before 0.10.2 cannot list them, so the position of every partition of the cluster is
        requested. Raises KafkaError, and what `fetch` raises.
        """
        positions: dict[TopicAndPartition, OffsetAndMetadata] = {}

        def ask(connection: Connection, deadline: Deadline) -> Codes:
            version = connection.version_for(OffsetFetchRequest.API, at_most=NAMES_UNTIL)
            requested = self._all_partitions(group, deadline) if version < ALL_SINCE else None
            request = fetch_request(group, requested, version)
            response = connection.call(request, version=version, timeout_ms=deadline.left_ms())
            offsets, codes, group_code = fetched_offsets(response, requested or (), version)
            if group_code:
                raise KafkaError(group_code, f"offsets of group {group!r}")
            positions.update(offsets)
            return codes

        failures = self._settled(Call.OFFSET_FETCH, group, ask)
        if failures:
            raise OffsetFetchFailed(group, failures)
        return dict(sorted(positions.items()))

    def _all_partitions(self, group: str, deadline: Deadline) -> list[TopicAndPartition]:
        view = self._metadata.refresh_all(reason=f"offsets of group {group!r}", deadline=deadline)
        return [
            TopicAndPartition(name, partition.index)
            for name, topic in view.topics.items()
            for partition in topic.partitions
        ]

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store positions.

        Raises OffsetCommitFailed if some were refused; the others are stored. Raises what connections raise
        if no coordinator answers in time; then it is unknown what is stored, and the commit may be repeated.
        """
        left = dict(offsets)
        if not left:
            return

        def ask(connection: Connection, deadline: Deadline) -> Codes:
            request = commit_request(group, left, self._membership())
            response = connection.call(request, at_most=NAMES_UNTIL, timeout_ms=deadline.left_ms())
            codes = commit_codes(response, left)
            for topic_partition, code in codes.items():
                if not code:
                    del left[topic_partition]
            return codes

        failures = self._settled(Call.OFFSET_COMMIT, group, ask)
        if failures:
            raise OffsetCommitFailed(group, failures)

    def _settled(self, call: Call, group: str, ask: Callable[[Connection, Deadline], Codes]) -> Codes:
        """Call `ask` until no error is left that a retry may cure; return the error codes that remain."""
        deadline = Deadline(self._clock, self._timeout_ms)
        self._resources.is_used = True
        codes: Codes = {}
        failure: OttlaError | None = None
        with self._lock, self._resources:
            for _ in attempts(self._backoff, deadline, self._chance, self._interruption):
                failure = None
                try:
                    connection = self._pool.to_coordinator(group, deadline)
                    codes = ask(connection, deadline.for_try(self._request_timeout_ms))
                    actions = {action_for(code, call) for code in codes.values()}
                except OttlaError as error:
                    if action_about(error, call) is Action.FAIL or self._interruption.is_set:
                        raise _named(group, error) from error
                    failure, actions = error, {Action.FIND_COORDINATOR}
                if Action.FIND_COORDINATOR in actions:
                    self._pool.forget_coordinator(group)
                if actions.isdisjoint(_TRIED_AGAIN):
                    break
        if failure is not None:
            raise _named(group, failure) from failure
        return {topic_partition: code for topic_partition, code in codes.items() if code}

    def close(self) -> None:
        """Close the connections; calls that wait raise ConnectionLost. May be called twice."""
        self._forgotten.detach()
        self._resources.close()


def _named(group: str, error: OttlaError) -> OttlaError:
    """Add the group to an error of a connection."""
    if isinstance(error, ConnectionLost | RequestTimedOut):
        return type(error)(f"offsets of group {group!r}: {error}")
    return error
