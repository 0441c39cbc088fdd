"""What a member wants done: values that its logic yields, and that somebody with a session performs.

The logic of a member is written as generators ("steps"). Each `yield` hands out one effect and comes back
with its result, or raises what went wrong. So the logic has no input or output, and a simulation can let
anything happen between any two effects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ottla.classic.assignors import Assignment
from ottla.classic.identity import ConsumerThreadId
from ottla.fetching.places import TopicAndPartition
from ottla.zookeeper.errors import NoNode
from ottla.zookeeper.recipes import children_if_present, delete_if_present, read_if_present
from ottla.zookeeper.session import (
    CreateMode,
    CreateOperation,
    DeleteOperation,
    Watch,
    Znode,
    ZooKeeperSession,
)

_Result = TypeVar("_Result")
Partitions = tuple[TopicAndPartition, ...]


class WatchKey(NamedTuple):
    """What a watch hangs on: a node's children, or the node itself."""

    path: str
    is_children: bool


class Start(NamedTuple):
    """Where a partition goes and from which offset on; -1 is for none committed."""

    thread: ConsumerThreadId
    offset: int


# --- on ZooKeeper


@dataclass(frozen=True, slots=True)
class Children:
    """→ the sorted names below a node. One that is watched is made if it is missing, and is not read again
    before its watch fires."""

    path: str
    watched: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """→ the node, or None; a watch waits for one that is missing, too. One that is watched is not read again
    before its watch fires, unless it has to be `fresh`."""

    path: str
    watched: bool = False
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class CreateEphemeral:
    """Make a node of this session, and its parents; NodeExists."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node if it is there."""

    path: str


@dataclass(frozen=True, slots=True)
class Renew:
    """Delete and make our ephemeral in one transaction: who watches the children above looks again."""

    path: str
    data: bytes


ZooKeeperEffect = Children | Read | CreateEphemeral | Delete | Renew


# --- on this process and the brokers


@dataclass(frozen=True, slots=True)
class StopFetching:
    """Read these no more and drop what was fetched: no stream hands out any more of them when it is done.

    How far the streams came is kept for a commit.
    """

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class AbandonFetching:
    """The same, and how far the streams came is forgotten: others may own these already."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit how far streams came in these, if that is a matter of ours; a failure is logged, not raised.

    But ConnectionLost while the session is in doubt: what is not ours must not be committed.
    """

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """→ partition → committed offset, -1 for none."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class StartFetching:
    """Read these partitions, all or none."""

    starts: Mapping[TopicAndPartition, Start]


@dataclass(frozen=True, slots=True)
class TellReleasing:
    """Tell the user's listener, before others can own them."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class TellStarting:
    """Tell the user's listener who in the group reads what."""

    assignment: Assignment


@dataclass(frozen=True, slots=True)
class AskBrokers:
    """→ topic → its partitions, of these topics or of all, where ZooKeeper does not know them."""

    topics: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class FindUnfetched:
    """→ those of our partitions that no broker is read for at present."""


LocalEffect = (
    StopFetching
    | AbandonFetching
    | CommitOffsets
    | FetchOffsets
    | StartFetching
    | TellReleasing
    | TellStarting
    | AskBrokers
    | FindUnfetched
)
Effect = ZooKeeperEffect | LocalEffect
Steps: TypeAlias = Generator[Effect, Any, _Result]


class WatchBook:
    """Which watches are armed, and what was read when they were left.

    While a watch has not fired, what was read is what is there, or the news are on their way. So a member
    reads again only what changed, and a change costs a group of C members C reads, not C * C.

    Owned by the thread that performs effects. `notice` runs on the session's thread and only queues the key;
    the owner takes it out of the book when it comes to it.
    """

    def __init__(self, notice: Callable[[WatchKey], None]) -> None:
        self._notice = notice
        self._seen: dict[WatchKey, Any] = {}

    def is_armed(self, key: WatchKey) -> bool:
        """Whether `recall` has something."""
        return key in self._seen

    def recall(self, key: WatchKey) -> Any:
        """What was seen last."""
        return self._seen[key]

    def read(self, key: WatchKey, read: Callable[[Watch | None], _Result]) -> _Result:
        """Read with a watch, unless there is one, and remember what was seen."""
        is_armed = key in self._seen
        seen = read(None if is_armed else lambda _: self._notice(key))
        self._seen[key] = seen
        return seen

    def disarm(self, key: WatchKey) -> None:
        """It fired."""
        self._seen.pop(key, None)

    def clear(self) -> None:
        """No watch outlives its connection."""
        self._seen.clear()


def perform_on(session: ZooKeeperSession, effect: ZooKeeperEffect, watches: WatchBook) -> object:
    """Perform an effect; raises ZooKeeperError."""
    match effect:
        case Children(path, watched):
            return _children(session, path, watches) if watched else children_if_present(session, path)
        case Read(path, watched):
            return _read(session, effect, watches) if watched else read_if_present(session, path)
        case CreateEphemeral(path, data):
            return session.create_with_parents(path, data, CreateMode.EPHEMERAL)
        case Delete(path):
            return delete_if_present(session, path)
        case Renew(path, data):
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
                watch = None  # it is there now, and the watch is left

    return watches.read(key, read)
