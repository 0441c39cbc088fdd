"""ClusterAccess: brokers and ZooKeeper for Admin's calls, connected when first used, and retries.

It owns the metadata, the connections and the ZooKeeper session of one Admin, blocking or asyncio: its methods
are conversations (`client.conversation`), and a `Driver` has what differs between threads and event loops.
For a call that old brokers lack, `has` is asked first, and ZooKeeper is used instead.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from ottla.admin.admin_config import AdminConfig
from ottla.admin.admin_errors import only
from ottla.client.client_config import ClientConfig
from ottla.client.clock import Deadline
from ottla.client.conversation import Metadata, Peer, Tries
from ottla.client.coordinators import CoordinatorKind
from ottla.client.peer_pool import Driver, PeerPool
from ottla.client.reactions import Action, action_about
from ottla.client.retry import Backoff
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.model.cluster_view import BrokerNode, ClusterView
from ottla.model.error_codes import Code
from ottla.model.errors import (
    BrokerUnreachable,
    ConnectionLost,
    KafkaError,
    OttlaError,
    RemoteProtocolError,
    RequestTimedOut,
    Unsupported,
)
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.schema import Api
from ottla.wire.versions import PeerVersions
from ottla.zookeeper.session import ZooKeeperSession

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_CREATION_IS_ASKED_SINCE = 4  # of Metadata: before, asking for a topic may make it
_OUTCOME_UNKNOWN = {Code.REQUEST_TIMED_OUT, Code.NETWORK_EXCEPTION}


class ClusterAccess:
    """Used by one thread at a time, or by the tasks of one event loop."""

    def __init__(self, config: AdminConfig, driver: Driver) -> None:
        self.config = config
        self._driver = driver
        self._clock = driver.clock
        self._opening = driver.waits.lock()
        self._opening_session = driver.waits.lock()
        self._chance = random.Random()
        self._backoff = Backoff(config.client.retry_backoff_ms, config.client.retry_backoff_max_ms)
        self._session: ZooKeeperSession | None = None
        self._metadata: Metadata | None = None
        self._peers: PeerPool[Peer] | None = None
        self._spoken: PeerVersions | None = None
        self._is_closed = False

    # --- connections

    async def metadata(self) -> Metadata:
        """The metadata of a cluster that has answered. Raises BrokerUnreachable after one try of each
        address, at the latest after default.api.timeout.ms."""
        await self.peers()
        assert self._metadata is not None
        return self._metadata

    async def peers(self) -> PeerPool[Peer]:
        """The connections to brokers. As `metadata`."""
        async with self._opening:
            if self._peers is None:
                self._check_open()
                config = await self._client()
                metadata = self._driver.metadata(config)
                try:
                    await metadata.refresh((), reason="administration begins", deadline=self.deadline())
                    self._check_open()  # the Admin may have been closed meanwhile
                except BaseException:
                    await metadata.close()
                    raise
                self._metadata, self._peers = metadata, self._driver.peers(config, metadata)
            return self._peers

    async def broker(self, broker_id: int) -> Peer:
        """The connection to a broker."""
        return await (await self.peers()).to(broker_id)

    async def any_broker(self) -> Peer:
        """The connection to some broker."""
        return await (await self.peers()).to_any()

    async def controller(self) -> Peer:
        """The connection to the controller."""
        return await (await self.peers()).to_controller()

    async def coordinator(self, key: str, *, kind: CoordinatorKind = CoordinatorKind.GROUP) -> Peer:
        """The connection to the coordinator of a group or a transactional id."""
        return await (await self.peers()).to_coordinator(key, kind=kind)

    async def coordinator_node(
        self, key: str, *, kind: CoordinatorKind = CoordinatorKind.GROUP
    ) -> BrokerNode:
        """The broker that is the coordinator."""
        return await (await self.peers()).coordinator(key, kind=kind)

    def forget_coordinator(self, key: str, *, kind: CoordinatorKind = CoordinatorKind.GROUP) -> None:
        """Look the coordinator up again next time."""
        if self._peers is not None:
            self._peers.forget_coordinator(key, kind=kind)

    @property
    def has_zookeeper(self) -> bool:
        """Whether zookeeper.connect is set."""
        return bool(self.config.zookeeper_connect)

    async def zookeeper(self, purpose: str, reason: str) -> ZooKeeperSession:
        """Return the session; use it by `blocking`. Raises Unsupported with `purpose` and `reason` if
        zookeeper.connect is not set."""
        if not self.has_zookeeper:
            raise Unsupported(
                f"{purpose}: {reason}, and zookeeper.connect is not set; give zookeeper_connect='HOST:PORT' "
                "of the brokers' ZooKeeper, and it is done there, as Kafka's tools of that time did"
            )
        async with self._opening_session:
            if self._session is None:
                self._check_open()
                await self._driver.waits.whole(self._open_session())
            assert self._session is not None
            return self._session

    async def _open_session(self) -> None:
        self._session = await self.blocking(self._new_session)

    def _new_session(self) -> ZooKeeperSession:
        from ottla.zookeeper.kazoo_session import (  # here, since it loads kazoo
            KazooSettings,
            KazooZooKeeperSession,
        )

        session = KazooZooKeeperSession(
            KazooSettings(
                self.config.zookeeper_connect,
                session_timeout_ms=self.config.zookeeper_session_timeout_ms,
                connection_timeout_ms=self.config.zookeeper_connection_timeout_ms,
                request_timeout_ms=self.config.client.request_timeout_ms,
                login=self.config.zookeeper_login,
            )
        )
        session.connect()
        return session

    async def blocking(self, work: Callable[[], V]) -> V:
        """Return the result of a function that waits for ZooKeeper; a loop serves others meanwhile."""
        return await self._driver.waits.blocking(work)

    async def _client(self) -> ClientConfig:
        client = self.config.client
        if client.bootstrap:
            return client
        session = await self.zookeeper("finding the brokers", "bootstrap.servers is not set")
        metadata = ZooKeeperMetadata(session, protocol=client.security.protocol)
        return replace(client, bootstrap=await self.blocking(metadata.bootstrap))

    @property
    def is_connected(self) -> bool:
        """Whether there is something to close."""
        return self._metadata is not None or self._session is not None

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionLost("this Admin is closed: make another one")

    # --- what brokers can do

    async def version(self, api: Api) -> int | None:
        """Return the version of a call that brokers accept; None if they do not have it.

        Only one broker is asked: during an upgrade of the cluster another broker may still refuse the call.
        """
        theirs = await self._versions()
        return theirs.version_for(api) if api.key in theirs.ranges else None

    async def has(self, api: Api) -> bool:
        """Whether brokers have this call."""
        return await self.version(api) is not None

    async def no_such_call(self, api: Api) -> str:
        """Return a text that says that brokers do not have this call."""
        theirs = await self._versions()
        generation = f" {theirs.generation}" if theirs.generation else ""
        return f"the broker{generation} has no {api.name} call"

    async def _versions(self) -> PeerVersions:
        """The versions of a broker; the last known ones if no broker can be reached."""
        try:
            self._spoken = (await self.any_broker()).versions
        except ConnectionLost:
            if self._spoken is None:
                raise
        return self._spoken

    async def view(self, topics: Iterable[str] | None, purpose: str) -> ClusterView:
        """Call `view_once` with retries."""
        names = None if topics is None else list(topics)

        async def attempt(_: list[str]) -> dict[str, ClusterView]:
            return {purpose: await self.view_once(names, purpose)}

        return only(await self.settle([purpose], attempt, is_repeatable=True))

    async def view_once(self, topics: Iterable[str] | None, purpose: str) -> ClusterView:
        """Look up the cluster with these topics, or with all topics if None.

        A topic that does not exist has error 3.

        Brokers before 0.11 create a topic that is requested by name, so all topics are requested, or
        ZooKeeper is asked.
        """
        version = await self.version(MetadataRequest.API)
        if version is not None and version >= _CREATION_IS_ASKED_SINCE:
            metadata = await self.metadata()
            if topics is None:
                return await metadata.refresh_all(reason=purpose)
            return await metadata.refresh(topics, reason=purpose)
        if self.has_zookeeper:
            session = await self.zookeeper(purpose, "")
            registered = ZooKeeperMetadata(session, protocol=self.config.client.security.protocol)
            return await self.blocking(lambda: registered.view(topics, now_ms=self._clock.now_ms()))
        return await (await self.metadata()).refresh_all(reason=purpose)

    # --- retries

    def deadline(self) -> Deadline:
        """The time limit of a call that begins now."""
        return Deadline(self._clock, self.config.api_timeout_ms)

    def tries(self, deadline: Deadline) -> Tries:
        """A loop with pauses, until the deadline."""
        return Tries(self._backoff, deadline, self._chance, self._driver.waits)

    async def settle(
        self,
        keys: Iterable[K],
        attempt: Callable[[list[K]], Awaitable[Mapping[K, V | OttlaError]]],
        *,
        is_repeatable: bool,
    ) -> dict[K, V | OttlaError]:
        """Call `attempt` until every key has a result or a final error, at most default.api.timeout.ms.

        `is_repeatable`: doing it twice has the same effect as doing it once, so it is also repeated if it is
        unknown whether it was done. Raises what `attempt` raises, unless some keys had an outcome before.
        """
        pending = list(keys)
        outcomes: dict[K, V | OttlaError] = {}
        failure: OttlaError | None = None
        if not pending:
            return outcomes
        await self.peers()  # a cluster that cannot be reached at all fails at once
        tries = self.tries(self.deadline())
        while await tries.next():
            try:
                failure, results = None, dict(await attempt(pending))
            except OttlaError as error:
                failure, results = error, dict.fromkeys(pending, error)
            outcomes.update({key: results[key] if key in results else _left_out(key) for key in pending})
            self._check_open()  # otherwise the Admin was closed while the call was under way
            again = [key for key in pending if _is_temporary(outcomes[key], is_repeatable=is_repeatable)]
            if not again:
                break
            await self._prepare([outcomes[key] for key in again])
            pending = again
        if failure is not None and len(pending) == len(outcomes):
            raise failure
        return outcomes

    async def _prepare(self, failed: Iterable[object]) -> None:
        errors = [error for error in failed if isinstance(error, OttlaError)]
        log.info("trying again: %s", errors[0])
        if any(action_about(error) is Action.REFRESH for error in errors):
            try:
                await (await self.metadata()).refresh((), reason="an administrative call failed")
            except OttlaError as error:
                log.info("the cluster does not answer: %s", error)

    # --- the end

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        self._is_closed = True
        peers, metadata, session = self._peers, self._metadata, self._session
        self._peers = self._metadata = self._session = None
        if peers is not None:
            await peers.close()
        if metadata is not None:
            await metadata.close()
        if session is not None:
            await self.blocking(session.close)


def _left_out(key: object) -> OttlaError:
    return RemoteProtocolError(f"the broker's answer leaves {key} out")


def _is_temporary(outcome: object, *, is_repeatable: bool) -> bool:
    """Whether a retry may help and does no harm."""
    if not isinstance(outcome, OttlaError) or action_about(outcome) is Action.FAIL:
        return False
    if isinstance(outcome, KafkaError):
        # The topic will not be created while we wait: fail at once.
        if outcome.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        return is_repeatable or outcome.code not in _OUTCOME_UNKNOWN
    if isinstance(outcome, BrokerUnreachable):
        return True
    return is_repeatable and isinstance(outcome, ConnectionLost | RequestTimedOut)
