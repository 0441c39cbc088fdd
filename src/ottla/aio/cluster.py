"""What the coroutines of a client know about the cluster (`KnownCluster`), and their requests for more.

One request is under way at a time. A coroutine that wants metadata meanwhile does not use its response, which
may be older than the reason for asking; it shares the next request with all others that wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from ottla.aio.connection import LoopConnection
from ottla.aio.waiting import LOOP_WAITS, Tasks
from ottla.client.attempts import error_to_raise
from ottla.client.canonical_names import canonical
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.conversation import Tries
from ottla.client.known_cluster import KnownCluster, sound_leader, sound_topic
from ottla.client.metadata_search import TRY_NEXT_BROKER, MetadataSearch
from ottla.client.network_errors import CLUSTER, NetworkErrors
from ottla.client.reactions import Action, Call, action_about
from ottla.client.retry import Backoff
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.cluster_view import BrokerNode, ClusterView, LeaderHint, PartitionLeader, PartitionView
from ottla.model.errors import OttlaError, RequestTimedOut
from ottla.wire.api.metadata import MetadataRequest

log = logging.getLogger(__name__)

T = TypeVar("T")

SLACK_S = 1.0
"""How much longer than its deadline a coroutine waits for a request, because the error of the request says
more.
"""


@dataclass
class _Request:
    """The topics of one request; other coroutines may join it until it is sent."""

    topics: set[str] = field(default_factory=set)
    is_whole: bool = False
    reasons: set[str] = field(default_factory=set)
    deadline: Deadline | None = None
    task: asyncio.Task[ClusterView] | None = None

    def join(self, topics: Iterable[str], reason: str, deadline: Deadline, *, is_whole: bool) -> None:
        """Request these topics too, at least until the deadline."""
        self.topics.update(topics)
        self.is_whole = self.is_whole or is_whole
        self.reasons.add(reason)
        before = self.deadline.left_ms() if self.deadline is not None else 0.0
        left = deadline.left_ms()
        if self.deadline is None or left is None or (before is not None and left > before):
            self.deadline = deadline


class LoopMetadata:
    """Opens its connection when it is first needed, keeps it, and closes it in `close`."""

    def __init__(self, config: ClientConfig) -> None:
        self.memory = VersionMemory()
        self.errors = NetworkErrors(MONOTONIC.now_ms)
        self._config = config
        self._chance = random.Random()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._known = KnownCluster(config.metadata_max_age_ms)
        self._search = MetadataSearch(config, MONOTONIC, self._chance)
        self._connection: LoopConnection | None = None
        self._turn = asyncio.Lock()  # held by the request that is under way
        self._next: _Request | None = None
        self._begun = 0
        self._tasks = Tasks()

    @property
    def view(self) -> ClusterView:
        """The current view; sends nothing."""
        return self._known.view

    # --- asking

    async def refresh(
        self, topics: Iterable[str] | None = None, *, reason: str = "", deadline: Deadline | None = None
    ) -> ClusterView:
        """Ask a broker now; with `topics=None` for all topics that were requested before.

        The default deadline is request.timeout.ms from now. Raises BrokerUnreachable if no broker answers,
        RequestTimedOut, AuthenticationFailed.
        """
        names = self._known.requested if topics is None else set(topics)
        return await self._shared(names, reason, deadline, is_whole=False)

    async def refresh_all(self, *, reason: str = "", deadline: Deadline | None = None) -> ClusterView:
        """Ask for every topic, so that the view is complete. Raises as `refresh`."""
        return await self._shared((), reason, deadline, is_whole=True)

    async def refresh_if_old(self) -> None:
        """Refresh topics older than metadata.max.age.ms. A failure is logged, and the view does
        not change.
        """
        old = self._known.old_topics(MONOTONIC.now_ms())
        if old:
            await self._refresh_leniently(old)

    async def check_brokers(self, timeout: float | None) -> None:
        """Ask for the brokers now, for `timeout` seconds or request.timeout.ms. Raises as `refresh`."""
        deadline = None if timeout is None else Deadline(MONOTONIC, timeout * 1000.0)
        await self.refresh((), reason="first contact", deadline=deadline)

    async def _shared(
        self, topics: Collection[str], reason: str, deadline: Deadline | None, *, is_whole: bool
    ) -> ClusterView:
        deadline = deadline or Deadline(MONOTONIC, self._config.request_timeout_ms)
        request = self._next
        if request is None:
            request = self._next = _Request()
        request.join(topics, reason, deadline, is_whole=is_whole)
        if request.task is None:
            request.task = self._tasks.start(self._perform(request), "ottla-metadata")
        left_ms = deadline.left_ms()
        try:
            async with asyncio.timeout(None if left_ms is None else left_ms / 1000 + SLACK_S) as limit:
                return await asyncio.shield(request.task)
        except TimeoutError:
            if not limit.expired():
                raise
            why = self.errors.cause()
            raise RequestTimedOut(f"no metadata in {deadline.timeout_ms:.0f} ms{why}") from None

    async def _perform(self, request: _Request) -> ClusterView:
        async with self._turn:
            self._next = None  # coroutines that come from now on share the next request
            self._begun += 1
            number, began_ms = self._begun, MONOTONIC.now_ms()
            try:
                received = await self._ask(request)
            except OttlaError as error:
                self.errors.failed(CLUSTER, error, began_ms)
                raise
            self._known.adopt(received, request.topics, number)
            self.errors.answered(CLUSTER)
            return self._known.view

    async def _ask(self, request: _Request) -> ClusterView:
        topics = None if request.is_whole else sorted(request.topics)
        current = self._connection
        is_usable = current is not None and current.is_usable()
        peer = (current.address, current.broker_id) if current is not None and is_usable else None
        reason = ", ".join(sorted(filter(None, request.reasons))) or "refresh"
        assert request.deadline is not None
        if self._search.has_aliases:
            names = asyncio.get_running_loop().run_in_executor(None, canonical, self._config.bootstrap)
            self._search.call_by_names(await names)
        search = self._search.asking(self.view, peer, reason, request.deadline)
        try:
            chosen = next(search)
            while True:
                outcome: ClusterView | OttlaError
                try:
                    connection = await self._connected(*chosen)
                    outcome = await self._answer(connection, topics, chosen.deadline)
                except TRY_NEXT_BROKER as error:
                    await self._disconnect()
                    outcome = error
                chosen = search.send(outcome)
        except StopIteration as end:
            view: ClusterView = end.value
            return view

    async def _connected(self, address: Address, broker_id: int | None, deadline: Deadline) -> LoopConnection:
        current = self._connection
        if current is not None and current.address == address and current.is_usable():
            return current
        await self._disconnect()
        self._connection = await LoopConnection.open(
            address,
            self._config,
            broker_id=broker_id,
            memory=self.memory,
            errors=self.errors,
            deadline=deadline,
        )
        return self._connection

    async def _answer(
        self, connection: LoopConnection, topics: Collection[str] | None, deadline: Deadline
    ) -> ClusterView:
        version = connection.version_for(MetadataRequest.API)
        timeout_ms = deadline.capped_ms(self._config.request_timeout_ms)
        request = self._search.request(topics, version)
        response = await connection.call(request, version=version, timeout_ms=timeout_ms)
        return self._search.view(response, topics, version, connection.address)

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    # --- what is known, waited for

    async def partitions(self, topic: str, deadline: Deadline | None = None) -> tuple[PartitionView, ...]:
        """Return the partitions of a topic; refreshes and waits for it until the deadline.

        The default deadline is request.timeout.ms from now. Raises KafkaError with the last error, or as
        `refresh`.
        """
        topic_view = await self._awaited(topic, None, deadline, lambda view: sound_topic(view, topic))
        return topic_view.partitions

    async def leader(self, topic: str, partition: int, deadline: Deadline | None = None) -> PartitionLeader:
        """Return the leader of a partition; waits while one is elected or the topic is created.

        As `partitions`.
        """
        return await self._awaited(
            topic, partition, deadline, lambda view: sound_leader(view, topic, partition)
        )

    async def _awaited(
        self,
        topic: str,
        partition: int | None,
        deadline: Deadline | None,
        lookup: Callable[[ClusterView], T],
    ) -> T:
        """Return what `lookup` returns; it raises KafkaError while the view lacks it."""
        problem = self._known.outdated(topic, partition)
        if not problem:
            if self._known.is_old(topic, MONOTONIC.now_ms()):
                await self._refresh_leniently([topic])
            with contextlib.suppress(OttlaError):
                return lookup(self.view)
        deadline = deadline or Deadline(MONOTONIC, self._config.request_timeout_ms)
        failure: OttlaError | None = None
        tries = Tries(self._backoff, deadline, self._chance, LOOP_WAITS)
        while await tries.next():
            try:
                return lookup(await self.refresh([topic], reason=f"{topic}: {problem}", deadline=deadline))
            except OttlaError as error:
                if action_about(error, Call.METADATA) is Action.FAIL:
                    raise
                failure = error_to_raise(failure, error, deadline)
        assert failure is not None
        raise failure

    async def _refresh_leniently(self, topics: list[str]) -> None:
        try:
            await self.refresh(topics, reason="old")
        except OttlaError as error:
            log.warning("metadata stay as they are, older than metadata.max.age.ms: %s", error)

    # --- what other requests reveal

    def invalidate(self, topic: str, partition: int) -> None:
        """Note that the known leader is wrong: the next call of `leader` refreshes first."""
        self._known.invalidate(topic, partition, self._begun + 1)

    def learn(self, hints: Iterable[LeaderHint], nodes: Iterable[BrokerNode] = ()) -> ClusterView:
        """Use the leaders in a Fetch or Produce response (KIP-951), if they are newer."""
        return self._known.learn(hints, nodes)

    async def close(self) -> None:
        """Close the connection; coroutines that wait here are cancelled. May be called twice."""
        await self._tasks.cancel()
        await self._disconnect()
