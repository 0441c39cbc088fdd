"""Numbers of an idempotent producer in one partition, so that a batch that is sent twice is stored once.

A broker takes the batch whose base sequence follows the last one that it has, acknowledges those of the last
five again, and refuses the rest with OUT_OF_ORDER_SEQUENCE_NUMBER. So what follows a batch that was given up
cannot be stored under its number, and the partition goes on under the next epoch, which begins at 0.

    a gap is certain    a batch was given up that is not stored: the numbers behind it are worthless, and no
                        broker can have stored them. They are replaced when nothing is in flight any more.
    a gap is possible   a batch was given up that may be stored. What comes behind it finds out: if that is
                        stored there is no gap, if it is refused as out of order there is.

Batches from before a gap keep their numbers until they are settled: they may be stored, and only under the
same numbers can a broker know them again. Gaps are told by the number of a batch in its partition.

A broker that does not know a producer takes any sequence as the first. So the first batch under an identity
goes alone, or the second could be stored and the first be refused.
"""

from __future__ import annotations

from typing import NamedTuple

EPOCH_MAX = (1 << 15) - 1
SEQUENCE_MASK = (1 << 31) - 1


class Identity(NamedTuple):
    """What InitProducerId gave, and the epoch counted on from there."""

    producer_id: int
    epoch: int


class Sequences:
    """Of one partition."""

    __slots__ = ("_certain_gap", "_possible_gap", "following", "identity", "is_proven", "wants_identity")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.following = 0
        self.is_proven = False
        self.wants_identity = False  # the epochs are used up, or a broker does not take the id
        self._certain_gap: int | None = None  # the first
        self._possible_gap: int | None = None  # the last

    @property
    def has_gap(self) -> bool:
        """Whether new batches have to wait until it is known how to number them."""
        return self._certain_gap is not None or self._possible_gap is not None

    def must_restart(self, oldest: int | None) -> bool:
        """Whether the numbers of batches from `oldest` on are worthless; None: there is none to find out."""
        if self._certain_gap is not None:
            return oldest is None or oldest >= self._certain_gap
        return self._possible_gap is not None and oldest is None

    def waits_for_another_than(self, current: Identity) -> bool:
        """Whether nothing may leave before the producer has another id than this."""
        return self.wants_identity and self.identity.producer_id == current.producer_id

    def take(self, count: int) -> int:
        """The base sequence of the next so many records."""
        base = self.following
        self.following = (base + count) & SEQUENCE_MASK
        return base

    def acked(self, number: int) -> None:
        """A batch is stored, and so is everything before it that had a number."""
        self.is_proven = True
        if self._possible_gap is not None and self._possible_gap < number:
            self._possible_gap = None

    def gave_up(self, number: int, *, may_be_stored: bool) -> None:
        """A batch was given up, or must have another number."""
        if may_be_stored:
            self._possible_gap = max(number, self._possible_gap or 0)
        else:
            self._certain_gap = number if self._certain_gap is None else min(number, self._certain_gap)

    def restart(self, current: Identity) -> bool:
        """Begin at 0 under an identity that this partition has not used; False if `current` must be replaced.

        `current` is what the producer has from its last InitProducerId.
        """
        if current.producer_id != self.identity.producer_id:
            self.identity = current
        elif self.wants_identity or self.identity.epoch >= EPOCH_MAX:
            self.wants_identity = True
            return False
        else:
            self.identity = Identity(self.identity.producer_id, self.identity.epoch + 1)
        self.following = 0
        self.is_proven = False
        self.wants_identity = False
        self._certain_gap = self._possible_gap = None
        return True
