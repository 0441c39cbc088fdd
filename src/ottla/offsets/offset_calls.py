"""Positions in `__consumer_offsets`, through the coordinator of a group: conversations, for threads and
asyncio.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from ottla.client.client_config import ClientConfig
from ottla.client.clock import Clock, Deadline
from ottla.client.conversation import Metadata, Peer, Tries
from ottla.client.peer_pool import PeerPool
from ottla.client.reactions import Action, Call, action_about, action_for
from ottla.client.retry import Backoff
from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import (
    ConnectionLost,
    KafkaError,
    OffsetCommitFailed,
    OffsetFetchFailed,
    OttlaError,
    RequestTimedOut,
)
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.coordinator_messages import (
    ALL_SINCE,
    NAMES_UNTIL,
    Membership,
    commit_codes,
    commit_request,
    fetch_request,
    fetched_offsets,
)
from ottla.wire.api.offset_fetch import OffsetFetchRequest

Codes = Mapping[TopicAndPartition, int]
Positions = dict[TopicAndPartition, OffsetAndMetadata]

_TRIED_AGAIN = {Action.RETRY, Action.REFRESH, Action.FIND_COORDINATOR}


class OffsetCalls:
    """Each call is repeated until it is answered, for at most `timeout_ms` (default: request.timeout.ms)."""

    def __init__(
        self,
        config: ClientConfig,
        metadata: Metadata,
        peers: PeerPool[Any],
        clock: Clock,
        timeout_ms: float | None = None,
    ) -> None:
        self._metadata = metadata
        self._peers = peers
        self._clock = clock
        self._request_timeout_ms = config.request_timeout_ms
        self._timeout_ms = config.request_timeout_ms if timeout_ms is None else timeout_ms
        self._chance = random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    async def fetch(self, group: str, partitions: Iterable[TopicAndPartition]) -> Positions:
        """Return the stored positions; partitions without one are missing.

        Raises OffsetFetchFailed, or what connections raise if no coordinator answers in time.
        """
        requested = set(partitions)
        return await self._fetched(group, requested) if requested else {}

    async def fetch_all(self, group: str) -> Positions:
        """Return all stored positions of a group, sorted; empty if the coordinator does not know the group.

        Brokers before 0.10.2 cannot list them, so the position of every partition of the cluster is
        requested. Raises KafkaError, and what `fetch` raises.
        """
        return dict(sorted((await self._fetched(group, None)).items()))

    async def _fetched(self, group: str, wanted: set[TopicAndPartition] | None) -> Positions:
        positions: Positions = {}

        async def ask(connection: Peer, deadline: Deadline) -> Codes:
            version = connection.version_for(OffsetFetchRequest.API, at_most=NAMES_UNTIL)
            requested: Collection[TopicAndPartition] | None = wanted
            if wanted is None and version < ALL_SINCE:
                requested = await self._all_partitions(group, deadline)
            request = fetch_request(group, requested, version)
            response = await connection.call(request, version=version, timeout_ms=deadline.left_ms())
            offsets, codes, group_code = fetched_offsets(response, requested or (), version)
            if group_code and wanted is None:
                raise KafkaError(group_code, f"offsets of group {group!r}")
            positions.update(offsets)
            return codes

        failures = await self._settled(Call.OFFSET_FETCH, group, ask)
        if failures:
            raise OffsetFetchFailed(group, failures)
        return positions

    async def _all_partitions(self, group: str, deadline: Deadline) -> list[TopicAndPartition]:
        view = await self._metadata.refresh_all(reason=f"offsets of group {group!r}", deadline=deadline)
        return [
            TopicAndPartition(name, partition.index)
            for name, topic in view.topics.items()
            for partition in topic.partitions
        ]

    async def commit(
        self,
        group: str,
        offsets: Mapping[TopicAndPartition, OffsetAndMetadata],
        membership: Callable[[], Membership],
    ) -> None:
        """Store positions in the name of `membership()`.

        Raises OffsetCommitFailed if some were refused; the others are stored. Raises what connections raise
        if no coordinator answers in time; then it is unknown what is stored, and the commit may be repeated.
        """
        left = dict(offsets)
        if not left:
            return

        async def ask(connection: Peer, deadline: Deadline) -> Codes:
            request = commit_request(group, left, membership())
            response = await connection.call(request, at_most=NAMES_UNTIL, timeout_ms=deadline.left_ms())
            codes = commit_codes(response, left)
            for topic_partition, code in codes.items():
                if not code:
                    del left[topic_partition]
            return codes

        failures = await self._settled(Call.OFFSET_COMMIT, group, ask)
        if failures:
            raise OffsetCommitFailed(group, failures)

    async def _settled(
        self, call: Call, group: str, ask: Callable[[Peer, Deadline], Awaitable[Codes]]
    ) -> Codes:
        """Call `ask` until no error is left that a retry may cure; return the error codes that remain."""
        deadline = Deadline(self._clock, self._timeout_ms)
        codes: Codes = {}
        failure: OttlaError | None = None
        tries = Tries(self._backoff, deadline, self._chance, self._peers.waits)
        while await tries.next():
            failure = None
            try:
                connection = await self._peers.to_coordinator(group, deadline)
                codes = await ask(connection, deadline.for_try(self._request_timeout_ms))
                actions = {action_for(code, call) for code in codes.values()}
            except OttlaError as error:
                if action_about(error, call) is Action.FAIL or self._peers.waits.is_over:
                    raise _named(group, error) from error
                failure, actions = error, {Action.FIND_COORDINATOR}
            if Action.FIND_COORDINATOR in actions:
                self._peers.forget_coordinator(group)
            if actions.isdisjoint(_TRIED_AGAIN):
                break
        if failure is not None:
            raise _named(group, failure) from failure
        return {topic_partition: code for topic_partition, code in codes.items() if code}


def _named(group: str, error: OttlaError) -> OttlaError:
    """Add the group to an error of a connection."""
    if isinstance(error, ConnectionLost | RequestTimedOut):
        return type(error)(f"offsets of group {group!r}: {error}")
    return error
