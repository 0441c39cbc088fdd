"""What changed between two descriptions of a group: the readers of partitions before and after, and why.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.admin import GroupDescription
from ottla.model.topic_partition import TopicAndPartition

EVENTS_MAX = 50
GOES_ON = "no member came, went or changed its topics: partitions move on to their new members"


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """A partition whose reader changed; "" means no reader."""

    topic_partition: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A change of a group, with the reasons that can be seen from outside."""

    at: float
    state: str
    reasons: tuple[str, ...]
    moves: tuple[PartitionMove, ...]


class RebalanceLog:
    """The last changes of each group, seen by the sampler or by an open page."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, GroupDescription]] = {}
        self._changes: dict[str, list[Rebalance]] = {}

    def note(self, at: float, groups: Iterable[GroupDescription]) -> None:
        """Compare the groups with their last description; a description from before that one is ignored."""
        for group in groups:
            seen_at, before = self._seen.get(group.group_id, (at, group))
            if at < seen_at:
                continue
            self._seen[group.group_id] = (at, group)
            change = rebalance(before, group, at)
            if change is not None:
                changes = self._changes.setdefault(group.group_id, [])
                changes.insert(0, change)
                del changes[EVENTS_MAX:]

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget all other groups."""
        gone = self._seen.keys() - set(names)
        for name in gone:
            del self._seen[name]
            self._changes.pop(name, None)

    def changes(self, name: str) -> list[Rebalance]:
        """The changes of a group, the newest first."""
        return list(self._changes.get(name, ()))


def rebalance(before: GroupDescription, after: GroupDescription, at: float) -> Rebalance | None:
    """Return the differences between two descriptions of a group; None if there are none."""
    had, has = _owners(before), _owners(after)
    moves = tuple(
        PartitionMove(str(part), had.get(part, ""), has.get(part, ""))
        for part in sorted(had.keys() | has.keys())
        if had.get(part) != has.get(part)
    )
    reasons = (*_reasons(before, after), *_new_partitions(had, has))
    if not moves and not reasons and before.state == after.state:
        return None
    if moves and not reasons:
        reasons = (GOES_ON,)
    return Rebalance(at, after.state, reasons, moves)


def _owners(group: GroupDescription) -> dict[TopicAndPartition, str]:
    return {part: member.member_id for member in group.members for part in member.assignment}


def _reasons(before: GroupDescription, after: GroupDescription) -> tuple[str, ...]:
    old = {member.member_id: member for member in before.members}
    new = {member.member_id: member for member in after.members}
    joined = [
        f"{_name(new[member_id].client_id, member_id)} joined"
        for member_id in sorted(new.keys() - old.keys())
    ]
    left = [
        f"{_name(old[member_id].client_id, member_id)} left, or was silent for too long"
        for member_id in sorted(old.keys() - new.keys())
    ]
    changed = [
        f"{_name(new[member_id].client_id, member_id)} now subscribes to "
        f"{', '.join(new[member_id].subscription) or 'nothing'}"
        for member_id in sorted(old.keys() & new.keys())
        if old[member_id].subscription and old[member_id].subscription != new[member_id].subscription
    ]
    return (*joined, *left, *changed)


def _new_partitions(had: dict[TopicAndPartition, str], has: dict[TopicAndPartition, str]) -> tuple[str, ...]:
    """Return the topics that were read before and have got new partitions since."""
    last: dict[str, int] = {}
    for part in had:
        last[part.topic] = max(last.get(part.topic, 0), part.partition)
    grown = {part.topic for part in has if part.topic in last and part.partition > last[part.topic]}
    return tuple(f"{topic} has more partitions" for topic in sorted(grown))


def _name(client_id: str, member_id: str) -> str:
    return f"{client_id} ({member_id})" if client_id and not member_id.startswith(client_id) else member_id
