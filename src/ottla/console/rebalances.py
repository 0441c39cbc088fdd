"""What changed between two looks at a group: who had which partitions, who has them now, and why. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.admin import GroupDescription
from ottla.model.topic_partition import TopicAndPartition

EVENTS_MAX = 50


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """A partition that changed hands; "" is nobody."""

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


def rebalance(before: GroupDescription, after: GroupDescription, at: float) -> Rebalance | None:
    """What changed; None if nothing did."""
    had, has = _owners(before), _owners(after)
    moves = tuple(
        PartitionMove(str(part), had.get(part, ""), has.get(part, ""))
        for part in sorted(had.keys() | has.keys())
        if had.get(part) != has.get(part)
    )
    reasons = _reasons(before, after)
    if not moves and not reasons and before.state == after.state:
        return None
    return Rebalance(at, after.state, reasons, moves)


def _owners(group: GroupDescription) -> dict[TopicAndPartition, str]:
    return {part: member.member_id for member in group.members for part in member.assignment}


def _reasons(before: GroupDescription, after: GroupDescription) -> tuple[str, ...]:
    old = {member.member_id: member for member in before.members}
    new = {member.member_id: member for member in after.members}
    joined = [f"{_name(new[one].client_id, one)} joined" for one in sorted(new.keys() - old.keys())]
    left = [f"{_name(old[one].client_id, one)} left" for one in sorted(old.keys() - new.keys())]
    changed = [
        f"{_name(new[one].client_id, one)} now subscribes to {', '.join(new[one].subscription) or 'nothing'}"
        for one in sorted(old.keys() & new.keys())
        if old[one].subscription and old[one].subscription != new[one].subscription
    ]
    return (*joined, *left, *changed)


def _name(client_id: str, member_id: str) -> str:
    return f"{client_id} ({member_id})" if client_id and not member_id.startswith(client_id) else member_id
