"""The interface to ZooKeeper: the operations of a session, and their values.

`ZooKeeperSession` is implemented by `kazoo_session` (a real ensemble) and by `memory_session` (a tree in
this process); the same contract tests run on both. Code that needs ZooKeeper takes a session as an argument.

A session's life, as its listeners see it:

            connect()             connection cut             expired meanwhile
    LOST ────────────▶ CONNECTED ────────────▶ SUSPENDED ─────────────────────▶ LOST
                           ▲                       │                             │
                           ├──── same session ─────┘                             │
                           └──── a new session, a new `session_id` ──────────────┘

- SUSPENDED: it is not known whether the session lives. Its ephemerals may be gone already, so what is owned
  through them must not be used until CONNECTED comes with the same `session_id`.
- LOST: its ephemerals are gone. The adapter starts a new session by itself and reports CONNECTED again.
- An operation while SUSPENDED raises ZooKeeperConnectionLost at once, without being sent. One that was under
  way when the connection broke raises ZooKeeperConnectionLost too, and may have been performed.

Watches fire once. `WatchKind.INTERRUPTED` means that the connection was cut and the watch with it: arm it
again after CONNECTED, then read. Listeners and watches run on a thread of the adapter: they must not block,
raise, or call the session; set a flag and return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Protocol, Self

ANY_VERSION = -1
"""Set, delete or check a node whatever its version is."""

DATA_BYTES_MAX = 1_000_000
"""The largest data of a request. A server closes the connection on a request above 1,048,575 bytes, which
would look like a network fault that never ends; so it is refused here. The rest is room for paths."""

CHILDREN_MAX = 100_000
"""The most children that a read returns: far above any real number of topics, members or partitions."""

OPERATIONS_MAX = 10_000
"""The most operations of a transaction."""


class SessionState(Enum):
    """The states of a session; the picture in the module's docstring shows the changes."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class CreateMode(Enum):
    """How long a node lives, and whether the server adds a number to its name."""

    PERSISTENT = "persistent"
    EPHEMERAL = "ephemeral"
    PERSISTENT_SEQUENTIAL = "persistent sequential"
    EPHEMERAL_SEQUENTIAL = "ephemeral sequential"

    @property
    def ephemeral(self) -> bool:
        """Whether the node is deleted with its session."""
        return self in {CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL}

    @property
    def sequential(self) -> bool:
        """Whether the server puts a number of ten digits after the name."""
        return self in {CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL}


class WatchKind(Enum):
    """Why a watch fired."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class WatchEvent:
    """A watch fired for `path`, which is the path that was watched."""

    kind: WatchKind
    path: str


Watch = Callable[[WatchEvent], None]
StateListener = Callable[[SessionState], None]


@dataclass(frozen=True)
class ZnodeStat:
    """What the server keeps about a node. `ephemeral_owner` is a session id, 0 for a persistent node."""

    version: int
    children_version: int
    children_count: int
    data_bytes: int
    ephemeral_owner: int
    created_zxid: int
    modified_zxid: int


@dataclass(frozen=True)
class Znode:
    """A node, as it was read."""

    data: bytes
    stat: ZnodeStat


@dataclass(frozen=True)
class CreateOperation:
    """Part of a transaction: create a node; its result is the path."""

    path: str
    data: bytes = b""
    mode: CreateMode = CreateMode.PERSISTENT


@dataclass(frozen=True)
class SetOperation:
    """Part of a transaction: replace data; its result is the path."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True)
class DeleteOperation:
    """Part of a transaction: delete a node; its result is the path."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True)
class CheckOperation:
    """Part of a transaction: fail it all unless the node has this version; its result is the path."""

    path: str
    version: int


Operation = CreateOperation | SetOperation | DeleteOperation | CheckOperation


@dataclass(frozen=True)
class SessionLimits:
    """The limits of what a session sends and accepts."""

    data_bytes_max: int = DATA_BYTES_MAX
    children_max: int = CHILDREN_MAX
    operations_max: int = OPERATIONS_MAX


class ZooKeeperSession(Protocol):
    """One client of ZooKeeper. Any thread may call it, except for the thread that runs watches and listeners.

    Every operation raises ZooKeeperConnectionLost, SessionLost or SessionClosed when there is no session to
    perform it, LimitExceeded when it is too large, ConfigError when the path is not valid.
    """

    @property
    def state(self) -> SessionState:
        """LOST before `connect` and after `close`."""

    @property
    def session_id(self) -> int:
        """The id of the current or suspended session; 0 when there is none. Equals `ephemeral_owner`."""

    @property
    def session_timeout_ms(self) -> int:
        """The timeout that the server granted, which may differ from the requested one; 0 before the first
        session."""

    def connect(self) -> None:
        """Start the session and wait for it. Raises ZooKeeperConnectionLost after the connection timeout."""

    def close(self) -> None:
        """End the session, which removes its ephemerals. May be called twice; watches end silently."""

    def add_listener(self, listener: StateListener) -> None:
        """Call the listener at every later change of state; adding it twice has no effect."""

    def remove_listener(self, listener: StateListener) -> None:
        """Do not call the listener any more; an unknown listener is ignored."""

    def create(self, path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT) -> str:
        """Create a node and return its path. Raises NodeExists, NoNode (no parent),
        NoChildrenForEphemerals.
        """

    def create_with_parents(
        self, path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT
    ) -> str:
        """Create a node and its missing parents (persistent, empty, also those of the chroot).

        Returns its path.
        """

    def ensure(self, path: str) -> None:
        """Create the node and its parents, persistent and empty, unless they exist."""

    def get(self, path: str, watch: Watch | None = None) -> Znode:
        """Read a node. Raises NoNode; then no watch is set. The watch fires on change and deletion."""

    def exists(self, path: str, watch: Watch | None = None) -> ZnodeStat | None:
        """Return the stat of a node, or None.

        The watch fires on creation, change and deletion, and is set in both cases.
        """

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        """Return the sorted names of a node's children. Raises NoNode.

        The watch fires on new and deleted children, and on deletion.
        """

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> ZnodeStat:
        """Replace a node's data. Raises NoNode, BadVersion."""

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node. Raises NoNode, BadVersion, NotEmpty."""

    def commit(self, operations: Sequence[Operation]) -> tuple[str, ...]:
        """Perform all operations in order, or none, and return their paths. Raises the error of the
        operation that failed."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
