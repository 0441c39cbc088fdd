"""What members delivered, and when: from that it is told how a rebalance went. Pure.

Records are written to all partitions all the time, a few a second, and every member notes each one that it
delivers. All clocks are the machine's monotonic one, so notes of several processes make one timeline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

DELAYED_S = 0.5
"""A record that waits for longer was held up by a rebalance; a long poll takes 0.1 s at most."""

Place = tuple[int, int]
"""Partition and offset."""


class Delivery(NamedTuple):
    """A record was handed to the application."""

    at_s: float
    member: str
    partition: int
    offset: int


@dataclass(frozen=True)
class Outcome:
    """How an event went."""

    settled_s: float
    """Until every partition was read by its owner, without delay."""
    longest_wait_s: float
    """Of any record, from when it was written until it was delivered."""
    moved: int
    """Partitions that have another owner than before."""
    twice: int
    """Records that were delivered more than once."""
    is_settled: bool = True


def is_shared(
    deliveries: Sequence[Delivery],
    written: Mapping[Place, float],
    members: Iterable[str],
    partitions: int,
    since_s: float,
) -> bool:
    """Whether these members read all partitions in equal shares, and records that were written since then.

    A record may be delivered before the writer notes that it was acknowledged: then it was written just now.
    """
    last = {one.partition: one for one in deliveries}
    fresh = [one for one in last.values() if written.get((one.partition, one.offset), one.at_s) > since_s]
    shares = Counter(one.member for one in fresh)
    names = set(members)
    if len(fresh) < partitions or not shares.keys() <= names:
        return False
    low, more = divmod(partitions, len(names))
    wanted = Counter({low + 1: more, low: len(names) - more})
    return Counter(shares[name] for name in names) == +wanted


def are_all_reading(
    deliveries: Sequence[Delivery],
    written: Mapping[Place, float],
    members: Iterable[str],
    partitions: int,
    since_s: float,
) -> bool:
    """Whether these members, all and nobody else, deliver what was written since then, of all partitions.

    For share groups, where a partition has no owner. What a member delivered before it left does not count.
    """
    names = set(members)
    left_s = max((one.at_s for one in deliveries if one.member not in names), default=0.0)
    fresh = [
        one
        for one in deliveries
        if one.at_s > left_s and written.get((one.partition, one.offset), one.at_s) > since_s
    ]
    return {one.member for one in fresh} == names and len({one.partition for one in fresh}) == partitions


def outcome(
    deliveries: Iterable[Delivery],
    written: Mapping[Place, float],
    since_s: float,
    until_s: float,
    *,
    has_owners: bool = True,
) -> Outcome:
    """How the event at `since_s` went, as seen at `until_s`.

    Without owners, a member that is new has to deliver something, whatever it is; and records before the
    first that was delivered of a partition are not the group's, which began at the end of its topic.
    """
    ordered = sorted(one for one in deliveries if one.at_s <= until_s)
    first: dict[Place, float] = {}
    counts: Counter[Place] = Counter()
    by_partition: dict[int, list[Delivery]] = {}
    for one in ordered:
        first.setdefault((one.partition, one.offset), one.at_s)
        counts[one.partition, one.offset] += one.at_s >= since_s
        by_partition.setdefault(one.partition, []).append(one)
    if not has_owners:
        begins = {partition: min(one.offset for one in some) for partition, some in by_partition.items()}
        written = {place: at_s for place, at_s in written.items() if place[1] >= begins.get(place[0], 0)}
    waits: dict[int, float] = dict.fromkeys((place[0] for place in written), 0.0)
    settled_at = since_s
    for place, at_s in written.items():
        end = first.get(place, until_s)
        if end <= since_s:
            continue
        waits[place[0]] = max(waits[place[0]], end - max(at_s, since_s))
        if end - max(at_s, since_s) > DELAYED_S:
            settled_at = max(settled_at, end)
    if not has_owners:
        settled_at = max([settled_at, *_first_of_new_members(ordered, since_s)])
        return Outcome(settled_at - since_s, max(waits.values()), 0, sum(one > 1 for one in counts.values()))
    moves = [at_s for at_s in map(owned_since, by_partition.values()) if at_s > since_s]
    before = {one.partition for one in ordered if one.at_s <= since_s}
    return Outcome(
        settled_s=max([settled_at, *moves]) - since_s,
        longest_wait_s=max(waits.values()),
        moved=sum(
            1
            for partition, some in by_partition.items()
            if owned_since(some) > since_s and partition in before
        ),
        twice=sum(1 for count in counts.values() if count > 1),
    )


def _first_of_new_members(ordered: Iterable[Delivery], since_s: float) -> list[float]:
    """When each member that had delivered nothing before `since_s` began."""
    first: dict[str, float] = {}
    for one in ordered:
        first.setdefault(one.member, one.at_s)
    return [at_s for at_s in first.values() if at_s > since_s]


def owned_since(deliveries: Sequence[Delivery]) -> float:
    """When the last owner of a partition delivered for the first time, with nobody else since."""
    since = deliveries[-1]
    for one in reversed(deliveries):
        if one.member != since.member:
            break
        since = one
    return since.at_s


@dataclass(frozen=True)
class Overlap:
    """What a former owner delivered of a partition that had a new one."""

    records: int
    seconds: float
    """From the new owner's first delivery to the old one's last."""


def overlap(deliveries: Iterable[Delivery], old: str, new: str, since_s: float) -> Overlap:
    """What the old owner delivered behind the new one's first delivery, which is behind `since_s`."""
    of_new: dict[int, float] = {}
    stale: list[float] = []
    for one in sorted(deliveries):
        if one.member == new and one.at_s > since_s:
            of_new.setdefault(one.partition, one.at_s)
        elif one.member == old and one.partition in of_new:
            stale.append(one.at_s - of_new[one.partition])
    return Overlap(len(stale), max(stale, default=0.0))
