"""What survives a restart: committed offsets and the last stored generation of each group.

`replay` is the only thing that changes it, at start-up for every record of the log and afterwards for each
record whose append succeeded. So what a client was told is what a restart will find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ottla.broker.groups.records import GroupKey, GroupValue, OffsetKey, OffsetValue, Record, read


class TopicPartition(NamedTuple):
    """A partition of a topic that a group has committed an offset of."""

    topic: str
    partition: int


Offsets = Mapping[TopicPartition, OffsetValue]
_NONE: Offsets = MappingProxyType({})


class GroupStore:
    """Offsets and stored generations, by group."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[TopicPartition, OffsetValue]] = {}
        self._generations: dict[str, GroupValue] = {}

    def replay(self, record: Record) -> None:
        """Take over one stored record.

        Raises RemoteProtocolError when it is damaged; nothing has changed then.
        """
        match read(record):
            case OffsetKey() as key, OffsetValue() as committed:
                self._offsets.setdefault(key.group, {})[TopicPartition(key.topic, key.partition)] = committed
            case OffsetKey() as key, None:
                self._forget_offset(key)
            case GroupKey() as key, GroupValue() as stored:
                self._generations[key.group] = stored
            case GroupKey() as key, None:
                self._generations.pop(key.group, None)

    def offsets(self, group_id: str) -> Offsets:
        """All committed offsets of a group, in the order of their first commit."""
        return self._offsets.get(group_id, _NONE)

    def generation(self, group_id: str) -> GroupValue | None:
        """The generation of a group that was stored last."""
        return self._generations.get(group_id)

    def knows(self, group_id: str) -> bool:
        """Whether anything is stored of a group."""
        return group_id in self._generations or group_id in self._offsets

    def group_ids(self) -> Iterator[str]:
        """Every group of which something is stored."""
        yield from self._generations
        yield from (group_id for group_id in self._offsets if group_id not in self._generations)

    def forget_group(self, group_id: str) -> None:
        """Drop a group whose partition moved away; the log still has it."""
        self._offsets.pop(group_id, None)
        self._generations.pop(group_id, None)

    def _forget_offset(self, key: OffsetKey) -> None:
        offsets = self._offsets.get(key.group)
        if offsets is None:
            return
        offsets.pop(TopicPartition(key.topic, key.partition), None)
        if not offsets:
            del self._offsets[key.group]
