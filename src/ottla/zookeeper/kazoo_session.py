"""ZooKeeperSession on a real ensemble, with kazoo.

Owns one KazooClient and translates: paths get the chroot, kazoo's exceptions become ours, kazoo's states
become SessionState. kazoo runs three threads for us: one reads and writes the socket and reports changes of
state, one runs watches, one completions. None of them may wait for another, so every operation is sent
asynchronously and waited for on the caller's thread, with a limit.

Three habits of kazoo that are hidden from callers:

- A request made while disconnected waits in kazoo's queue and is sent after the reconnect, perhaps by
  another session than the caller thought of. Here it is refused instead (a request can still slip in
  between the check and the cut: that is what "the outcome is unknown" of ZooKeeperConnectionLost covers).
- A watch is kept in a set by the function's identity, so that two equal ones fire once. Here each is
  wrapped in its own object.
- Reconnecting backs off to an hour by default. Here it stays at a second.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

from ottla.model.closing import Closing
from ottla.model.errors import ConfigError
from ottla.zookeeper.kazoo_translation import KINDS, STATES, stat_of, translated
from ottla.zookeeper.login import ZooKeeperLogin
from ottla.zookeeper.paths import (
    checked_path,
    lineage,
    parent,
    parse_connect,
    with_chroot,
    without_chroot,
)
from ottla.zookeeper.session import (
    ANY_VERSION,
    CheckOperation,
    CreateMode,
    CreateOperation,
    DeleteOperation,
    Operation,
    SessionLimits,
    SessionState,
    SetOperation,
    StateListener,
    Watch,
    WatchEvent,
    WatchKind,
    Znode,
    ZnodeStat,
)
from ottla.zookeeper.session_checks import check_children, check_data, check_new_path, check_operations
from ottla.zookeeper.zookeeper_errors import (
    AccessDenied,
    NodeExists,
    NoNode,
    SessionClosed,
    SessionLost,
    ZooKeeperConnectionLost,
    ZooKeeperError,
)

_log = logging.getLogger(__name__)

_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.2, "max_delay": 1.0}
"""Reconnect for ever and with short pauses: a group is idle while its members are SUSPENDED."""


class _KazooLog(logging.LoggerAdapter[logging.Logger]):
    """Writes kazoo's log at DEBUG, except for errors: kazoo repeats itself with every attempt to connect."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a line of kazoo's."""
        super().log(level if level >= logging.ERROR else min(level, logging.DEBUG), msg, *args, **kwargs)


@dataclass(frozen=True)
class KazooSettings:
    """How to reach an ensemble. The timeouts are Kafka's zookeeper.session/connection.timeout.ms."""

    connect: str
    session_timeout_ms: int = 6000
    connection_timeout_ms: int = 6000
    request_timeout_ms: int = 30_000
    """The longest wait for an answer: far above a slow server's, because a cut connection is noticed
    sooner."""
    limits: SessionLimits = field(default_factory=SessionLimits)
    login: ZooKeeperLogin = field(default_factory=ZooKeeperLogin)

    def __post_init__(self) -> None:
        for name in ("session_timeout_ms", "connection_timeout_ms", "request_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}: it must be positive")


class KazooZooKeeperSession(Closing):
    """A session of a real ensemble; implements ZooKeeperSession. Made without connecting."""

    def __init__(self, settings: KazooSettings) -> None:
        address = parse_connect(settings.connect)
        self._settings = settings
        self._limits = settings.limits
        self._chroot = address.chroot
        self._hosts = ",".join(address.hosts)
        self._client: Any = None
        self._lifecycle = threading.Lock()
        self._state = SessionState.LOST
        self._session_id = 0
        self._timeout_ms = 0
        self._listeners: tuple[StateListener, ...] = ()
        self._connected = threading.Event()

    @property
    def state(self) -> SessionState:
        """See ZooKeeperSession."""
        return self._state

    @property
    def session_id(self) -> int:
        """See ZooKeeperSession."""
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        """See ZooKeeperSession."""
        return self._timeout_ms

    @property
    def credentials(self) -> tuple[int, bytes]:
        """Id and password of the current session; with them it can be taken over or ended."""
        client_id = self._running().client_id
        if client_id is None:
            raise ZooKeeperConnectionLost("there is no connection, so the session's password is not known")
        return int(client_id[0]), bytes(client_id[1])

    def connect(self) -> None:
        """See ZooKeeperSession."""
        with self._lifecycle:
            if self._client is not None:
                return
            self._connected.clear()
            client = self._new_client()
            self._client = client
        client.start_async()
        # kazoo's own event is set before its listeners are called, when our state is still LOST.
        if self._connected.wait(self._settings.connection_timeout_ms / 1000):
            self._check_login()
            return
        self.close()
        raise ZooKeeperConnectionLost(
            f"no ZooKeeper server at {self._hosts} answered within "
            f"{self._settings.connection_timeout_ms} ms: is it running, and is zookeeper.connect right?"
        )

    def _check_login(self) -> None:
        """Send a first request, which shows whether the login by SASL worked: kazoo counts as connected
        before it.
        """
        if not self._settings.login.has_sasl:
            return
        try:
            self.exists("/")
        except ZooKeeperError as error:
            self.close()
            raise AccessDenied(
                f"ZooKeeper at {self._hosts} refused user {self._settings.login.username!r} ({error}): check "
                "zookeeper.sasl.username and zookeeper.sasl.password, and the server's JAAS file"
            ) from error

    def close(self) -> None:
        """See ZooKeeperSession. Not from a watch or a listener: it waits for their threads."""
        with self._lifecycle:
            client, self._client = self._client, None
        if client is None:
            return
        try:
            client.stop()
            client.close()
        except (kazoo_errors.KazooException, KazooTimeoutError, OSError) as error:
            # The session then ends by its timeout; a shutdown must not fail because of it.
            _log.warning("closing the ZooKeeper session to %s: %r", self._hosts, error)
        self._changed(SessionState.LOST)

    def add_listener(self, listener: StateListener) -> None:
        """See ZooKeeperSession."""
        with self._lifecycle:
            if listener not in self._listeners:
                self._listeners += (listener,)

    def remove_listener(self, listener: StateListener) -> None:
        """See ZooKeeperSession."""
        with self._lifecycle:
            self._listeners = tuple(known for known in self._listeners if known != listener)

    def create(self, path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT) -> str:
        """See ZooKeeperSession."""
        check_new_path(path)
        return self._create(self._at(path), path, data, mode)

    def create_with_parents(
        self, path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT
    ) -> str:
        """See ZooKeeperSession."""
        try:
            return self.create(path, data, mode)
        except NoNode:
            self.ensure(parent(path))
            return self.create(path, data, mode)

    def ensure(self, path: str) -> None:
        """See ZooKeeperSession."""
        if self.exists(path) is None:
            for node in lineage(self._at(path)):
                with suppress(NodeExists):
                    self._create(node, path, b"", CreateMode.PERSISTENT)

    def get(self, path: str, watch: Watch | None = None) -> Znode:
        """See ZooKeeperSession."""
        call = partial(self._running().get_async, self._at(path), self._watcher(path, watch))
        data, stat = self._answer(path, call)
        # A node that was created without data has None, which is not the same to the server as empty data.
        data = data or b""
        check_data(self._limits, path, data)
        return Znode(data, stat_of(stat))

    def exists(self, path: str, watch: Watch | None = None) -> ZnodeStat | None:
        """See ZooKeeperSession."""
        call = partial(self._running().exists_async, self._at(path), self._watcher(path, watch))
        stat = self._answer(path, call)
        return None if stat is None else stat_of(stat)

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        """See ZooKeeperSession."""
        call = partial(self._running().get_children_async, self._at(path), self._watcher(path, watch))
        names = self._answer(path, call)
        check_children(self._limits, path, len(names))
        return tuple(sorted(names))

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> ZnodeStat:
        """See ZooKeeperSession."""
        check_data(self._limits, path, data)
        return stat_of(self._answer(path, partial(self._running().set_async, self._at(path), data, version)))

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See ZooKeeperSession."""
        check_new_path(path)
        self._answer(path, partial(self._running().delete_async, self._at(path), version))

    def commit(self, operations: Sequence[Operation]) -> tuple[str, ...]:
        """See ZooKeeperSession."""
        check_operations(self._limits, operations)
        transaction = self._running().transaction()
        for operation in operations:
            self._add(transaction, operation)
        results = self._answer("a transaction", transaction.commit_async)
        for operation, result in zip(operations, results, strict=True):
            # Operations before the failed one say "rolled back", those after it "not performed".
            if isinstance(result, Exception) and not isinstance(
                result, kazoo_errors.RolledBackError | kazoo_errors.RuntimeInconsistency
            ):
                raise translated(operation.path, result)
        return tuple(
            without_chroot(self._chroot, result) if isinstance(operation, CreateOperation) else operation.path
            for operation, result in zip(operations, results, strict=True)
        )

    def __enter__(self) -> Self:
        self.connect()
        return self

    def _new_client(self) -> Any:
        login = self._settings.login
        digest = [("digest", f"{login.username}:{login.password}")]
        sasl = {"mechanism": "DIGEST-MD5", "username": login.username, "password": login.password}
        client = KazooClient(
            hosts=self._hosts,
            auth_data=digest if login.username and not login.has_sasl else None,
            sasl_options=sasl if login.has_sasl else None,
            default_acl=CREATOR_ALL_ACL + READ_ACL_UNSAFE if login.sets_acl else None,
            timeout=self._settings.session_timeout_ms / 1000,
            connection_retry=dict(_RECONNECT),
            logger=_KazooLog(_log),
        )
        client.add_listener(partial(self._kazoo_changed, client))
        # kazoo does not expose the granted timeout: it is a field of the answer to Connect, the only
        # request without a type. Taken where the answer arrives, before CONNECTED is reported.
        invoke = client._connection._invoke

        def noticing(*arguments: Any, **named: Any) -> Any:
            answer = invoke(*arguments, **named)
            granted = getattr(answer[0], "time_out", 0) if isinstance(answer, tuple) else 0
            if granted > 0:
                self._timeout_ms = int(granted)
            return answer

        client._connection._invoke = noticing
        return client

    def _kazoo_changed(self, client: Any, state: str) -> None:
        # On kazoo's connection thread. Events of a closed client are ignored.
        if client is not self._client:
            return
        if state == KazooState.CONNECTED:
            self._session_id = int(client.client_id[0])
        elif state == KazooState.LOST:
            self._session_id = 0
        if state == KazooState.SUSPENDED and self._state is SessionState.CONNECTED:
            _log.warning("the connection to ZooKeeper at %s is cut; it is tried again", self._hosts)
        elif state == KazooState.CONNECTED and self._connected.is_set():
            _log.warning("ZooKeeper at %s answers again", self._hosts)
        self._changed(STATES[state])
        if state == KazooState.CONNECTED:
            self._connected.set()

    def _changed(self, state: SessionState) -> None:
        if self._client is None:
            self._session_id = 0
        if state is not self._state:
            self._state = state
            for listener in self._listeners:
                listener(state)

    def _running(self) -> Any:
        client = self._client
        if client is None:
            raise SessionClosed("the ZooKeeper session is not connected: call connect() first")
        if self._state is SessionState.SUSPENDED:
            raise ZooKeeperConnectionLost(
                f"the connection to ZooKeeper at {self._hosts} is cut; nothing was sent"
            )
        if self._state is SessionState.LOST:
            raise SessionLost(f"the ZooKeeper session at {self._hosts} expired; a new one is not there yet")
        return client

    def _at(self, path: str) -> str:
        return with_chroot(self._chroot, checked_path(path))

    def _create(self, full_path: str, path: str, data: bytes, mode: CreateMode) -> str:
        check_data(self._limits, path, data)
        call = partial(
            self._running().create_async,
            full_path,
            data,
            ephemeral=mode.ephemeral,
            sequence=mode.sequential,
        )
        return without_chroot(self._chroot, str(self._answer(path, call)))

    def _watcher(self, path: str, watch: Watch | None) -> Callable[[WatchedEvent], None] | None:
        if watch is None:
            return None
        client = self._client

        def fire(event: WatchedEvent) -> None:
            if self._client is client:
                watch(WatchEvent(KINDS.get(event.type, WatchKind.INTERRUPTED), path))

        return fire

    def _add(self, transaction: Any, operation: Operation) -> None:
        path = self._at(operation.path)
        match operation:
            case CreateOperation(data=data, mode=mode):
                transaction.create(path, data, ephemeral=mode.ephemeral, sequence=mode.sequential)
            case SetOperation(data=data, version=version):
                transaction.set_data(path, data, version)
            case DeleteOperation(version=version):
                transaction.delete(path, version)
            case CheckOperation(version=version):
                transaction.check(path, version)

    def _answer(self, path: str, call: Callable[[], Any]) -> Any:
        try:
            return call().get(timeout=self._settings.request_timeout_ms / 1000)
        except KazooTimeoutError:
            raise ZooKeeperConnectionLost(
                f"{path}: ZooKeeper at {self._hosts} gave no answer within "
                f"{self._settings.request_timeout_ms} ms; whether it was done is not known"
            ) from None
        except (kazoo_errors.KazooException, OSError) as error:
            raise translated(path, error) from error
