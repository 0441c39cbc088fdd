"""Reading with watches: a node that was read raises a flag when it changes.

A node has at most one watch: a topic whose leaders move a thousand times is read a thousand times, and must
not collect a thousand watches. Reading a node again, after its flag was raised, sets a new watch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.broker.registration.flags import Flags
from ottla.zookeeper import recipes
from ottla.zookeeper.session import Watch, WatchEvent, Znode, ZnodeStat, ZooKeeperSession
from ottla.zookeeper.zookeeper_errors import NoNode

_Answer = TypeVar("_Answer")


class WatchedReads:
    """Used by one thread; only the watches run in others."""

    def __init__(self, session: ZooKeeperSession, flags: Flags) -> None:
        self._session = session
        self._flags = flags
        self._armed: set[str] = set()

    def get(self, path: str) -> Znode | None:
        """Return the node and watch it. If it does not exist, return None; then nothing is watched."""
        znode = self._read(path, lambda watch: recipes.read_if_present(self._session, path, watch))
        if znode is None:
            self._armed.discard(path)
        return znode

    def exists(self, path: str) -> ZnodeStat | None:
        """Return the node's stat, or None. It is watched in both cases."""
        return self._read(path, lambda watch: self._session.exists(path, watch))

    def children(self, path: str) -> tuple[str, ...]:
        """Return the children of a node that must exist: it is created again if it was deleted."""
        try:
            return self._read(path, lambda watch: self._session.children(path, watch))
        except NoNode:
            self._session.ensure(path)
            return self._read(path, lambda watch: self._session.children(path, watch))

    def fired(self, paths: Iterable[str]) -> None:
        """Note that these watches have fired."""
        self._armed.difference_update(paths)

    def forget(self) -> None:
        """Forget all watches: there is a new session."""
        self._armed.clear()

    def _read(self, path: str, read: Callable[[Watch | None], _Answer]) -> _Answer:
        watch = None if path in self._armed else self._fire
        self._armed.add(path)
        try:
            return read(watch)
        except BaseException:
            self._armed.discard(path)
            raise

    def _fire(self, event: WatchEvent) -> None:
        self._flags.raise_path(event.path)
