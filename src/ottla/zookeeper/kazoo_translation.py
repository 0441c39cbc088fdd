"""kazoo's states, events, stats and errors as those of our interface: tables and pure functions."""

from __future__ import annotations

from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.protocol.states import EventType, KazooState

from ottla.zookeeper.session import SessionState, WatchKind, ZnodeStat
from ottla.zookeeper.zookeeper_errors import (
    AccessDenied,
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionClosed,
    SessionLost,
    ZooKeeperConnectionLost,
    ZooKeeperError,
)

STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}
KINDS = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.CHILD: WatchKind.CHILDREN,
}
_NODE_ERRORS = {
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
}


def stat_of(stat: Any) -> ZnodeStat:
    """Return kazoo's ZnodeStat as ours."""
    return ZnodeStat(
        version=stat.version,
        children_version=stat.cversion,
        children_count=stat.numChildren,
        data_bytes=stat.dataLength,
        ephemeral_owner=stat.ephemeralOwner,
        created_zxid=stat.czxid,
        modified_zxid=stat.mzxid,
    )


def translated(path: str, error: Exception) -> ZooKeeperError:
    """Return the error to raise for what kazoo raised about `path`."""
    node_error = _NODE_ERRORS.get(type(error))
    if node_error is not None:
        return node_error(path)
    if isinstance(error, kazoo_errors.SessionExpiredError):
        return SessionLost(f"{path}: the ZooKeeper session expired")
    if isinstance(error, kazoo_errors.ConnectionClosedError):
        return SessionClosed(f"{path}: the ZooKeeper session was closed")
    if isinstance(error, kazoo_errors.ConnectionLoss | OSError):
        return ZooKeeperConnectionLost(f"{path}: the connection broke; whether it was done is not known")
    if isinstance(error, kazoo_errors.NoAuthError | kazoo_errors.AuthFailedError):
        return AccessDenied(f"{path}: the server denies access ({type(error).__name__})")
    return ZooKeeperError(f"{path}: {type(error).__name__} {error}".rstrip())
