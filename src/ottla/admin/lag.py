"""The lag of groups of both kinds, and the targets of resets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.admin.admin_errors import all_results, only
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
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.model.offset_spec import EARLIEST, LATEST, OffsetOrTime
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.stop_note import stop_reason

Stored = Mapping[TopicAndPartition, tuple[StoredOffset, ...]]
Ends = Mapping[TopicAndPartition, LogOffset | OttlaError]


class _LagInput(NamedTuple):
    """The data from which the lag of a group is computed, except for the ends of logs."""

    group: GroupDescription
    stored: Stored
    topic_partitions: set[TopicAndPartition]
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
        for name, description in (await self._groups.describe(groups, kind)).items():
            try:
                if isinstance(description, OttlaError):
                    raise description
                inputs[name] = await self._lag_input(description, is_only_kind=kind is not None)
            except OttlaError as error:
                outcomes[name] = error
        topic_partitions = {
            topic_partition for lag_input in inputs.values() for topic_partition in lag_input.topic_partitions
        }
        ends = await self._logs.offsets(dict.fromkeys(topic_partitions, LATEST))
        # Groups with the same offset wait for the same record: it is looked up once.
        behind = {next_record for lag_input in inputs.values() for next_record in _behind(lag_input, ends)}
        times = await self._times.at(behind) if behind else {}
        now_ms = time.time() * 1000
        outcomes |= {name: _lag(lag_input, ends, times, now_ms) for name, lag_input in inputs.items()}
        return outcomes

    async def _lag_input(self, group: GroupDescription, *, is_only_kind: bool) -> _LagInput:
        """Read the committed and assigned partitions of a group; in ZooKeeper also those that no member owns.

        With `is_only_kind`, a group of the same name in ZooKeeper is another group: its offsets are left out.
        """
        name = group.group_id
        is_share = group.group_type == SHARE_TYPE
        in_kafka = (
            await self._groups.share_starts(name)
            if is_share
            else only(await self._groups.offsets_in_kafka([name]))
        )
        stopped = {
            topic_partition: reason
            for topic_partition, offset in in_kafka.items()
            if group.members and (reason := stop_reason(offset.metadata))
        }
        zookeeper = await self._groups.classic_group(name)
        if zookeeper is None or (is_only_kind and group.kind is GroupKind.KAFKA):
            is_used = True if group.members else None
            stored: Stored = {
                topic_partition: (StoredOffset(GroupKind.KAFKA, offset.offset, is_used),)
                for topic_partition, offset in in_kafka.items()
            }
            return _LagInput(group, stored, stored.keys() | _assigned(group), {}, stopped)
        blocking = self._logs.access.blocking
        in_zookeeper = await blocking(lambda: zookeeper.offsets(name))
        written = await blocking(lambda: zookeeper.written_by_owners(name))
        is_kafka_used = group.kind is GroupKind.KAFKA and bool(group.members)
        stored = {
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
    in_kafka: CommittedOffset | None,
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


def _behind(lag_input: _LagInput, ends: Ends) -> Iterator[tuple[TopicAndPartition, int]]:
    """Yield the partitions that the group has not read to the end, with the offset of its next record."""
    for topic_partition, stored in lag_input.stored.items():
        counted, end = _counted(stored), ends[topic_partition]
        last = None if isinstance(end, OttlaError) else end.offset
        if counted is not None and last is not None and counted.offset < last:
            yield topic_partition, counted.offset


def _lag(lag_input: _LagInput, ends: Ends, times: Times, now_ms: float) -> GroupLag:
    readers: dict[TopicAndPartition, GroupMember] = {
        topic_partition: member for member in lag_input.group.members for topic_partition in member.assignment
    }
    rows = []
    for topic_partition in sorted(lag_input.topic_partitions):
        end = ends[topic_partition]
        stored = lag_input.stored.get(topic_partition, ())
        counted = _counted(stored)
        error, last = (end, None) if isinstance(end, OttlaError) else (None, end.offset)
        committed = counted.offset if counted is not None else None
        rows.append(
            PartitionLag(
                topic_partition,
                committed,
                last,
                readers.get(topic_partition),
                counted.store if counted is not None else None,
                error,
                lag_input.owners.get(topic_partition, ""),
                stored,
                lag_input.stopped.get(topic_partition, ""),
                _seconds(topic_partition, committed, last, times, now_ms),
            )
        )
    return GroupLag(lag_input.group, tuple(rows))


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
