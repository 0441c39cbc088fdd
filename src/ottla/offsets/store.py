"""The port to wherever positions are kept, and the values that cross it.

A position is the offset of the next record to read. Stores are `KafkaOffsets` (`__consumer_offsets`),
`ZooKeeperOffsets` and `DualOffsets`. `OffsetLedger` keeps them in the user's own database instead, in the
transaction of the results, and so needs another face; `LedgerOffsets` is that table seen from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from ottla.fetching.places import TopicAndPartition
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

NO_LEADER_EPOCH = -1
_SHOWN_MAX = 5

_REMEDIES = {
    Code.UNKNOWN_MEMBER_ID: "the group has live members, and only they may commit: stop them first, or use "
    "another group.id",
    Code.ILLEGAL_GENERATION: "the group has live members, and only they may commit: stop them first, or use "
    "another group.id",
    Code.OFFSET_METADATA_TOO_LARGE: "shorten the metadata, or raise the broker's offset.metadata.max.bytes",
}


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """The next offset to read, a note of the user's, and the leader epoch of the last record before it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_LEADER_EPOCH


class OffsetStore(Protocol):
    """Positions of groups. Any thread may call it."""

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """What is stored; partitions without a position are missing."""

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Every position that is stored of a group, in order; none if nobody knows the group."""

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store positions. Raises OffsetCommitFailed if some were refused; the others are stored."""

    def close(self) -> None:
        """End what the store opened itself. May be called twice."""


class OffsetsRefused(KafkaError):
    """A coordinator did not store or tell some positions. `failures` has them with their codes.

    `code` is the one of the first. What is not in `failures` went well.
    """

    _done = "refused"

    def __init__(self, group: str, failures: Mapping[TopicAndPartition, int]) -> None:
        self.group = group
        self.failures = MappingProxyType(dict(sorted(failures.items())))
        code = next(iter(self.failures.values()))
        shown = ", ".join(str(one) for one in list(self.failures)[:_SHOWN_MAX])
        more = f" and {len(self.failures) - _SHOWN_MAX} more" if len(self.failures) > _SHOWN_MAX else ""
        remedy = _REMEDIES.get(Code.of(code))
        why = f" ({remedy})" if remedy else ""
        super().__init__(code, f"group {group!r}: offsets of {shown}{more} were not {self._done}{why}")


class OffsetCommitFailed(OffsetsRefused):
    """Some positions were not stored."""

    _done = "committed"


class OffsetFetchFailed(OffsetsRefused):
    """Some positions were not told: whether there are any is not known."""

    _done = "told"
