"""Reading with watches: a node that was read raises a flag when it changes.

A watch is left where there is none, once: a topic whose leaders move a thousand times is read as often, and
must not collect a thousand watches. Whoever reads again after the flag arms it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.broker.registration.flags import Flags
from ottla.zookeeper import recipes
from ottla.zookeeper.errors import NoNode
from ottla.zookeeper.session import Watch, WatchEvent, Znode, ZnodeStat, ZooKeeperSession

_Answer = TypeVar("_Answer")


class WatchedReads:
    """Of one thread; only the watches run elsewhere."""

    def __init__(self, session: ZooKeeperSession, flags: Flags) -> None:
        self._session = session
        self._flags = flags
        self._armed: set[str] = set()

    def get(self, path: str) -> Znode | None:
        """The node, or None; then nothing is watched."""
        found = self._read(path, lambda watch: recipes.read_if_present(self._session, path, watch))
        if found is None:
            self._armed.discard(path)
        return found

    def exists(self, path: str) -> ZnodeStat | None:
        """The node's stat; whether it is there or not, it is watched."""
        return self._read(path, lambda watch: self._session.exists(path, watch))

    def children(self, path: str) -> tuple[str, ...]:
        """Names below a node that belongs there: it is made again if somebody took it away."""
        try:
            return self._read(path, lambda watch: self._session.children(path, watch))
        except NoNode:
            self._session.ensure(path)
            return self._read(path, lambda watch: self._session.children(path, watch))

    def fired(self, paths: Iterable[str]) -> None:
        """These watches are used up."""
        self._armed.difference_update(paths)

    def forget(self) -> None:
        """The session is another: no watch is left."""
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
