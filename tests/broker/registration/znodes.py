"""Looking at ZooKeeper from outside: the whole tree, and waiting for what must come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ottla.zookeeper import paths, recipes
from ottla.zookeeper.session import Znode, ZooKeeperSession

WAIT_S = 120.0
"""Longest wait for something that must happen; reached only when a test fails."""


def tree(session: ZooKeeperSession, top: str = "/") -> dict[str, Znode]:
    """All nodes, save ZooKeeper's own."""
    found: dict[str, Znode] = {}
    pending = [top]
    while pending:
        path = pending.pop()
        node = recipes.read_if_present(session, path)
        if node is None:
            continue
        found[path] = node
        names = recipes.children_if_present(session, path)
        pending += [paths.child(path, name) for name in names if name != "zookeeper"]
    return dict(sorted(found.items()))


def await_node(
    session: ZooKeeperSession, path: str, wanted: Callable[[bytes], bool] = lambda _: True
) -> Znode:
    """The node as soon as it is there and its data are as wanted."""
    end = time.monotonic() + WAIT_S
    while True:
        changed = threading.Event()
        session.exists(path, lambda _: changed.set())  # noqa: B023 - one for each turn
        found = recipes.read_if_present(session, path)
        if found is not None and wanted(found.data):
            return found
        assert changed.wait(end - time.monotonic()), f"{path} is {found.data if found else None!r}"


def await_gone(session: ZooKeeperSession, path: str) -> None:
    """Wait until the node is not there."""
    end = time.monotonic() + WAIT_S
    while True:
        changed = threading.Event()
        if session.exists(path, lambda _: changed.set()) is None:  # noqa: B023 - one for each turn
            return
        assert changed.wait(end - time.monotonic()), f"{path} is still there"
