"""What a member wants of the application, and tells people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.fetching.places import TopicAndPartition
from ottla.offsets.coordinator_messages import Membership

Places = frozenset[TopicAndPartition]
NOTHING: Places = frozenset()


@dataclass(frozen=True, slots=True)
class Demand:
    """What the application shall do: give partitions back, then take others. `is_lost`: others may have
    them already, so there is nothing left to commit."""

    give_back: Places
    take: Places
    is_lost: bool
    membership: Membership


class Notice(NamedTuple):
    """Something that a person should read in a log."""

    level: int
    text: str
