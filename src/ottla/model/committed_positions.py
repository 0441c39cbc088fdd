"""Positions of groups, and in whose name they are committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

NO_LEADER_EPOCH = -1
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """The next offset to read, a note of the user, and the leader epoch of the record before it.

    >>> from ottla import OffsetAndMetadata
    >>> OffsetAndMetadata(42, "after the nightly run")
    OffsetAndMetadata(offset=42, metadata='after the nightly run', leader_epoch=-1)
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_LEADER_EPOCH


class GroupMetadata(NamedTuple):
    """A group, and its member that commits; by default a client outside the group.

    >>> from ottla import GroupMetadata
    >>> GroupMetadata("billing")
    GroupMetadata(group_id='billing', member_id='', generation=-1, instance_id=None)
    """

    group_id: str
    member_id: str = ""
    generation: int = NO_GENERATION
    instance_id: str | None = None
