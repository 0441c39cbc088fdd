"""The lag of groups of every kind, and the targets of resets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple, overload

from ottla.admin.admin_errors import all_results
from ottla.admin.group_descriptions import SHARE_TYPE
from ottla.admin.group_values import (
    CommittedOffset,
    GroupDescription,
    GroupKind,
    GroupLag,
    GroupMember,
    OffsetMove,
    PartitionLag,
    StoredOffset,
)
from ottla.admin.groups import GroupCalls, Outcomes
from ottla.admin.logs import LogCalls, LogOffset
from ottla.admin.record_times import RecordTimes, Times
from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.model.offset_spec import EARLIEST, LATEST, OffsetOrTime
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.stop_note import stop_reason

Stored = Mapping[TopicAndPartition, tuple[StoredOffset, ...]]
Ends = Mapping[TopicAndPartition, LogOffset | OttlaError]
Names = dict[TopicAndPartition, TopicAndPartition]
"""One object for a partition, for all groups of a call."""


class _StoredInKafka(Mapping[TopicAndPartition, tuple[StoredOffset, ...]]):
    """The offsets of a group that has none in ZooKeeper: numbers, because a cluster may have a million."""

    def __init__(self, offsets: dict[TopicAndPartition, int], *, is_used: bool | None) -> None:
        self.offsets = offsets
        self._is_used = is_used

    def __getitem__(self, topic_partition: TopicAndPartition) -> tuple[StoredOffset, ...]:
        return (StoredOffset(GroupKind.KAFKA, self.offsets[topic_partition], self._is_used),)

    def __iter__(self) -> Iterator[TopicAndPartition]:
        return iter(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets)


class _LagInput(NamedTuple):
    """The data from which the lag of a group is computed, except for the ends of logs."""

    group: GroupDescription
    stored: Stored
    topic_partitions: Set[TopicAndPartition]
    owners: Mapping[TopicAndPartition, str]
    stopped: Mapping[TopicAndPartition, str]


class LagCalls:
    """Calls of the admin client about lag and resets, made of calls about groups and logs."""

    def __init__(self, groups: GroupCalls, logs: LogCalls) -> None:
        self._groups = groups
        self._logs = logs
        self._times = RecordTimes(logs)

    async def lags(self, groups: Iterable[str], kind: GroupKind | None) -> Outcomes[GroupLag]:
        """Return the lag of each group; the ends of all logs are requested together."""
        outcomes: Outcomes[GroupLag] = {}
        inputs: dict[str, _LagInput] = {}
        names: Names = {}
        for name, description in (await self._groups.describe(groups, kind)).items():
            try:
                if isinstance(description, OttlaError):
                    raise description
                inputs[name] = await self._lag_input(description, names, is_only_kind=kind is not None)
            except OttlaError as error:
                outcomes[name] = error
        topic_partitions: set[TopicAndPartition] = set()
        topic_partitions.update(*(lag_input.topic_partitions for lag_input in inputs.values()))
        ends = await self._logs.offsets(dict.fromkeys(topic_partitions, LATEST))
        # Groups with the same offset wait for the same record: it is looked up once.
        next_records: set[tuple[TopicAndPartition, int]] = set()
        next_records.update(*(_counted_offsets(lag_input.stored) for lag_input in inputs.values()))
        behind = [next_record for next_record in next_records if _is_behind(*next_record, ends)]
        times = await self._times.at(behind) if behind else {}
        now_ms = time.time() * 1000
        for name, lag_input in inputs.items():
            outcomes[name] = GroupLag(lag_input.group, LagRows(lag_input, ends, times, now_ms))
        return outcomes

    async def _lag_input(self, group: GroupDescription, names: Names, *, is_only_kind: bool) -> _LagInput:
        """Read the committed and assigned partitions of a group; in ZooKeeper also those that no member owns.

        With `is_only_kind`, a group of the same name in ZooKeeper is another group: its offsets are left out.
        """
        name = group.group_id
        is_share = group.group_type == SHARE_TYPE
        in_kafka = (
            await self._groups.share_starts(name) if is_share else await self._groups.positions_in_kafka(name)
        )
        stopped = {
            topic_partition: reason
            for topic_partition, offset in in_kafka.items()
            if offset.metadata and group.members and (reason := stop_reason(offset.metadata))
        }
        zookeeper = await self._groups.classic_group(name)
        if zookeeper is None or (is_only_kind and group.kind is GroupKind.KAFKA):
            offsets = {names.setdefault(name, name): committed.offset for name, committed in in_kafka.items()}
            partitions: Set[TopicAndPartition] = offsets.keys()
            if assigned := _assigned(group):
                partitions = partitions | assigned
            in_one_store = _StoredInKafka(offsets, is_used=True if group.members else None)
            return _LagInput(group, in_one_store, partitions, {}, stopped)
        blocking = self._logs.access.blocking
        in_zookeeper = await blocking(lambda: zookeeper.offsets(name))
        written = await blocking(lambda: zookeeper.written_by_owners(name))
        is_kafka_used = group.kind is GroupKind.KAFKA and bool(group.members)
        stored: Stored = {
            topic_partition: _stored(
                in_kafka.get(topic_partition),
                in_zookeeper.get(topic_partition),
                is_kafka_used=is_kafka_used,
                is_zookeeper_used=topic_partition in written,
            )
            for topic_partition in {**in_kafka, **in_zookeeper}
        }
        topics = await blocking(lambda: zookeeper.topics(name))
        all_partitions, _ = await self._logs.partitions(topics, "lag")
        claimed = await blocking(lambda: zookeeper.owners(name))
        owners = {topic_partition: str(owner) for topic_partition, owner in claimed.items()}
        partitions = {*stored, *_assigned(group), *all_partitions}
        stopped |= await blocking(lambda: zookeeper.stopped(name))
        return _LagInput(group, stored, partitions, owners, stopped)

    # --- resets

    async def moves(
        self,
        group: str,
        topic_partitions: Iterable[TopicAndPartition],
        kind: GroupKind,
        to: OffsetOrTime | None,
        shift_by: int,
    ) -> dict[TopicAndPartition, OffsetMove]:
        """Return the target of a reset for each partition, within its log; the end of the log if no record is
        as late as the requested time.
        """
        listed = list(topic_partitions)
        present = await self._present(group, kind)
        earliest = all_results(await self._logs.offsets(dict.fromkeys(listed, EARLIEST)))
        latest = all_results(await self._logs.offsets(dict.fromkeys(listed, LATEST)))
        timed: dict[TopicAndPartition, LogOffset] = {}
        if to is not None and to.offset is not None:
            timed = dict.fromkeys(listed, LogOffset(to.offset))
        elif to is not None:
            timed = all_results(await self._logs.offsets(dict.fromkeys(listed, to.time)))
        moves: dict[TopicAndPartition, OffsetMove | OttlaError] = {}
        for topic_partition in listed:
            before = present[topic_partition].offset if topic_partition in present else None
            if to is None and before is None:
                moves[topic_partition] = ConfigError(
                    f"group {group!r} has committed nothing of {topic_partition} to shift from: say where to"
                )
                continue
            first, end = earliest[topic_partition].offset or 0, latest[topic_partition].offset or 0
            target = timed[topic_partition].offset if to is not None else before
            wanted = None if target is None else target + shift_by
            after = end + shift_by if wanted is None else wanted
            moves[topic_partition] = OffsetMove(before, min(max(after, first), end), wanted)
        return all_results(moves)

    async def _present(self, group: str, kind: GroupKind) -> Mapping[TopicAndPartition, CommittedOffset]:
        offsets = (await self._groups.offsets([group], kind))[group]
        if isinstance(offsets, OttlaError):
            if kind is GroupKind.ZOOKEEPER and isinstance(offsets, KafkaError):
                return {}  # the group has no znode yet; the reset creates it
            raise offsets
        return offsets


def _assigned(group: GroupDescription) -> set[TopicAndPartition]:
    return {topic_partition for member in group.members for topic_partition in member.assignment}


def _stored(
    in_kafka: CommittedOffset | OffsetAndMetadata | None,
    in_zookeeper: CommittedOffset | None,
    *,
    is_kafka_used: bool,
    is_zookeeper_used: bool,
) -> tuple[StoredOffset, ...]:
    """Return the offsets of a partition in Kafka and ZooKeeper, and whether live members use each.

    Members of a coordinator use Kafka (`is_kafka_used`). Members in ZooKeeper may use either or both, and
    nothing says which; but an offset that was written in ZooKeeper after the partition's owner claimed it
    was written by that owner (`is_zookeeper_used`). Then a smaller offset in Kafka is a leftover.
    """
    stored = []
    if in_kafka is not None:
        is_left = is_zookeeper_used and in_zookeeper is not None and in_kafka.offset < in_zookeeper.offset
        is_used = True if is_kafka_used else False if is_left else None
        stored.append(StoredOffset(GroupKind.KAFKA, in_kafka.offset, is_used))
    if in_zookeeper is not None:
        is_used = True if is_zookeeper_used else False if is_kafka_used else None
        stored.append(StoredOffset(GroupKind.ZOOKEEPER, in_zookeeper.offset, is_used))
    return tuple(stored)


def _counted(stored: Sequence[StoredOffset]) -> StoredOffset | None:
    """Return the offset that the lag is computed from: a used one, or the largest if use is not known."""
    if len(stored) == 1 and stored[0].is_used is not False:  # nearly always
        return stored[0]
    candidates = [offset for offset in stored if offset.is_used is not False]
    return max(candidates, key=lambda offset: (offset.is_used is True, offset.offset), default=None)


def _is_behind(topic_partition: TopicAndPartition, offset: int, ends: Ends) -> bool:
    end = ends[topic_partition]
    last = None if isinstance(end, OttlaError) else end.offset
    return last is not None and offset < last


def _counted_offsets(stored: Stored) -> Iterable[tuple[TopicAndPartition, int]]:
    if isinstance(stored, _StoredInKafka):
        return stored.offsets.items()
    counted = ((topic_partition, _counted(offsets)) for topic_partition, offsets in stored.items())
    return [(topic_partition, one.offset) for topic_partition, one in counted if one is not None]


class LagRows(Sequence[PartitionLag]):
    """The rows of a group, each made when it is looked at: a million rows would be gigabytes of objects."""

    def __init__(self, lag_input: _LagInput, ends: Ends, times: Times, now_ms: float) -> None:
        self._input = lag_input
        self._ends = ends
        self._times = times
        self._now_ms = now_ms
        self._topic_partitions = sorted(lag_input.topic_partitions)
        self._readers: dict[TopicAndPartition, GroupMember] = {
            topic_partition: member
            for member in lag_input.group.members
            for topic_partition in member.assignment
        }

    def __len__(self) -> int:
        return len(self._topic_partitions)

    def __iter__(self) -> Iterator[PartitionLag]:
        return map(self._row, self._topic_partitions)

    @overload
    def __getitem__(self, index: int) -> PartitionLag: ...
    @overload
    def __getitem__(self, index: slice) -> list[PartitionLag]: ...
    def __getitem__(self, index: int | slice) -> PartitionLag | list[PartitionLag]:
        chosen = self._topic_partitions[index]
        return self._row(chosen) if isinstance(chosen, TopicAndPartition) else [*map(self._row, chosen)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr([*self])

    def _row(self, topic_partition: TopicAndPartition) -> PartitionLag:
        lag_input, end = self._input, self._ends[topic_partition]
        stored = lag_input.stored.get(topic_partition, ())
        counted = _counted(stored)
        error, last = (end, None) if isinstance(end, OttlaError) else (None, end.offset)
        committed = counted.offset if counted is not None else None
        return PartitionLag(
            topic_partition,
            committed,
            last,
            self._readers.get(topic_partition),
            counted.store if counted is not None else None,
            error,
            lag_input.owners.get(topic_partition, ""),
            stored,
            lag_input.stopped.get(topic_partition, ""),
            _seconds(topic_partition, committed, last, self._times, self._now_ms),
        )


def _seconds(
    topic_partition: TopicAndPartition, committed: int | None, end: int | None, times: Times, now_ms: float
) -> float | None:
    """Return how long ago the next record of a partition was written, by its timestamp; None if unknown."""
    if committed is None or end is None:
        return None
    if committed >= end:
        return 0.0
    next_record = topic_partition, committed
    if next_record not in times:
        return None
    at_ms = times[next_record]
    return 0.0 if at_ms is None else max(0.0, now_ms - at_ms) / 1000
