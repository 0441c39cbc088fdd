"""Owner nodes: claimed all or none, and let go. The node is the lock of its partition.

`Ownership` knows two kinds of partitions. *Owned*: the node is ours and the partition is read. *Doubtful*:
the node may be ours, and nothing is read: a claim under way or without an answer, or a release that failed.
What is doubtful is cleared up by the next attempt, so that no node is left to block the group.

    claimed, started ──▶ owned ──── stopped ────▶ doubtful ──── node deleted, or seen not to be ours ──▶ gone
                           │                         ▲
                           └─ session lost: gone     └─ claim begun
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.classic.effects import CreateEphemeral, Delete, Read, Renew, Steps
from ottla.classic.identity import ConsumerIdString, ConsumerThreadId
from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import OttlaError
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import PartitionOwner, encode_owner
from ottla.zookeeper.errors import NodeExists, ZooKeeperError
from ottla.zookeeper.session import Znode

RACES_MAX = 10
"""How often a node may vanish and come back between two of our requests."""


class ClaimsRefused(OttlaError):
    """Others hold what we want; `holders` are their texts by path. Watches tell when they let go."""

    def __init__(self, holders: Mapping[str, str]) -> None:
        shown = ", ".join(f"{path} is held by {holder}" for path, holder in sorted(holders.items())[:3])
        more = f", and {len(holders) - 3} more" if len(holders) > 3 else ""
        super().__init__(shown + more)
        self.holders = dict(holders)


@dataclass
class Ownership:
    """Of one member. Its owner is the thread that rebalances."""

    group_id: str
    consumer: ConsumerIdString
    session_id: int = 0
    owned: dict[TopicAndPartition, ConsumerThreadId] = field(default_factory=dict)
    doubtful: set[TopicAndPartition] = field(default_factory=set)

    def path(self, place: TopicAndPartition) -> str:
        """The owner node of a partition."""
        return paths.owner(self.group_id, place.topic, place.partition)

    def stopped(self, places: tuple[TopicAndPartition, ...]) -> None:
        """These are not read any more; their nodes are still there."""
        for place in places:
            del self.owned[place]
            self.doubtful.add(place)

    def forget(self, places: tuple[TopicAndPartition, ...]) -> None:
        """These are others' now, as far as we know."""
        for place in places:
            del self.owned[place]

    def is_ours(self, node: Znode | None, thread: ConsumerThreadId | None = None) -> bool:
        """Whether this session made the node; of a certain thread, if one is given."""
        if node is None or node.stat.ephemeral_owner != self.session_id:
            return False
        return thread is None or node.data == _data(thread)


def _data(thread: ConsumerThreadId) -> bytes:
    return encode_owner(PartitionOwner(thread.consumer, thread.thread))


def claim_ephemeral(session_id: int, path: str, data: bytes) -> Steps[str | None]:
    """Make the node; None when it is ours, else who holds it, with a watch on the node.

    A node that is there counts as ours only if this very session made it: one of our former session would
    pass for a claim and vanish when the server gives that session up.
    """
    for _ in range(RACES_MAX):
        try:
            yield CreateEphemeral(path, data)
        except NodeExists:
            node = yield Read(path, watched=True, fresh=True)
            if node is None:
                continue
            if node.stat.ephemeral_owner != session_id:
                return str(node.data, errors="replace")
            if node.data == data:
                return None
            yield Delete(path)  # left by an attempt of ours that had another stream in mind
            continue
        return None
    return "somebody who comes and goes"


def claim_all(ownership: Ownership, wanted: Mapping[TopicAndPartition, ConsumerThreadId]) -> Steps[None]:
    """Make all owner nodes. Raises ClaimsRefused or ZooKeeperError; `roll_back` is the caller's part."""
    holders = {}
    for place, thread in sorted(wanted.items()):
        ownership.doubtful.add(place)
        path = ownership.path(place)
        holder = yield from claim_ephemeral(ownership.session_id, path, _data(thread))
        if holder is not None:
            ownership.doubtful.discard(place)
            holders[path] = holder
    if holders:
        raise ClaimsRefused(holders)


def release(ownership: Ownership, places: tuple[TopicAndPartition, ...]) -> Steps[None]:
    """Delete owner nodes, where they are ours."""
    for place in places:
        node = yield Read(ownership.path(place))
        if ownership.is_ours(node):
            yield Delete(ownership.path(place))
        ownership.doubtful.discard(place)


def roll_back(ownership: Ownership, places: tuple[TopicAndPartition, ...]) -> Steps[None]:
    """Let go what this attempt claimed; what cannot be reached now stays doubtful."""
    try:
        yield from release(ownership, tuple(place for place in places if place in ownership.doubtful))
    except ZooKeeperError:
        return


def still_ours(
    ownership: Ownership, places: Mapping[TopicAndPartition, ConsumerThreadId]
) -> Steps[set[TopicAndPartition]]:
    """Those whose node is there and ours. Kafka's own consumer may delete others' after a lost session."""
    found = set()
    for place, thread in sorted(places.items()):
        node = yield Read(ownership.path(place))
        if ownership.is_ours(node, thread):
            found.add(place)
    return found


def register(ownership: Ownership, data: bytes) -> Steps[None]:
    """Make the member's registration. Raises ClaimsRefused while another session has one of this name."""
    path = paths.consumer(ownership.group_id, ownership.consumer)
    holder = yield from claim_ephemeral(ownership.session_id, path, data)
    if holder is not None:
        raise ClaimsRefused({path: "another session of the same consumer.id"})


def renew_registration(ownership: Ownership, data: bytes) -> Steps[None]:
    """Make everybody in the group look again, also those who gave up."""
    yield Renew(paths.consumer(ownership.group_id, ownership.consumer), data)
