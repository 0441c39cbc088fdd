"""What a member wants done: values that its logic yields and that the owner of a session performs.

The logic of a member is written as generators ("steps"). Each `yield` hands out one effect and gets its
result back, or the error raised. So the logic does no input or output, and a simulation can let anything
happen between any two effects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ottla.consumer.classic.assignors import Assignment
from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper.recipes import children_if_present, delete_if_present, read_if_present
from ottla.zookeeper.session import (
    CreateMode,
    CreateOperation,
    DeleteOperation,
    Watch,
    Znode,
    ZooKeeperSession,
)
from ottla.zookeeper.zookeeper_errors import NoNode

_Result = TypeVar("_Result")
Partitions = tuple[TopicAndPartition, ...]


class WatchKey(NamedTuple):
    """What a watch observes: the children of a node, or the node itself."""

    path: str
    is_children: bool


class Start(NamedTuple):
    """Which stream reads a partition, and from which offset; -1 if none is committed."""

    thread: ConsumerThreadId
    offset: int


# --- on ZooKeeper


@dataclass(frozen=True, slots=True)
class Children:
    """→ the sorted names of a node's children. A watched node is created if it is missing, and is not read
    again before its watch fires."""

    path: str
    watched: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """→ the node, or None if it is missing; it can be watched all the same. A watched node is not read again
    before its watch fires, unless `fresh` is set."""

    path: str
    watched: bool = False
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class CreateEphemeral:
    """Create an ephemeral node, and its parents. Raises NodeExists."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node if it exists."""

    path: str


@dataclass(frozen=True, slots=True)
class RenewEphemeral:
    """Delete and create our ephemeral node in one transaction, so that watches on its parent fire."""

    path: str
    data: bytes


ZooKeeperEffect = Children | Read | CreateEphemeral | Delete | RenewEphemeral


# --- in this process and on brokers


@dataclass(frozen=True, slots=True)
class StopFetching:
    """Stop reading these partitions and drop what was fetched; afterwards no stream hands out any of it.

    The positions of the streams are kept for a commit.
    """

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class AbandonFetching:
    """As StopFetching, but the positions are forgotten: others may own these partitions already."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit the positions of the streams in these partitions, if auto-commit is on.

    A failure is logged. Only ZooKeeperConnectionLost is raised, while the session is in doubt: what is not
    ours must not be committed.
    """

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """→ the committed offset of each partition, -1 for none."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class StartFetching:
    """Start reading these partitions, all or none."""

    starts: Mapping[TopicAndPartition, Start]


@dataclass(frozen=True, slots=True)
class NotifyReleasing:
    """Call the application's listener before others can own these partitions."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class NotifyStarting:
    """Call the application's listener with the assignment of the whole group."""

    assignment: Assignment


@dataclass(frozen=True, slots=True)
class QueryPartitions:
    """→ topic → its partitions, of these topics or of all, from brokers: where ZooKeeper has no topics."""

    topics: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class FindUnfetched:
    """→ those of our partitions that are read from no broker at present."""


LocalEffect = (
    StopFetching
    | AbandonFetching
    | CommitOffsets
    | FetchOffsets
    | StartFetching
    | NotifyReleasing
    | NotifyStarting
    | QueryPartitions
    | FindUnfetched
)
Effect = ZooKeeperEffect | LocalEffect
Steps: TypeAlias = Generator[Effect, Any, _Result]


class WatchBook:
    """Which watches are set, and what was read when they were set.

    Until a watch fires, what was read is still true, or the event is on its way. So a member reads again only
    what changed, and a change costs a group of C members C reads, not C * C.

    Owned by the thread that performs effects. `notice` runs on the session's thread and only queues the key;
    the owner calls `disarm` when it takes the key from the queue.
    """

    def __init__(self, notice: Callable[[WatchKey], None]) -> None:
        self._notice = notice
        self._seen: dict[WatchKey, Any] = {}

    def is_armed(self, key: WatchKey) -> bool:
        """Return whether the watch is set, so that `recall` has a value."""
        return key in self._seen

    def recall(self, key: WatchKey) -> Any:
        """Return what was read last."""
        return self._seen[key]

    def read(self, key: WatchKey, read: Callable[[Watch | None], _Result]) -> _Result:
        """Read, set a watch unless one is set, and remember the result."""
        is_armed = key in self._seen
        seen = read(None if is_armed else lambda _: self._notice(key))
        self._seen[key] = seen
        return seen

    def disarm(self, key: WatchKey) -> None:
        """The watch fired."""
        self._seen.pop(key, None)

    def clear(self) -> None:
        """Forget all watches: none outlives its connection."""
        self._seen.clear()


def perform_on(session: ZooKeeperSession, effect: ZooKeeperEffect, watches: WatchBook) -> object:
    """Perform an effect and return its result. Raises ZooKeeperError."""
    match effect:
        case Children(path, watched):
            return _children(session, path, watches) if watched else children_if_present(session, path)
        case Read(path, watched):
            return _read(session, effect, watches) if watched else read_if_present(session, path)
        case CreateEphemeral(path, data):
            return session.create_with_parents(path, data, CreateMode.EPHEMERAL)
        case Delete(path):
            return delete_if_present(session, path)
        case RenewEphemeral(path, data):
            operations = (DeleteOperation(path), CreateOperation(path, data, CreateMode.EPHEMERAL))
            return session.commit(operations)


def _children(session: ZooKeeperSession, path: str, watches: WatchBook) -> tuple[str, ...]:
    key = WatchKey(path, is_children=True)
    if watches.is_armed(key):
        return watches.recall(key)  # type: ignore[no-any-return]
    try:
        return watches.read(key, lambda watch: session.children(path, watch))
    except NoNode:
        session.ensure(path)
        return watches.read(key, lambda watch: session.children(path, watch))


def _read(session: ZooKeeperSession, effect: Read, watches: WatchBook) -> Znode | None:
    key = WatchKey(effect.path, is_children=False)
    if watches.is_armed(key) and not effect.fresh:
        return watches.recall(key)  # type: ignore[no-any-return]

    def read(watch: Watch | None) -> Znode | None:
        while True:
            try:
                return session.get(effect.path, watch)
            except NoNode:
                if session.exists(effect.path, watch) is None:
                    return None
                watch = None  # the node exists now, and the watch is set

    return watches.read(key, read)
