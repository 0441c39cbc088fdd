"""Small operations on a session that Kafka's own code repeats everywhere.

They have no state and work on any session. Each says what happens if another client, or our own earlier
attempt whose answer was lost, was faster.
"""

from __future__ import annotations

import logging
import re

from ottla.model.errors import ConfigError
from ottla.zookeeper import paths
from ottla.zookeeper.session import CreateMode, Watch, Znode, ZooKeeperSession
from ottla.zookeeper.zookeeper_errors import NodeExists, NoNode, SessionLost

log = logging.getLogger(__name__)

_DIGITS = re.compile("[0-9]{1,10}")
RACES_MAX = 10
"""How often a node may appear and vanish between two of our requests before we give up.

Each time needs another client that acts in between, so more than that is not by chance.
"""


def claim_ephemeral(session: ZooKeeperSession, path: str, data: bytes) -> None:
    """Create the ephemeral node. Raises NodeExists if another session holds it.

    A node that exists counts as ours only if this very session made it with this data (an answer was lost and
    the create was repeated). Kafka 0.8 compared only the data; then a node of our own former session, which
    the server is about to remove, would pass for a valid claim:

        old session writes "g_a-0" → expires at the client → new session sees "g_a-0" → "mine" → node vanishes

    Raises SessionLost if the session changed meanwhile: the node may belong to a session that the caller does
    not know, so it is deleted. Session ids are never reused, so the same id before and after means the same
    session throughout.
    """
    session_id = session.session_id
    _claim(session, path, data)
    if session.session_id != session_id:
        release_ephemeral(session, path, data)
        raise SessionLost(f"{path}: the ZooKeeper session changed during the claim")


def _claim(session: ZooKeeperSession, path: str, data: bytes) -> None:
    for _ in range(RACES_MAX):
        try:
            session.create_with_parents(path, data, CreateMode.EPHEMERAL)
        except NodeExists:
            node = read_if_present(session, path)
            if node is None:
                continue  # it vanished between the two requests, so it is free again
            if node.stat.ephemeral_owner == session.session_id and node.data == data:
                return
            raise
        return
    raise NodeExists(path)


def write_persistent(session: ZooKeeperSession, path: str, data: bytes) -> None:
    """Set the data of a node; creates the node and its parents if they are missing."""
    for _ in range(RACES_MAX):
        try:
            session.set(path, data)
        except NoNode:
            try:
                session.create_with_parents(path, data)
            except NodeExists:
                continue  # another client created it meanwhile; its data is replaced
        return
    raise NoNode(path)


def delete_if_present(session: ZooKeeperSession, path: str) -> bool:
    """Delete the node, and return whether it existed."""
    try:
        session.delete(path)
    except NoNode:
        return False
    return True


def release_ephemeral(session: ZooKeeperSession, path: str, data: bytes) -> bool:
    """Delete the node if this session made it with this data, and return whether it did.

    Nobody else can put a node there between our read and our delete: another session cannot create it while
    ours exists, and only we delete ours.
    """
    node = read_if_present(session, path)
    if node is None or node.stat.ephemeral_owner != session.session_id or node.data != data:
        return False
    return delete_if_present(session, path)


def read_if_present(session: ZooKeeperSession, path: str, watch: Watch | None = None) -> Znode | None:
    """Return the node, or None if it is missing; then no watch is set (use `exists` to wait for a node)."""
    try:
        return session.get(path, watch)
    except NoNode:
        return None


def children_if_present(session: ZooKeeperSession, path: str, watch: Watch | None = None) -> tuple[str, ...]:
    """Return the names of a node's children; () if the node is missing."""
    try:
        return session.children(path, watch)
    except NoNode:
        return ()


def topic_names(session: ZooKeeperSession) -> tuple[str, ...]:
    """Return the registered topics. Nodes whose names cannot be topics are logged and left out."""
    topics = []
    for name in children_if_present(session, paths.TOPICS):
        try:
            topics.append(paths.checked_topic(name))
        except ConfigError as error:
            log.warning("%s left out: %s", paths.child(paths.TOPICS, name), error)
    return tuple(topics)


def broker_ids(session: ZooKeeperSession) -> tuple[int, ...]:
    """Return the ids of the registered brokers, sorted."""
    names = children_if_present(session, paths.BROKER_IDS)
    ids = (int(name) for name in names if _DIGITS.fullmatch(name))
    return tuple(sorted(number for number in ids if number <= paths.PARTITION_MAX))


def delete_tree(session: ZooKeeperSession, path: str) -> None:
    """Delete a node and everything below it, leaves first. Nodes may vanish meanwhile."""
    pending = [path]
    while pending:
        top = pending[-1]
        names = children_if_present(session, top)
        if names:
            pending.extend(paths.child(top, name) for name in names)
        else:
            delete_if_present(session, top)
            pending.pop()
