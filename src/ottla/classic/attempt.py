"""One attempt at a rebalance: read the group, decide, give up, claim, start. And the look of the watchdog.

    read → assign → stop fetchers, clear queues → commit → release → claim all or none → offsets → start

A partition that stays with the same stream is not touched: its node is not deleted and its fetching goes on,
which the protocol allows, since nobody else claims a node that is there. Offsets are read behind the claim,
not before it as in Kafka, so that the last commit of the former owner is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.classic.assignors import Assignment, Assignor
from ottla.classic.effects import (
    AbandonFetching,
    AskBrokers,
    Children,
    CommitOffsets,
    Delete,
    FetchOffsets,
    FindUnfetched,
    Read,
    Start,
    StartFetching,
    Steps,
    StopFetching,
    TellReleasing,
    TellStarting,
)
from ottla.classic.group_view import GroupView, NotRegistered, ViewRules, read_group
from ottla.classic.identity import ConsumerThreadId
from ottla.classic.ownership import Ownership, claim_all, release, roll_back, still_ours
from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import OttlaError
from ottla.zookeeper import paths

Mine = dict[TopicAndPartition, ConsumerThreadId]


@dataclass(frozen=True)
class Balance:
    """How an attempt ended: what was seen, and who reads what by our reckoning."""

    view: GroupView
    assignment: Assignment


@dataclass(frozen=True)
class Inspection:
    """What the watchdog saw. `unowned`: partitions without an owner node. `stolen`: ours, but not our node.

    `unfetched`: ours, and nobody reads them from a broker.
    """

    unowned: frozenset[TopicAndPartition]
    stolen: frozenset[TopicAndPartition]
    unfetched: frozenset[TopicAndPartition]
    has_news: bool = False
    """Whether the brokers tell of other partitions than before, where no watch does."""

    @property
    def missing(self) -> frozenset[TopicAndPartition]:
        """All that nobody reads, as far as we can see."""
        return self.unowned | self.stolen | self.unfetched


def attempt(rules: ViewRules, ownership: Ownership, assignor: Assignor) -> Steps[Balance]:
    """Bring what we own in line with the group. Raises OttlaError; what stays doubtful then is noted."""
    view = yield from read_group(rules)
    if not view.has_brokers:
        return Balance(view, {})  # nothing can be read anyway: what we own stays as it is
    assignment = assignor(view.assignment_input())
    mine = {place: thread for place, thread in assignment.items() if thread.consumer == rules.consumer}
    kept = yield from _drop_stolen(ownership, mine)
    yield from _give_up(ownership, tuple(sorted(place for place in ownership.owned if place not in kept)))
    yield from release(ownership, tuple(sorted(ownership.doubtful - mine.keys())))
    wanted = {place: thread for place, thread in mine.items() if place not in kept}
    if wanted:
        yield from _take(ownership, wanted, assignment)
    return Balance(view, assignment)


def _drop_stolen(ownership: Ownership, mine: Mine) -> Steps[set[TopicAndPartition]]:
    """Those that we go on with. What is not ours any more ends here, uncommitted: another reads it."""
    same = {place: thread for place, thread in ownership.owned.items() if mine.get(place) == thread}
    kept = yield from still_ours(ownership, same)
    stolen = tuple(sorted(same.keys() - kept))
    if stolen:
        ownership.forget(stolen)
        yield AbandonFetching(stolen)
    return kept


def _give_up(ownership: Ownership, places: tuple[TopicAndPartition, ...]) -> Steps[None]:
    yield from _clear_up(ownership)
    if places:
        yield StopFetching(places)
        ownership.stopped(places)
    # Also of what an earlier attempt stopped and could not commit.
    uncommitted = tuple(sorted(ownership.doubtful))
    if uncommitted:
        yield CommitOffsets(uncommitted)
    if places:
        yield TellReleasing(places)
        yield from release(ownership, places)


def _clear_up(ownership: Ownership) -> Steps[None]:
    """What an earlier attempt left in doubt is ours, or it is not: a commit would take its new owner back."""
    for place in sorted(ownership.doubtful):
        node = yield Read(ownership.path(place))
        if not ownership.is_ours(node):
            ownership.doubtful.discard(place)
            yield AbandonFetching((place,))


def _take(ownership: Ownership, wanted: Mine, assignment: Assignment) -> Steps[None]:
    places = tuple(sorted(wanted))
    try:
        yield from claim_all(ownership, wanted)
        offsets: Mapping[TopicAndPartition, int] = yield FetchOffsets(places)
        yield TellStarting(assignment)
        yield StartFetching({place: Start(wanted[place], offsets.get(place, -1)) for place in places})
    except OttlaError:
        yield from roll_back(ownership, places)
        raise
    ownership.owned.update(wanted)
    ownership.doubtful.difference_update(wanted)


def leave(ownership: Ownership) -> Steps[None]:
    """Give up everything, and be no member any more: commit first, then release."""
    yield from _give_up(ownership, tuple(sorted(ownership.owned)))
    yield from release(ownership, tuple(sorted(ownership.doubtful)))
    path = paths.consumer(ownership.group_id, ownership.consumer)
    if ownership.is_ours((yield Read(path))):
        yield Delete(path)


def drop(ownership: Ownership) -> Steps[None]:
    """The session is gone, and all nodes with it: read nothing more, commit nothing, others may own it.

    What a lost answer left in doubt stays so: the request may yet be performed by the next session.
    """
    places = tuple(sorted(ownership.owned))
    ownership.forget(places)
    ownership.session_id = 0
    if places:
        yield AbandonFetching(places)


def confirm(ownership: Ownership) -> Steps[None]:
    """Our registration is there; that it was answered proves that the session lives. Raises NotRegistered."""
    path = paths.consumer(ownership.group_id, ownership.consumer)
    node = yield Read(path)
    if not ownership.is_ours(node):
        raise NotRegistered(f"{path}: the registration is gone or another session's")


def inspect(rules: ViewRules, ownership: Ownership, balance: Balance) -> Steps[Inspection]:
    """Look at all partitions of our topics: whether each has an owner, and ours are ours and are read."""
    yield from confirm(ownership)
    unowned = set()
    for topic, partitions in balance.view.partitions.items():
        names = yield Children(paths.topic_owners(ownership.group_id, topic))
        unowned |= {TopicAndPartition(topic, one) for one in partitions if str(one) not in set(names)}
    kept = yield from still_ours(ownership, ownership.owned)
    stolen = ownership.owned.keys() - kept
    unfetched: frozenset[TopicAndPartition] = yield FindUnfetched()
    read_by_somebody = {place for place in unowned if place in balance.assignment}
    has_news = rules.asks_brokers and (yield from _has_news(balance.view))
    return Inspection(frozenset(read_by_somebody), frozenset(stolen), unfetched, has_news)


def _has_news(view: GroupView) -> Steps[bool]:
    names = None if view.topics is not None else tuple(view.partitions)
    told: Mapping[str, tuple[int, ...]] = yield AskBrokers(names)
    if view.topics is not None and set(told) != set(view.topics):
        return True
    return any(told.get(topic, ()) != partitions for topic, partitions in view.partitions.items())
