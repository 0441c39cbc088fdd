"""The partitions of `__consumer_offsets` that this broker leads, and so the groups that it coordinates."""

from __future__ import annotations

from enum import StrEnum

from ottla.broker.groups.coordinator.records import partition_for
from ottla.model.error_codes import Code


class OffsetsPartitionState(StrEnum):
    """The state of a partition that this broker leads."""

    LOADING = "loading"
    ACTIVE = "active"


class OffsetsPartitions:
    """Which partitions are led here, and whether their groups are loaded."""

    def __init__(self, partition_count: int) -> None:
        self._partition_count = partition_count
        self._states: dict[int, OffsetsPartitionState] = {}

    def begin_load(self, partition: int) -> None:
        """This broker leads a partition now, and reads its records."""
        self._states[partition] = OffsetsPartitionState.LOADING

    def finish_load(self, partition: int) -> None:
        """All records of a partition were read."""
        self._states[partition] = OffsetsPartitionState.ACTIVE

    def unload(self, partition: int) -> None:
        """Another broker leads a partition now."""
        self._states.pop(partition, None)

    @property
    def is_loading(self) -> bool:
        """Whether any partition is being loaded."""
        return OffsetsPartitionState.LOADING in self._states.values()

    def of_group(self, group_id: str) -> int:
        """Return the partition that holds a group."""
        return partition_for(group_id, self._partition_count)

    def availability(self, group_id: str) -> Code:
        """Return NONE if a group can be served here and now, else the error for its clients."""
        state = self._states.get(self.of_group(group_id))
        if state is None:
            return Code.NOT_COORDINATOR
        is_loading = state is OffsetsPartitionState.LOADING
        return Code.COORDINATOR_LOAD_IN_PROGRESS if is_loading else Code.NONE

    def group_error(self, group_id: str) -> Code:
        """As `availability`, for what needs a group's name.

        Offsets may be stored under the empty name, as very old consumers do; members need a name.
        """
        return self.availability(group_id) if group_id else Code.INVALID_GROUP_ID
