"""The nodes of an in-process ZooKeeper: versions, sequence numbers, ephemerals, transactions.

Owns the data and its rules, and knows no session beyond the id that owns an ephemeral. Every change returns
the events that watches would see, in order; `memory_session` knows which sessions watch. No clock, no thread,
no randomness: the same operations give the same tree, zxids included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ottla.zookeeper.paths import leaf, parent
from ottla.zookeeper.session import (
    ANY_VERSION,
    CheckOperation,
    CreateMode,
    CreateOperation,
    DeleteOperation,
    Operation,
    SetOperation,
    WatchEvent,
    WatchKind,
    Znode,
    ZnodeStat,
)
from ottla.zookeeper.zookeeper_errors import (
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    ZooKeeperError,
)


@dataclass
class _Node:
    data: bytes
    owner: int
    created_zxid: int
    modified_zxid: int
    version: int = 0
    # The server numbers sequential nodes by the children ever made, whatever became of them.
    children_made: int = 0
    names: set[str] = field(default_factory=set)

    def stat(self) -> ZnodeStat:
        return ZnodeStat(
            version=self.version,
            # Creations plus deletions: as many deletions as made children that are no longer there.
            children_version=2 * self.children_made - len(self.names),
            children_count=len(self.names),
            data_bytes=len(self.data),
            ephemeral_owner=self.owner,
            created_zxid=self.created_zxid,
            modified_zxid=self.modified_zxid,
        )


class MemoryTree:
    """The tree of one in-process ensemble."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {"/": _Node(b"", 0, 0, 0)}
        self._zxid = 0

    def read(self, path: str) -> Znode:
        """Return data and stat. Raises NoNode."""
        node = self._node(path)
        return Znode(node.data, node.stat())

    def stat(self, path: str) -> ZnodeStat | None:
        """Return the stat, or None."""
        node = self._nodes.get(path)
        return node.stat() if node else None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names of the children. Raises NoNode."""
        return tuple(sorted(self._node(path).names))

    def paths(self) -> tuple[str, ...]:
        """Return every node, sorted, for checkers and messages of failing tests."""
        return tuple(sorted(self._nodes))

    def ephemerals(self, owner: int) -> tuple[str, ...]:
        """Return the nodes of a session, in the order of their creation."""
        return tuple(path for path, node in self._nodes.items() if node.owner == owner)

    def apply(self, operations: Sequence[Operation], owner: int) -> tuple[tuple[str, ...], list[WatchEvent]]:
        """Perform all operations as one change, or none of them and raise the first error.

        Returns the path of each operation and the events of all. `owner` gets the ephemerals.
        """
        saved: dict[str, _Node | None] = {}
        self._zxid += 1
        paths: list[str] = []
        events: list[WatchEvent] = []
        try:
            for operation in operations:
                path, caused = self._perform(operation, owner, saved)
                paths.append(path)
                events += caused
        except ZooKeeperError:
            self._restore(saved)
            raise
        return tuple(paths), events

    def drop_ephemerals(self, owner: int) -> list[WatchEvent]:
        """Delete every node of a session that ended, as one change."""
        doomed = self.ephemerals(owner)
        return self.apply([DeleteOperation(path) for path in doomed], owner)[1] if doomed else []

    def _perform(
        self, operation: Operation, owner: int, saved: dict[str, _Node | None]
    ) -> tuple[str, list[WatchEvent]]:
        path = operation.path
        match operation:
            case CreateOperation():
                return self._create(operation, owner, saved)
            case SetOperation():
                return path, self._set(operation, saved)
            case DeleteOperation():
                return path, self._delete(operation, saved)
            case CheckOperation():
                self._versioned(path, operation.version)
                return path, []

    def _create(
        self, operation: CreateOperation, owner: int, saved: dict[str, _Node | None]
    ) -> tuple[str, list[WatchEvent]]:
        above_path = parent(operation.path)
        above = self._nodes.get(above_path)
        if above is None:
            raise NoNode(operation.path)
        path = operation.path
        if operation.mode.sequential:
            path += f"{above.children_made:010d}"
        if path in self._nodes:
            raise NodeExists(path)
        if above.owner:
            raise NoChildrenForEphemerals(path)
        self._save(saved, above_path, path)
        above.children_made += 1
        above.names.add(leaf(path))
        node_owner = owner if operation.mode.ephemeral else 0
        self._nodes[path] = _Node(operation.data, node_owner, self._zxid, self._zxid)
        return path, [WatchEvent(WatchKind.CREATED, path), WatchEvent(WatchKind.CHILDREN, above_path)]

    def _set(self, operation: SetOperation, saved: dict[str, _Node | None]) -> list[WatchEvent]:
        node = self._versioned(operation.path, operation.version)
        self._save(saved, operation.path)
        node.data = operation.data
        node.version += 1
        node.modified_zxid = self._zxid
        return [WatchEvent(WatchKind.CHANGED, operation.path)]

    def _delete(self, operation: DeleteOperation, saved: dict[str, _Node | None]) -> list[WatchEvent]:
        path = operation.path
        node = self._versioned(path, operation.version)
        if node.names:
            raise NotEmpty(path)
        above_path = parent(path)
        self._save(saved, above_path, path)
        self._nodes[above_path].names.discard(leaf(path))
        del self._nodes[path]
        return [WatchEvent(WatchKind.DELETED, path), WatchEvent(WatchKind.CHILDREN, above_path)]

    def _node(self, path: str) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def _versioned(self, path: str, version: int) -> _Node:
        node = self._node(path)
        if version not in {ANY_VERSION, node.version}:
            raise BadVersion(path)
        return node

    def _save(self, saved: dict[str, _Node | None], *paths: str) -> None:
        for path in paths:
            if path not in saved:
                node = self._nodes.get(path)
                saved[path] = replace(node, names=set(node.names)) if node else None

    def _restore(self, saved: dict[str, _Node | None]) -> None:
        for path, node in saved.items():
            if node is None:
                self._nodes.pop(path, None)
            else:
                self._nodes[path] = node


def creation(path: str, data: bytes, mode: CreateMode) -> list[Operation]:
    """Return one creation as the list that `MemoryTree.apply` takes."""
    return [CreateOperation(path, data, mode)]
