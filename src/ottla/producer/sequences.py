"""Sequence numbers of an idempotent producer in one partition: no batch is stored twice. Pure.

A broker stores a batch whose base sequence follows the last one, acknowledges any of the last five again, and
refuses others with OUT_OF_ORDER_SEQUENCE_NUMBER. So batches after one that was given up cannot be stored
under their numbers: the partition continues with the next epoch, which starts at 0.

    a gap is certain    a batch was given up that is not stored: the numbers after it are useless, and no
                        broker can have stored them. They are replaced when nothing is in flight any more.
    a gap is possible   a batch was given up that may be stored. The next batch shows it: if that is stored
                        there is no gap, if it is refused as out of order there is one.

Batches before a gap keep their numbers until they are settled: they may be stored, and a broker recognizes
them only by the same numbers. A gap is identified by the `number` of a batch.

A broker that does not know a producer accepts any sequence as the first. So the first batch of an identity is
sent alone; else the second could be stored and the first refused.
"""

from __future__ import annotations

from typing import NamedTuple

EPOCH_MAX = (1 << 15) - 1
SEQUENCE_MASK = (1 << 31) - 1


class Identity(NamedTuple):
    """The id of InitProducerId, and an epoch that the producer counts up."""

    producer_id: int
    epoch: int


class Sequences:
    """The sequence numbers of one partition."""

    __slots__ = ("_certain_gap", "_possible_gap", "following", "identity", "is_proven", "wants_identity")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.following = 0
        self.is_proven = False
        self.wants_identity = False  # the epochs are used up, or a broker refuses the id
        self._certain_gap: int | None = None  # the first gap
        self._possible_gap: int | None = None  # the last gap

    @property
    def has_gap(self) -> bool:
        """Whether new batches must wait until their numbers are known."""
        return self._certain_gap is not None or self._possible_gap is not None

    def must_restart(self, oldest: int | None) -> bool:
        """Whether batches from `oldest` on need other numbers. None: no batch was returned."""
        if self._certain_gap is not None:
            return oldest is None or oldest >= self._certain_gap
        return self._possible_gap is not None and oldest is None

    def waits_for_another_than(self, current: Identity) -> bool:
        """Whether nothing may be sent before the producer has another id than `current`."""
        return self.wants_identity and self.identity.producer_id == current.producer_id

    def take(self, count: int) -> int:
        """Return the base sequence of the next `count` records."""
        base = self.following
        self.following = (base + count) & SEQUENCE_MASK
        return base

    def acked(self, number: int) -> None:
        """Note that a batch is stored, and so are all numbered batches before it."""
        self.is_proven = True
        if self._possible_gap is not None and self._possible_gap < number:
            self._possible_gap = None

    def gave_up(self, number: int, *, may_be_stored: bool) -> None:
        """Note that a batch was given up, or needs another number."""
        if may_be_stored:
            self._possible_gap = max(number, self._possible_gap or 0)
        else:
            self._certain_gap = number if self._certain_gap is None else min(number, self._certain_gap)

    def restart(self, current: Identity) -> bool:
        """Start at 0 with an identity that this partition has not used.

        `current` is the identity from the last InitProducerId. Returns False if it must be replaced first.
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
