"""Appends of the group coordinator that are on their way into the log, and which offsets they concern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ottla.broker.coordination.effects import Append, Record
from ottla.broker.groups.coordinator.decision import PendingGroupAppend
from ottla.broker.groups.coordinator.records import OffsetKey, offset_tombstone, read_key
from ottla.broker.groups.coordinator.store import GroupStore
from ottla.model.topic_partition import TopicAndPartition


class AppendsInFlight:
    """Appends by number, in the order of their decisions. `partition_of` returns a group's partition."""

    def __init__(self, partition_of: Callable[[str], int]) -> None:
        self._partition_of = partition_of
        self._pending: dict[int, PendingGroupAppend] = {}
        self._count = 0

    def number(self, pending_appends: Iterable[PendingGroupAppend]) -> Iterator[Append]:
        """Yield the appends that the loop has to write, numbered so that results can name them."""
        for pending in pending_appends:
            self._count += 1
            self._pending[self._count] = pending
            partition = self._partition_of(pending.group_id)
            yield Append(self._count, partition, pending.records, pending.producer)

    def take(self, append_id: int) -> PendingGroupAppend | None:
        """Remove and return the append that has a result; None if it is not in flight."""
        return self._pending.pop(append_id, None)

    def take_all(self, partition: int) -> list[PendingGroupAppend]:
        """Remove and return the appends to a partition that another broker leads now."""
        pending = self._pending
        numbers = [number for number in pending if self._partition_of(pending[number].group_id) == partition]
        return [pending.pop(number) for number in numbers]

    def group_ids(self) -> list[str]:
        """Return the groups with records on the way."""
        return [pending.group_id for pending in self._pending.values()]

    def offset_keys(self, group_id: str, *, in_transactions: bool = False) -> list[OffsetKey]:
        """Return the offsets of a group that are on the way, or only those that belong to transactions."""
        keys = [
            read_key(record.key)
            for pending in self._pending.values()
            if pending.group_id == group_id and (pending.producer is not None or not in_transactions)
            for record in pending.records
        ]
        return [key for key in keys if isinstance(key, OffsetKey)]


def unstable_partitions(
    store: GroupStore, in_flight: AppendsInFlight, group_id: str
) -> list[TopicAndPartition]:
    """Return the partitions of a group for which an open transaction has an offset, stored or on the way."""
    coming = in_flight.offset_keys(group_id, in_transactions=True)
    partitions = [TopicAndPartition(key.topic, key.partition) for key in coming]
    return [*store.pending.of_group(group_id), *partitions]


def offset_tombstones(
    store: GroupStore, in_flight: AppendsInFlight, group_id: str, topic: str | None = None
) -> list[Record]:
    """Return the records that delete a group's offsets, or only those of a topic.

    Offsets of open transactions, and those that are on their way into the log, are deleted too.
    """
    partitions = [*store.offsets(group_id), *store.pending.of_group(group_id)]
    stored = [OffsetKey(group=group_id, topic=item.topic, partition=item.partition) for item in partitions]
    keys = [*stored, *in_flight.offset_keys(group_id)]
    return list(dict.fromkeys(offset_tombstone(key) for key in keys if topic in (None, key.topic)))
