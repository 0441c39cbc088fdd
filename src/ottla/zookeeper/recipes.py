"""Small compositions over the port that Kafka's own code repeats everywhere (spec §1.8).

They hold no state and work on any session. Each says what happens when another client, or our own earlier
attempt whose answer was lost, came first.
"""

from __future__ import annotations

import logging
import re

from ottla.model.errors import ConfigError
from ottla.zookeeper import paths
from ottla.zookeeper.errors import NodeExists, NoNode, SessionLost
from ottla.zookeeper.session import CreateMode, Watch, Znode, ZooKeeperSession

log = logging.getLogger(__name__)

_DIGITS = re.compile("[0-9]{1,10}")
RACES_MAX = 10
"""How often a node may appear and vanish under our hands before we give up: each turn needs another
client that acts between two of our requests, so a larger number means a fight, not a race."""


def claim_ephemeral(session: ZooKeeperSession, path: str, data: bytes) -> None:
    """Make the ephemeral node ours, or raise NodeExists because another session holds it.

    A node that is there already counts as ours only if this very session made it with this data (an answer
    was lost and the create repeated). Kafka 0.8 compared the data alone; then a leftover of our own former
    session, which the server is about to remove, would pass for a valid claim:

        old session writes "g_a-0" → expires at the client → new session sees "g_a-0" → "mine" → node vanishes

    SessionLost when the session changed on the way: the node may then hang on a session that the caller
    knows nothing of, so it is taken back. Ids of sessions never return, so one id before and after means
    one session throughout.
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
            found = read_if_present(session, path)
            if found is None:
                continue  # it vanished between the two requests, so it is free again
            if found.stat.ephemeral_owner == session.session_id and found.data == data:
                return
            raise
        return
    raise NodeExists(path)


def write_persistent(session: ZooKeeperSession, path: str, data: bytes) -> None:
    """Set the node's data, making the node and its parents where they are missing."""
    for _ in range(RACES_MAX):
        try:
            session.set(path, data)
        except NoNode:
            try:
                session.create_with_parents(path, data)
            except NodeExists:
                continue  # another client made it meanwhile; what it wrote is replaced, as by a set
        return
    raise NoNode(path)


def delete_if_present(session: ZooKeeperSession, path: str) -> bool:
    """Delete the node; whether it was there."""
    try:
        session.delete(path)
    except NoNode:
        return False
    return True


def release_ephemeral(session: ZooKeeperSession, path: str, data: bytes) -> bool:
    """Delete the node if this session made it with this data; whether that was so.

    The check of the version keeps us from deleting what another put there between our read and our delete
    only as far as versions go: a node that was deleted and made again has version 0 like ours. But another
    session cannot make it while ours exists, and only we delete ours.
    """
    found = read_if_present(session, path)
    if found is None or found.stat.ephemeral_owner != session.session_id or found.data != data:
        return False
    return delete_if_present(session, path)


def read_if_present(session: ZooKeeperSession, path: str, watch: Watch | None = None) -> Znode | None:
    """The node, or None. With None no watch is left behind: use `exists` to wait for a node."""
    try:
        return session.get(path, watch)
    except NoNode:
        return None


def children_if_present(session: ZooKeeperSession, path: str, watch: Watch | None = None) -> tuple[str, ...]:
    """The names below a node; none when the node itself is missing."""
    try:
        return session.children(path, watch)
    except NoNode:
        return ()


def topic_names(session: ZooKeeperSession) -> tuple[str, ...]:
    """The topics that are registered; nodes among them that cannot be topics are left out, with a line."""
    found = []
    for name in children_if_present(session, paths.TOPICS):
        try:
            found.append(paths.checked_topic(name))
        except ConfigError as error:
            log.warning("%s left out: %s", paths.child(paths.TOPICS, name), error)
    return tuple(found)


def broker_ids(session: ZooKeeperSession) -> tuple[int, ...]:
    """The brokers that are up, in order."""
    names = children_if_present(session, paths.BROKER_IDS)
    ids = (int(name) for name in names if _DIGITS.fullmatch(name))
    return tuple(sorted(number for number in ids if number <= paths.PARTITION_MAX))


def delete_tree(session: ZooKeeperSession, path: str) -> None:
    """Delete a node and everything below it, leaves first; what vanishes meanwhile is fine."""
    pending = [path]
    while pending:
        top = pending[-1]
        names = children_if_present(session, top)
        if names:
            pending.extend(paths.child(top, name) for name in names)
        else:
            delete_if_present(session, top)
            pending.pop()
