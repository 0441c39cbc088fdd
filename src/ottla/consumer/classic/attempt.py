"""One rebalance attempt: read the group, assign, release, claim, start. And the watchdog's inspection.

    read → assign → stop fetchers, clear queues → commit → release → claim all or none → offsets → start

A partition that stays with the same stream is not touched: its node is kept and its fetching continues. The
protocol allows this, because nobody else claims a node that exists. Offsets are read after the claim, not
before it as in Kafka, so that the last commit of the former owner is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.consumer.classic.assignors import Assignment, Assignor
from ottla.consumer.classic.effects import (
    AbandonFetching,
    Children,
    CommitOffsets,
    Delete,
    FetchOffsets,
    FindUnfetched,
    NotifyReleasing,
    NotifyStarting,
    QueryPartitions,
    Read,
    Start,
    StartFetching,
    Steps,
    StopFetching,
)
from ottla.consumer.classic.group_view import GroupView, NotRegistered, ViewRules, read_group
from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.consumer.classic.ownership import (
    Ownership,
    OwnershipEvent,
    claim_all,
    release,
    roll_back,
    still_ours,
)
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths

Threads = dict[TopicAndPartition, ConsumerThreadId]
Partitions = tuple[TopicAndPartition, ...]


@dataclass(frozen=True)
class Balance:
    """The result of an attempt: the group as it was read, and the assignment computed from it."""

    view: GroupView
    assignment: Assignment


@dataclass(frozen=True)
class Inspection:
    """What the watchdog saw.

    `unowned`: partitions without an owner node. `stolen`: partitions of ours whose node is not ours.
    `unfetched`: partitions of ours that are read from no broker. `has_news`: the brokers list other
    partitions than before (only where ZooKeeper has no topics, so that no watch reports it).
    """

    unowned: frozenset[TopicAndPartition]
    stolen: frozenset[TopicAndPartition]
    unfetched: frozenset[TopicAndPartition]
    has_news: bool = False

    @property
    def missing(self) -> frozenset[TopicAndPartition]:
        """All partitions that have no reader, as far as this member can see."""
        return self.unowned | self.stolen | self.unfetched


def attempt(rules: ViewRules, ownership: Ownership, assignor: Assignor) -> Steps[Balance]:
    """Release and claim partitions until this member owns its share.

    Raises OttlaError. Partitions whose node may or may not be ours are DOUBTFUL then.
    """
    view = yield from read_group(rules)
    if not view.has_brokers:
        return Balance(view, {})  # nothing can be read: we keep our partitions
    assignment = assignor(view.assignment_input())
    ours = {
        topic_partition: thread
        for topic_partition, thread in assignment.items()
        if thread.consumer == rules.consumer
    }
    kept = yield from _drop_stolen(ownership, ours)
    yield from _give_up(ownership, tuple(sorted(ownership.owned.keys() - kept)))
    yield from release(ownership, sorted(ownership.doubtful - ours.keys()))
    wanted = {
        topic_partition: thread for topic_partition, thread in ours.items() if topic_partition not in kept
    }
    if wanted:
        yield from _take(ownership, wanted, assignment)
    return Balance(view, assignment)


def _drop_stolen(ownership: Ownership, ours: Threads) -> Steps[set[TopicAndPartition]]:
    """Return the partitions that we keep. A stolen partition is not committed: another member reads it."""
    same = {
        topic_partition: thread
        for topic_partition, thread in ownership.owned.items()
        if ours.get(topic_partition) == thread
    }
    kept = yield from still_ours(ownership, same)
    stolen = tuple(sorted(same.keys() - kept))
    if stolen:
        ownership.apply(OwnershipEvent.STOLEN, stolen)
        yield AbandonFetching(stolen)
    return kept


def _give_up(ownership: Ownership, partitions: Partitions) -> Steps[None]:
    """Stop, commit and release partitions."""
    yield from _settle_doubtful(ownership)
    if partitions:
        yield StopFetching(partitions)
        ownership.apply(OwnershipEvent.STOPPED, partitions)
    # Includes what an earlier attempt stopped and could not commit.
    uncommitted = tuple(sorted(ownership.doubtful))
    if uncommitted:
        yield CommitOffsets(uncommitted)
    if partitions:
        yield NotifyReleasing(partitions)
        yield from release(ownership, partitions)


def _settle_doubtful(ownership: Ownership) -> Steps[None]:
    """Forget DOUBTFUL partitions whose node is not ours: a commit would set their new owner back."""
    for topic_partition in sorted(ownership.doubtful):
        node = yield Read(ownership.path(topic_partition))
        if not ownership.is_ours(node):
            ownership.apply(OwnershipEvent.RELEASED, (topic_partition,))
            yield AbandonFetching((topic_partition,))


def _take(ownership: Ownership, wanted: Threads, assignment: Assignment) -> Steps[None]:
    """Claim partitions and read them from their committed offsets."""
    partitions = tuple(sorted(wanted))
    try:
        yield from claim_all(ownership, wanted)
        offsets: Mapping[TopicAndPartition, int] = yield FetchOffsets(partitions)
        yield NotifyStarting(assignment)
        yield StartFetching({each: Start(wanted[each], offsets.get(each, -1)) for each in partitions})
    except OttlaError:
        yield from roll_back(ownership, partitions)
        raise
    ownership.start(wanted)


def leave(ownership: Ownership) -> Steps[None]:
    """Stop and commit, then release everything and delete the registration."""
    yield from _give_up(ownership, tuple(sorted(ownership.owned)))
    yield from release(ownership, sorted(ownership.doubtful))
    path = paths.consumer(ownership.group_id, ownership.consumer)
    if ownership.is_ours((yield Read(path))):
        yield Delete(path)


def drop(ownership: Ownership) -> Steps[None]:
    """The session is gone with all its nodes: stop reading and do not commit, because other members may own
    the partitions.

    A claim whose answer was lost stays DOUBTFUL: the server may still perform it for the next session.
    """
    partitions = tuple(sorted(ownership.owned))
    ownership.apply(OwnershipEvent.STOLEN, partitions)
    ownership.session_id = 0
    if partitions:
        yield AbandonFetching(partitions)


def confirm(ownership: Ownership) -> Steps[None]:
    """Check that our registration exists; the answer proves that the session lives. Raises NotRegistered."""
    path = paths.consumer(ownership.group_id, ownership.consumer)
    node = yield Read(path)
    if not ownership.is_ours(node):
        raise NotRegistered(f"{path}: the registration is gone or belongs to another session")


def inspect(rules: ViewRules, ownership: Ownership, balance: Balance) -> Steps[Inspection]:
    """Check all partitions of our topics: each has an owner, and ours have our node and are read.

    Owners are counted, and listed only if there are not as many as partitions: if all members listed them all
    every few seconds, a group of 1,000 members and 10,000 partitions would move 1 GB a minute.
    """
    yield from confirm(ownership)
    unowned = set()
    for topic, partitions in balance.view.partitions.items():
        path = paths.topic_owners(ownership.group_id, topic)
        node = yield Read(path)
        if node is not None and node.stat.children_count == len(partitions):
            continue
        names = set((yield Children(path)))
        unowned |= {
            TopicAndPartition(topic, partition) for partition in partitions if str(partition) not in names
        }
    kept = yield from still_ours(ownership, ownership.owned)
    stolen = ownership.owned.keys() - kept
    unfetched: frozenset[TopicAndPartition] = yield FindUnfetched()
    has_news = rules.topics_from_brokers and (yield from _has_news(balance.view))
    return Inspection(frozenset(unowned & balance.assignment.keys()), frozenset(stolen), unfetched, has_news)


def _has_news(view: GroupView) -> Steps[bool]:
    names = None if view.topics is not None else tuple(view.partitions)
    current: Mapping[str, tuple[int, ...]] = yield QueryPartitions(names)
    if view.topics is not None and set(current) != set(view.topics):
        return True
    return any(current.get(topic, ()) != partitions for topic, partitions in view.partitions.items())
