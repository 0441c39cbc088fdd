"""KafkaOffsets: positions in `__consumer_offsets`, through the coordinator of the group.

Without a membership it commits as a consumer outside the group does (generation -1), which a coordinator
allows only while the group has no members.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from ottla.client.clock import MONOTONIC, Clock, Deadline
from ottla.client.config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.interruption import Interruption
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.retry import Action, Backoff, action_about, action_for, attempts
from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import ConnectionLost, KafkaError, OttlaError, RequestTimedOut
from ottla.offsets.coordinator_messages import (
    ALL_SINCE,
    NAMES_UNTIL,
    NO_MEMBERSHIP,
    Membership,
    commit_codes,
    commit_request,
    fetch_request,
    told,
)
from ottla.offsets.store import OffsetAndMetadata, OffsetCommitFailed, OffsetFetchFailed
from ottla.wire.api.offset_fetch import OffsetFetchRequest

Codes = Mapping[TopicAndPartition, int]


class KafkaOffsets:
    """Opens its connections at the first need. Calls of several threads are served one after the other."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: ClusterMetadata | None = None,
        *,
        timeout_ms: float | None = None,
        membership: Callable[[], Membership] = lambda: NO_MEMBERSHIP,
        clock: Clock = MONOTONIC,
    ) -> None:
        """`metadata` may be shared with others, who close it. `timeout_ms` bounds a call with all its tries;
        without it, that is request.timeout.ms. `membership` tells for each request in whose name it is."""
        self._membership = membership
        self._owns_metadata = metadata is None
        self._metadata = metadata or ClusterMetadata(config, clock)
        self._timeout_ms = config.request_timeout_ms if timeout_ms is None else timeout_ms
        self._clock = clock
        self._chance = random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._interruption = Interruption()
        self._lock = threading.Lock()  # a connection carries one call at a time
        self._pool = ConnectionPool(config, self._metadata, clock=clock, interruption=self._interruption)

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """What is stored; partitions without a position are missing.

        Raises OffsetFetchFailed, or what connections raise if no coordinator answers in time.
        """
        asked = set(partitions)
        found: dict[TopicAndPartition, OffsetAndMetadata] = {}
        if not asked:
            return found

        def ask(connection: Connection) -> Codes:
            version = connection.version_for(OffsetFetchRequest.API, at_most=NAMES_UNTIL)
            answer = connection.call(fetch_request(group, asked, version), version=version)
            offsets, codes, _ = told(answer, asked, version)
            found.update(offsets)
            return codes

        failures = self._settled(group, ask)
        if failures:
            raise OffsetFetchFailed(group, failures)
        return found

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Every position that is stored of a group, in order; none if the coordinator does not know it.

        Brokers before 0.10.2 cannot list them: there every partition of the cluster is asked for. Raises
        KafkaError, and what `fetch` raises.
        """
        found: dict[TopicAndPartition, OffsetAndMetadata] = {}

        def ask(connection: Connection) -> Codes:
            version = connection.version_for(OffsetFetchRequest.API, at_most=NAMES_UNTIL)
            asked = self._every_partition(group) if version < ALL_SINCE else None
            answer = connection.call(fetch_request(group, asked, version), version=version)
            offsets, codes, whole = told(answer, asked or (), version)
            if whole:
                raise KafkaError(whole, f"offsets of group {group!r}")
            found.update(offsets)
            return codes

        failures = self._settled(group, ask)
        if failures:
            raise OffsetFetchFailed(group, failures)
        return dict(sorted(found.items()))

    def _every_partition(self, group: str) -> list[TopicAndPartition]:
        view = self._metadata.refresh_all(reason=f"offsets of group {group!r}")
        return [
            TopicAndPartition(name, one.index)
            for name, topic in view.topics.items()
            for one in topic.partitions
        ]

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store positions.

        Raises OffsetCommitFailed if some were refused; the others are stored. Raises what connections raise
        if no coordinator answers in time; then nobody knows what is stored, and a commit may be repeated.
        """
        left = dict(offsets)
        if not left:
            return

        def ask(connection: Connection) -> Codes:
            answer = connection.call(commit_request(group, left, self._membership()), at_most=NAMES_UNTIL)
            codes = commit_codes(answer, left)
            for place, code in codes.items():
                if not code:
                    del left[place]
            return codes

        failures = self._settled(group, ask)
        if failures:
            raise OffsetCommitFailed(group, failures)

    def _settled(self, group: str, ask: Callable[[Connection], Codes]) -> Codes:
        """Ask until nothing is left that may yet go well; the codes of what does not."""
        deadline = Deadline(self._clock, self._timeout_ms)
        codes: Codes = {}
        failure: OttlaError | None = None
        with self._lock:
            for _ in attempts(self._backoff, deadline, self._chance, self._interruption):
                failure = None
                try:
                    codes = ask(self._pool.to_coordinator(group, deadline))
                    actions = {action_for(code) for code in codes.values()}
                except OttlaError as error:
                    if action_about(error) is Action.FAIL or self._interruption.is_set:
                        raise _named(group, error) from error
                    failure, actions = error, {Action.FIND_COORDINATOR}
                if Action.FIND_COORDINATOR in actions:
                    self._pool.forget_coordinator(group)
                if actions <= {Action.NONE, Action.FAIL}:
                    break
        if failure is not None:
            raise _named(group, failure) from failure
        return {place: code for place, code in codes.items() if code}

    def close(self) -> None:
        """End the connections; who waits in here gets ConnectionLost. May be called twice."""
        self._interruption.interrupt()
        if self._owns_metadata:
            self._metadata.interrupt()
        with self._lock:
            self._pool.close()
            self._interruption.close()
        if self._owns_metadata:
            self._metadata.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _named(group: str, error: OttlaError) -> OttlaError:
    """An error of a connection does not know what the connection was for."""
    if isinstance(error, ConnectionLost | RequestTimedOut):
        return type(error)(f"offsets of group {group!r}: {error}")
    return error
