"""The state that survives a restart: offsets, committed or pending, and the last generation of each group.

Only `replay` changes it: at the start for every record of the log, afterwards for each record whose append
succeeded. So after a restart the state is exactly what clients were told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from ottla.broker.coordination.effects import Record
from ottla.broker.groups.coordinator.pending_offsets import PendingOffsets
from ottla.broker.groups.coordinator.records import GroupKey, GroupValue, OffsetKey, OffsetValue, read
from ottla.model.topic_partition import TopicAndPartition

Offsets = Mapping[TopicAndPartition, OffsetValue]
_NONE: Offsets = MappingProxyType({})


class GroupStore:
    """Offsets and stored generations, by group. `pending` are offsets of open transactions."""

    def __init__(self) -> None:
        self.pending = PendingOffsets()
        self._offsets: dict[str, dict[TopicAndPartition, OffsetValue]] = {}
        self._generations: dict[str, GroupValue] = {}

    def replay(self, record: Record, producer_id: int | None = None) -> None:
        """Apply one stored record. With a producer's id it belongs to an open transaction.

        Raises RemoteProtocolError if the record is damaged; then nothing has changed.
        """
        match read(record):
            case OffsetKey() as key, OffsetValue() as committed:
                if producer_id is not None:
                    self.pending.add(key, producer_id, committed)
                else:
                    self.pending.supersede(key)
                    self._put(key, committed)
            case OffsetKey() as key, None:
                self.pending.supersede(key)
                self._forget_offset(key)
            case GroupKey() as key, GroupValue() as stored:
                self._generations[key.group] = stored
            case GroupKey() as key, None:
                self._generations.pop(key.group, None)

    def end_transaction(self, producer_id: int, is_ours: Callable[[str], bool], *, is_commit: bool) -> None:
        """Make the offsets of a producer's transaction the committed ones; after an abort forget them."""
        for key, committed in self.pending.end(producer_id, is_ours, is_commit=is_commit):
            self._put(key, committed)

    def _put(self, key: OffsetKey, committed: OffsetValue) -> None:
        self._offsets.setdefault(key.group, {})[TopicAndPartition(key.topic, key.partition)] = committed

    def offsets(self, group_id: str) -> Offsets:
        """Return all committed offsets of a group, in the order of their first commit."""
        return self._offsets.get(group_id, _NONE)

    def generation(self, group_id: str) -> GroupValue | None:
        """Return the last stored generation of a group, or None."""
        return self._generations.get(group_id)

    def knows(self, group_id: str) -> bool:
        """Whether a group has a stored generation, or committed or pending offsets."""
        known = group_id in self._generations or group_id in self._offsets
        return known or bool(self.pending.of_group(group_id))

    def group_ids(self) -> Iterator[str]:
        """Yield the id of every group that the store knows, once."""
        yield from dict.fromkeys([*self._generations, *self._offsets, *self.pending.group_ids()])

    def forget_group(self, group_id: str) -> None:
        """Forget a group whose partition moved to another broker; the log keeps it."""
        self._offsets.pop(group_id, None)
        self._generations.pop(group_id, None)
        self.pending.forget_group(group_id)

    def _forget_offset(self, key: OffsetKey) -> None:
        offsets = self._offsets.get(key.group)
        if offsets is None:
            return
        offsets.pop(TopicAndPartition(key.topic, key.partition), None)
        if not offsets:
            del self._offsets[key.group]
