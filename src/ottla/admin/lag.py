"""How far groups are behind, of both kinds, and where a reset would put them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.admin.errors import all_results
from ottla.admin.group_values import (
    CommittedOffset,
    GroupDescription,
    GroupKind,
    GroupLag,
    GroupMember,
    OffsetMove,
    PartitionLag,
)
from ottla.admin.groups import GroupCalls, Outcomes
from ottla.admin.logs import At, LogCalls, LogOffset, Moment
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.model.topic_partition import TopicAndPartition

Committed = Mapping[TopicAndPartition, tuple[CommittedOffset, GroupKind]]
Ends = Mapping[TopicAndPartition, LogOffset | OttlaError]


class _Wanted(NamedTuple):
    """What a group's lag is made of, but for the ends of logs."""

    group: GroupDescription
    committed: Committed
    places: set[TopicAndPartition]
    owners: Mapping[TopicAndPartition, str]


class LagCalls:
    """Composed of groups and logs."""

    def __init__(self, groups: GroupCalls, logs: LogCalls) -> None:
        self._groups = groups
        self._logs = logs

    def lags(self, groups: Iterable[str], kind: GroupKind | None) -> Outcomes[GroupLag]:
        """The lag of each group; the ends of all logs are asked for at once."""
        outcomes: Outcomes[GroupLag] = {}
        wanted: dict[str, _Wanted] = {}
        for name, told in self._groups.describe(groups, kind).items():
            try:
                if isinstance(told, OttlaError):
                    raise told
                wanted[name] = self._wanted(told)
            except OttlaError as error:
                outcomes[name] = error
        places = {place for one in wanted.values() for place in one.places}
        ends = self._logs.offsets(dict.fromkeys(places, At.LATEST))
        outcomes |= {name: _lag(one, ends) for name, one in wanted.items()}
        return outcomes

    def _wanted(self, group: GroupDescription) -> _Wanted:
        """What was committed or is assigned; of a classic group also what nobody owns of its topics."""
        committed = self._committed(group)
        places = set(committed) | {place for member in group.members for place in member.assignment}
        if group.kind is GroupKind.KAFKA:
            return _Wanted(group, committed, places, {})
        keeper = self._groups.classic()
        found, _ = self._logs.partitions(keeper.topics(group.group_id), "lag")
        owners = {place: str(owner) for place, owner in keeper.owners(group.group_id).items()}
        return _Wanted(group, committed, places | set(found), owners)

    def _committed(self, group: GroupDescription) -> Committed:
        """As Kafka's own tools look: with the coordinator, then in ZooKeeper for classic groups."""
        name = group.group_id
        if group.kind is GroupKind.KAFKA:
            return _marked(self._groups.offsets([name], GroupKind.KAFKA)[name], GroupKind.KAFKA)
        kept = _marked(self._groups.offsets([name], GroupKind.ZOOKEEPER)[name], GroupKind.ZOOKEEPER)
        return {**kept, **_marked(self._groups.offsets_in_kafka([name])[name], GroupKind.KAFKA)}

    # --- resets

    def moves(
        self,
        group: str,
        places: Iterable[TopicAndPartition],
        kind: GroupKind,
        to: Moment | None,
        shift_by: int,
    ) -> dict[TopicAndPartition, OffsetMove]:
        """Where a reset puts each partition: within its log, and at its end where no record is so late."""
        listed = list(places)
        present = self._present(group, kind)
        earliest = all_results(self._logs.offsets(dict.fromkeys(listed, At.EARLIEST)))
        latest = all_results(self._logs.offsets(dict.fromkeys(listed, At.LATEST)))
        timed = all_results(self._logs.offsets(dict.fromkeys(listed, to))) if to is not None else {}
        moves: dict[TopicAndPartition, OffsetMove | OttlaError] = {}
        for place in listed:
            before = present[place].offset if place in present else None
            if to is None and before is None:
                moves[place] = ConfigError(
                    f"group {group!r} has committed nothing of {place} to shift from: say where to"
                )
                continue
            first, end = earliest[place].offset or 0, latest[place].offset or 0
            target = timed[place].offset if to is not None else before
            after = (end if target is None else target) + shift_by
            moves[place] = OffsetMove(before, min(max(after, first), end))
        return all_results(moves)

    def _present(self, group: str, kind: GroupKind) -> Mapping[TopicAndPartition, CommittedOffset]:
        told = self._groups.offsets([group], kind)[group]
        if isinstance(told, OttlaError):
            if kind is GroupKind.ZOOKEEPER and isinstance(told, KafkaError):
                return {}  # it has no znode yet, and gets one
            raise told
        return told


def _marked(
    told: Mapping[TopicAndPartition, CommittedOffset] | OttlaError, kind: GroupKind
) -> dict[TopicAndPartition, tuple[CommittedOffset, GroupKind]]:
    if isinstance(told, OttlaError):
        raise told
    return {place: (offset, kind) for place, offset in told.items()}


def _lag(wanted: _Wanted, ends: Ends) -> GroupLag:
    readers: dict[TopicAndPartition, GroupMember] = {
        place: member for member in wanted.group.members for place in member.assignment
    }
    rows = []
    for place in sorted(wanted.places):
        end = ends[place]
        offset, kind = wanted.committed.get(place, (None, None))
        rows.append(
            PartitionLag(
                topic_partition=place,
                committed=offset.offset if offset is not None else None,
                end=None if isinstance(end, OttlaError) else end.offset,
                member=readers.get(place),
                stored_in=kind,
                error=end if isinstance(end, OttlaError) else None,
                owner=wanted.owners.get(place, ""),
            )
        )
    return GroupLag(wanted.group, tuple(rows))
