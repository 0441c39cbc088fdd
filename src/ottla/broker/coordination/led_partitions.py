"""The partitions of a coordinator's topic that this broker leads, and so the names that it coordinates.

A name is a group or a transactional id. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

from ottla.model.error_codes import Code
from ottla.model.java_hashes import java_abs, java_hash


@lru_cache(maxsize=4096)  # called for every request; bounded, since clients make up names
def partition_for(name: str, partition_count: int = 50) -> int:
    """Return the partition of a coordinator's topic that holds a name; its leader coordinates it."""
    return java_abs(java_hash(name)) % partition_count


class LedPartitionState(StrEnum):
    """The state of a partition that this broker leads."""

    LOADING = "loading"
    ACTIVE = "active"


class LedPartitions:
    """Which partitions are led here, and whether their records are loaded."""

    def __init__(self, partition_count: int) -> None:
        self._partition_count = partition_count
        self._states: dict[int, LedPartitionState] = {}

    def begin_load(self, partition: int) -> None:
        """Note that this broker leads a partition now, and reads its records."""
        self._states[partition] = LedPartitionState.LOADING

    def finish_load(self, partition: int) -> None:
        """Note that all records of a partition were read."""
        self._states[partition] = LedPartitionState.ACTIVE

    def unload(self, partition: int) -> None:
        """Note that another broker leads a partition now."""
        self._states.pop(partition, None)

    @property
    def is_loading(self) -> bool:
        """Whether any partition is being loaded."""
        return LedPartitionState.LOADING in self._states.values()

    def of(self, name: str) -> int:
        """Return the partition that holds a name."""
        return partition_for(name, self._partition_count)

    def availability(self, name: str) -> Code:
        """Return NONE if a name can be served here and now, else the error for its clients."""
        state = self._states.get(self.of(name))
        if state is None:
            return Code.NOT_COORDINATOR
        is_loading = state is LedPartitionState.LOADING
        return Code.COORDINATOR_LOAD_IN_PROGRESS if is_loading else Code.NONE

    def group_error(self, group_id: str) -> Code:
        """As `availability`, for requests that need the name of a group.

        Offsets may be stored under the empty name, as very old consumers do; members need a name.
        """
        return self.availability(group_id) if group_id else Code.INVALID_GROUP_ID
