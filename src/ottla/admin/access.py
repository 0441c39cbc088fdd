"""ClusterAccess: brokers and ZooKeeper for Admin's calls, connected when first used, and retries.

It owns the metadata, the connections and the ZooKeeper session of one Admin. A call that brokers may not have
asks `has` first, and otherwise works through ZooKeeper.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from ottla.admin.admin_config import AdminConfig
from ottla.admin.admin_errors import only
from ottla.client.attempts import attempts
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Clock, Deadline
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.client.reactions import Action, action_about
from ottla.client.retry import Backoff
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.model.cluster_view import ClusterView
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
    """Used by one thread at a time."""

    def __init__(self, config: AdminConfig, *, clock: Clock = MONOTONIC) -> None:
        self.config = config
        self._clock = clock
        self._chance = random.Random()
        self._backoff = Backoff(config.client.retry_backoff_ms, config.client.retry_backoff_max_ms)
        self._session: ZooKeeperSession | None = None
        self._metadata: ClusterMetadata | None = None
        self._pool: ConnectionPool | None = None
        self._spoken: PeerVersions | None = None
        self._is_closed = False

    # --- connections

    @property
    def metadata(self) -> ClusterMetadata:
        """The metadata of a cluster that has answered. Raises BrokerUnreachable after one try of each
        address, at the latest after default.api.timeout.ms."""
        if self._metadata is None:
            self._check_open()
            metadata = ClusterMetadata(self._client(), self._clock)
            try:
                metadata.refresh((), reason="administration begins", deadline=self.deadline())
            except BaseException:
                metadata.close()
                raise
            self._metadata = metadata
        return self._metadata

    @property
    def pool(self) -> ConnectionPool:
        """The connections to brokers."""
        if self._pool is None:
            self._pool = ConnectionPool(self._client(), self.metadata, clock=self._clock)
        return self._pool

    @property
    def has_zookeeper(self) -> bool:
        """Whether zookeeper.connect is set."""
        return bool(self.config.zookeeper_connect)

    def zookeeper(self, purpose: str, reason: str) -> ZooKeeperSession:
        """Return the session. Raises Unsupported with `purpose` and `reason` if zookeeper.connect is not
        set."""
        if not self.has_zookeeper:
            raise Unsupported(
                f"{purpose}: {reason}, and zookeeper.connect is not set; give zookeeper_connect='HOST:PORT' "
                "of the brokers' ZooKeeper, and it is done there, as Kafka's tools of that time did"
            )
        if self._session is None:
            self._check_open()
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
            self._session = session
        return self._session

    def _client(self) -> ClientConfig:
        client = self.config.client
        if client.bootstrap:
            return client
        session = self.zookeeper("finding the brokers", "bootstrap.servers is not set")
        metadata = ZooKeeperMetadata(session, protocol=client.security.protocol)
        return replace(client, bootstrap=metadata.bootstrap())

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

    def version(self, api: Api) -> int | None:
        """Return the version of a call that brokers accept; None if they do not have it.

        One broker is asked for all: during an upgrade of the cluster the call may still be refused.
        """
        theirs = self._versions()
        return theirs.version_for(api) if api.key in theirs.ranges else None

    def has(self, api: Api) -> bool:
        """Whether brokers have this call."""
        return self.version(api) is not None

    def no_such_call(self, api: Api) -> str:
        """Return a text that says that brokers do not have this call."""
        theirs = self._versions()
        generation = f" {theirs.generation}" if theirs.generation else ""
        return f"the broker{generation} has no {api.name} call"

    def _versions(self) -> PeerVersions:
        """The versions of a broker; the last known ones if no broker can be reached."""
        try:
            self._spoken = self.pool.to_any().versions
        except ConnectionLost:
            if self._spoken is None:
                raise
        return self._spoken

    def view(self, topics: Iterable[str] | None, purpose: str) -> ClusterView:
        """Call `view_once` with retries."""
        names = None if topics is None else list(topics)
        return only(
            self.settle([purpose], lambda _: {purpose: self.view_once(names, purpose)}, is_repeatable=True)
        )

    def view_once(self, topics: Iterable[str] | None, purpose: str) -> ClusterView:
        """Look up the cluster with these topics, or with None all. A topic that does not exist has error 3.

        Brokers before 0.11 create a topic that is requested by name, so all topics are requested, or
        ZooKeeper is asked.
        """
        version = self.version(MetadataRequest.API)
        if version is not None and version >= _CREATION_IS_ASKED_SINCE:
            metadata = self.metadata
            return (
                metadata.refresh_all(reason=purpose)
                if topics is None
                else metadata.refresh(topics, reason=purpose)
            )
        if self.has_zookeeper:
            session = self.zookeeper(purpose, "")
            registered = ZooKeeperMetadata(session, protocol=self.config.client.security.protocol)
            return registered.view(topics, now_ms=self._clock.now_ms())
        return self.metadata.refresh_all(reason=purpose)

    # --- retries

    def deadline(self) -> Deadline:
        """The time limit of a call that begins now."""
        return Deadline(self._clock, self.config.api_timeout_ms)

    def tries(self, deadline: Deadline) -> Iterable[int]:
        """Yield 0, 1, 2, … with pauses, until the deadline."""
        return attempts(self._backoff, deadline, self._chance)

    def settle(
        self,
        keys: Iterable[K],
        attempt: Callable[[list[K]], Mapping[K, V | OttlaError]],
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
        _ = self.pool  # a cluster that cannot be reached at all fails at once
        for _ in self.tries(self.deadline()):
            try:
                failure, results = None, dict(attempt(pending))
            except OttlaError as error:
                failure, results = error, dict.fromkeys(pending, error)
            outcomes.update({key: results[key] if key in results else _left_out(key) for key in pending})
            again = [key for key in pending if _is_temporary(outcomes[key], is_repeatable=is_repeatable)]
            if not again:
                break
            self._prepare([outcomes[key] for key in again])
            pending = again
        if failure is not None and len(pending) == len(outcomes):
            raise failure
        return outcomes

    def _prepare(self, failed: Iterable[object]) -> None:
        errors = [error for error in failed if isinstance(error, OttlaError)]
        log.info("trying again: %s", errors[0])
        if any(action_about(error) is Action.REFRESH for error in errors):
            try:
                self.metadata.refresh((), reason="an administrative call failed")
            except OttlaError as error:
                log.info("the cluster does not answer: %s", error)

    # --- the end

    def close(self) -> None:
        """Close all connections. May be called twice."""
        self._is_closed = True
        for opened in (self._pool, self._metadata, self._session):
            if opened is not None:
                opened.close()
        self._pool = self._metadata = self._session = None


def _left_out(key: object) -> OttlaError:
    return RemoteProtocolError(f"the broker's answer leaves {key} out")


def _is_temporary(outcome: object, *, is_repeatable: bool) -> bool:
    """Whether a retry may help and does no harm."""
    if not isinstance(outcome, OttlaError) or action_about(outcome) is Action.FAIL:
        return False
    if isinstance(outcome, KafkaError):
        # Nobody creates the topic while we wait: fail at once.
        if outcome.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        return is_repeatable or outcome.code not in _OUTCOME_UNKNOWN
    if isinstance(outcome, BrokerUnreachable):
        return True
    return is_repeatable and isinstance(outcome, ConnectionLost | RequestTimedOut)
