"""Offsets that are committed in transactions which are still open.

They are in the log, and take effect when their transaction is committed. What counts is the position of
their records: an offset that was committed after them wins, whenever the transaction ends. Of two
transactions the newer record wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.broker.groups.coordinator.records import OffsetKey, OffsetValue
from ottla.model.topic_partition import TopicAndPartition


class PendingOffsets:
    """By group and partition, then by producer: the oldest record first."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicAndPartition, dict[int, OffsetValue]]] = {}

    def add(self, key: OffsetKey, producer_id: int, committed: OffsetValue) -> None:
        """Add an offset whose record is the newest in the log."""
        of_partition = self._groups.setdefault(key.group, {}).setdefault(_partition(key), {})
        of_partition.pop(producer_id, None)
        of_partition[producer_id] = committed

    def supersede(self, key: OffsetKey) -> None:
        """Forget the pending offsets of a key: a commit or tombstone without a transaction is newer."""
        of_group = self._groups.get(key.group)
        if of_group is not None:
            of_group.pop(_partition(key), None)
            if not of_group:
                del self._groups[key.group]

    def end(
        self, producer_id: int, is_ours: Callable[[str], bool], *, is_commit: bool
    ) -> Iterator[tuple[OffsetKey, OffsetValue]]:
        """Remove the pending offsets of a producer in groups for which `is_ours` is true.

        Yields those that become committed offsets.
        """
        for group in [group for group in self._groups if is_ours(group)]:
            of_group = self._groups[group]
            for partition in [item for item, producers in of_group.items() if producer_id in producers]:
                producers = of_group[partition]
                if is_commit:
                    for older in list(producers)[: list(producers).index(producer_id)]:
                        del producers[older]
                    key = OffsetKey(group=group, topic=partition.topic, partition=partition.partition)
                    yield key, producers[producer_id]
                del producers[producer_id]
                if not producers:
                    del of_group[partition]
            if not of_group:
                del self._groups[group]

    def of_group(self, group_id: str) -> list[TopicAndPartition]:
        """Return the partitions of a group with pending offsets."""
        return list(self._groups.get(group_id, ()))

    def group_ids(self) -> list[str]:
        """Return every group with pending offsets."""
        return list(self._groups)

    def forget_group(self, group_id: str) -> None:
        """Forget a group whose partition moved to another broker."""
        self._groups.pop(group_id, None)


def _partition(key: OffsetKey) -> TopicAndPartition:
    return TopicAndPartition(key.topic, key.partition)
