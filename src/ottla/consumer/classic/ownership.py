"""Owner nodes: claimed all or none, and released. The node is the lock of its partition.

`Ownership` tracks each partition in one of three states (OWNERSHIP_TABLE):

    NOT_OURS    we have no node and read nothing
    DOUBTFUL    the node may be ours, and nothing is read: a claim is under way or got no answer, or a release
                failed
    OWNED       the node is ours and the partition is read

The next attempt settles every DOUBTFUL partition, so that no forgotten node blocks the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ottla.consumer.classic.effects import CreateEphemeral, Delete, Read, RenewEphemeral, Steps
from ottla.consumer.classic.identity import ConsumerIdString, ConsumerThreadId
from ottla.model.errors import ConsumerIdInUse, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import PartitionOwner, encode_owner
from ottla.zookeeper.session import Znode
from ottla.zookeeper.zookeeper_errors import NodeExists, ZooKeeperError

RACES_MAX = 10
"""How often a node may vanish and come back between two of our requests."""


class ClaimsRefused(OttlaError):
    """Others hold partitions that we want. `holders`: path → the owner's text. Watches report a release."""

    def __init__(self, holders: Mapping[str, str]) -> None:
        listed = ", ".join(f"{path} is held by {holder}" for path, holder in sorted(holders.items())[:3])
        more = f", and {len(holders) - 3} more" if len(holders) > 3 else ""
        super().__init__(listed + more)
        self.holders = dict(holders)


class OwnershipState(Enum):
    """Whether a partition is ours."""

    NOT_OURS = "not ours"
    DOUBTFUL = "doubtful"
    OWNED = "owned"


class OwnershipEvent(Enum):
    """What changes the state of a partition."""

    CLAIM_BEGUN = "claim begun"
    CLAIM_REFUSED = "another member holds it"
    STARTED = "claimed, and fetching started"
    STOPPED = "fetching stopped"
    RELEASED = "node deleted, or not ours"
    STOLEN = "node or session lost"


OWNERSHIP_TABLE: Mapping[tuple[OwnershipState, OwnershipEvent], OwnershipState] = {
    (OwnershipState.NOT_OURS, OwnershipEvent.CLAIM_BEGUN): OwnershipState.DOUBTFUL,
    (OwnershipState.NOT_OURS, OwnershipEvent.RELEASED): OwnershipState.NOT_OURS,
    (OwnershipState.DOUBTFUL, OwnershipEvent.CLAIM_BEGUN): OwnershipState.DOUBTFUL,
    (OwnershipState.DOUBTFUL, OwnershipEvent.CLAIM_REFUSED): OwnershipState.NOT_OURS,
    (OwnershipState.DOUBTFUL, OwnershipEvent.STARTED): OwnershipState.OWNED,
    (OwnershipState.DOUBTFUL, OwnershipEvent.RELEASED): OwnershipState.NOT_OURS,
    (OwnershipState.OWNED, OwnershipEvent.STOPPED): OwnershipState.DOUBTFUL,
    (OwnershipState.OWNED, OwnershipEvent.STOLEN): OwnershipState.NOT_OURS,
}
"""(state, event) → the next state. Other pairs cannot happen."""


@dataclass
class Ownership:
    """The partitions of one member. Only the rebalancing thread uses it."""

    group_id: str
    consumer: ConsumerIdString
    session_id: int = 0
    owned: dict[TopicAndPartition, ConsumerThreadId] = field(default_factory=dict)
    doubtful: set[TopicAndPartition] = field(default_factory=set)

    def path(self, topic_partition: TopicAndPartition) -> str:
        """Return the path of a partition's owner node."""
        return paths.owner(self.group_id, topic_partition.topic, topic_partition.partition)

    def state(self, topic_partition: TopicAndPartition) -> OwnershipState:
        """Return the state of a partition."""
        if topic_partition in self.owned:
            return OwnershipState.OWNED
        is_doubtful = topic_partition in self.doubtful
        return OwnershipState.DOUBTFUL if is_doubtful else OwnershipState.NOT_OURS

    def apply(self, event: OwnershipEvent, topic_partitions: Iterable[TopicAndPartition]) -> None:
        """Move partitions to the state that follows the event; `start` is for STARTED."""
        for topic_partition in topic_partitions:
            state = OWNERSHIP_TABLE[self.state(topic_partition), event]
            self.owned.pop(topic_partition, None)
            self.doubtful.discard(topic_partition)
            if state is OwnershipState.DOUBTFUL:
                self.doubtful.add(topic_partition)

    def start(self, threads: Mapping[TopicAndPartition, ConsumerThreadId]) -> None:
        """These partitions are claimed and read, each by its stream."""
        self.apply(OwnershipEvent.STARTED, threads)
        self.owned.update(threads)

    def is_ours(self, node: Znode | None, thread: ConsumerThreadId | None = None) -> bool:
        """Return whether this session made the node, for `thread` if that is given."""
        if node is None or node.stat.ephemeral_owner != self.session_id:
            return False
        return thread is None or node.data == _data(thread)


def _data(thread: ConsumerThreadId) -> bytes:
    return encode_owner(PartitionOwner(thread.consumer, thread.thread))


def claim_ephemeral(session_id: int, path: str, data: bytes) -> Steps[str | None]:
    """Create the node. Returns None when it is ours, else the holder's text, and leaves a watch on the node.

    A node that exists counts as ours only if this very session made it: a node of our former session would
    pass for a claim and vanish when the server expires that session.
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
            yield Delete(path)  # an earlier attempt of ours claimed it for another stream
            continue
        return None
    return "a member that appears and vanishes"


def claim_all(ownership: Ownership, wanted: Mapping[TopicAndPartition, ConsumerThreadId]) -> Steps[None]:
    """Create all owner nodes. Raises ClaimsRefused or ZooKeeperError; the caller then calls `roll_back`."""
    holders = {}
    for topic_partition, thread in sorted(wanted.items()):
        ownership.apply(OwnershipEvent.CLAIM_BEGUN, (topic_partition,))
        path = ownership.path(topic_partition)
        holder = yield from claim_ephemeral(ownership.session_id, path, _data(thread))
        if holder is not None:
            ownership.apply(OwnershipEvent.CLAIM_REFUSED, (topic_partition,))
            holders[path] = holder
    if holders:
        raise ClaimsRefused(holders)


def release(ownership: Ownership, topic_partitions: Iterable[TopicAndPartition]) -> Steps[None]:
    """Delete owner nodes that are ours."""
    for topic_partition in topic_partitions:
        path = ownership.path(topic_partition)
        node = yield Read(path)
        if ownership.is_ours(node):
            yield Delete(path)
        ownership.apply(OwnershipEvent.RELEASED, (topic_partition,))


def roll_back(ownership: Ownership, topic_partitions: Iterable[TopicAndPartition]) -> Steps[None]:
    """Release what this attempt claimed. What cannot be released now stays DOUBTFUL."""
    try:
        yield from release(ownership, [each for each in topic_partitions if each in ownership.doubtful])
    except ZooKeeperError:
        return


def still_ours(
    ownership: Ownership, threads: Mapping[TopicAndPartition, ConsumerThreadId]
) -> Steps[set[TopicAndPartition]]:
    """Return the partitions whose node exists and is ours: after a lost session Kafka's own consumer may
    delete nodes of others."""
    ours = set()
    for topic_partition, thread in sorted(threads.items()):
        node = yield Read(ownership.path(topic_partition))
        if ownership.is_ours(node, thread):
            ours.add(topic_partition)
    return ours


def register(ownership: Ownership, data: bytes) -> Steps[None]:
    """Create the member's registration. Raises ConsumerIdInUse while another session has this id."""
    path = paths.consumer(ownership.group_id, ownership.consumer)
    holder = yield from claim_ephemeral(ownership.session_id, path, data)
    if holder is not None:
        raise ConsumerIdInUse(path)


def renew_registration(ownership: Ownership, data: bytes) -> Steps[None]:
    """Replace the registration, so that all members look at the group again, also those that gave up."""
    yield RenewEphemeral(paths.consumer(ownership.group_id, ownership.consumer), data)
