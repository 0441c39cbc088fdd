"""What one partition still has to send, in order: the rules of sending, returning and giving up.

    waiting    parts that no batch has yet
    returned   batches that were sent and must be sent again, by age
    in_flight  batches that a broker has, by age

Order. A partition's records are stored in the order in which they were handed in, whatever happens. With an
idempotent producer the broker sees to it: several batches are in flight, and if one fails those behind it are
refused as out of step. From then on they go alone, oldest first, until no batch is left that was sent before.
Without it only one batch is in flight at a time, unless nothing is ever sent again (retries=0, acks=0).

No clock, no lock, no thread: times are arguments, and the owner is whoever holds the accumulator.
"""

from __future__ import annotations

import random
from bisect import insort
from collections import deque
from dataclasses import dataclass

from ottla.client.retry import Backoff
from ottla.model.errors import KafkaError, OttlaError
from ottla.producer.batches import NO_SEQUENCE, Batch, Outcome
from ottla.producer.errors import DeliveryExpired
from ottla.producer.parts import Part, batch_size
from ottla.producer.sequences import Identity, Sequences
from ottla.producer.verdicts import MAY_BE_STORED, Verdict, verdict_on

NO_LEADER = -1
NEVER = float("inf")
FULL = 15 / 16  # of batch.size: the next part is unlikely to fit


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that these rules know."""

    batch_size: int
    linger_ms: float
    delivery_timeout_ms: float
    retries: int
    backoff: Backoff
    max_request_size: int
    acks: int


class PartitionQueue:
    """See the module."""

    def __init__(self, topic: str, partition: int, limits: Limits, chance: random.Random) -> None:
        self.topic = topic
        self.partition = partition
        self.leader = NO_LEADER
        self.waiting: deque[Part] = deque()
        self.waiting_bytes = 0
        self.returned: list[Batch] = []
        self.in_flight: deque[Batch] = deque()
        self.sequences: Sequences | None = None
        self._in_flight_at = NO_LEADER
        self._limits = limits
        self._chance = chance
        self._batch_size = limits.batch_size
        self._whole_size = limits.max_request_size
        self._formed = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send and nothing to wait for."""
        return not (self.waiting or self.returned or self.in_flight)

    def add(self, part: Part) -> None:
        """Take a part behind all others."""
        self.waiting.append(part)
        self.waiting_bytes += part.size

    # ---- sending

    def ready_at(self, identity: Identity | None, *, in_hurry: bool) -> float:
        """From when on `take` gives a batch; NEVER while something must happen first."""
        if not self._may_send(identity):
            return NEVER
        if self.returned:
            return self.returned[0].not_before_ms
        if not self.waiting:
            return NEVER
        if in_hurry or self.waiting_bytes >= self._batch_size * FULL or self.waiting[0].is_whole:
            return 0.0
        return self.waiting[0].created_ms + self._limits.linger_ms

    def _may_send(self, identity: Identity | None) -> bool:
        sequences = self.sequences
        if not self.in_flight:
            return not (
                sequences is not None and identity is not None and sequences.waits_for_another_than(identity)
            )
        # Behind a batch that is sent again nothing new leaves: a broker knows but the last five again.
        if self._in_flight_at != self.leader or self.returned or self.in_flight[0].attempts > 1:
            return False
        if identity is not None:
            return sequences is not None and sequences.is_proven and not sequences.has_gap
        return self._limits.retries == 0 or self._limits.acks == 0

    @property
    def next_size(self) -> int:
        """What the next batch takes, or more."""
        if self.returned:
            return batch_size(self.returned[0].size)
        if self.waiting and self.waiting[0].is_whole:
            return self.waiting[0].size
        return batch_size(min(self.waiting_bytes, self._batch_size))

    def take(self, identity: Identity | None) -> Batch | None:
        """The next batch, in flight from now on; None if it needs another identity first.

        `identity` is the producer's own, None for one that is not idempotent.
        """
        if identity is not None and not self._numbered(identity):
            return None
        batch = self.returned.pop(0) if self.returned else self._form()
        if self.sequences is not None and identity is not None and batch.base_sequence == NO_SEQUENCE:
            batch.identity = self.sequences.identity
            batch.base_sequence = self.sequences.take(batch.count)
        batch.attempts += 1
        self.in_flight.append(batch)
        self._in_flight_at = self.leader
        return batch

    def _numbered(self, identity: Identity) -> bool:
        """See to it that the numbers of what is sent next make sense to a broker."""
        if self.sequences is None:
            self.sequences = Sequences(identity)
        oldest = self.returned[0].number if self.returned else None
        if self.in_flight or not self.sequences.must_restart(oldest):
            return True
        if not self.sequences.restart(identity):
            return False
        for batch in self.returned:
            batch.identity = self.sequences.identity
            batch.base_sequence = self.sequences.take(batch.count)
        return True

    def _form(self) -> Batch:
        parts: list[Part] = []
        size = batch_size(0)
        while self.waiting:
            part = self.waiting[0]
            if parts and (part.is_whole or parts[-1].is_whole or size + part.size > self._batch_size):
                break
            if part.count > 1 and part.size > self._part_limit(part) and self._halves_next():
                continue  # the topic takes less than we were told
            parts.append(self.waiting.popleft())
            size += part.size
            self.waiting_bytes -= part.size
        batch = Batch(self.topic, self.partition, self._formed, parts)
        self._formed += batch.count
        return batch

    def _part_limit(self, part: Part) -> int:
        """What is sent alone. A batch that stays whole is not cut to our batch.size, only to the topic's."""
        return self._whole_size if part.is_whole else self._batch_size

    def _halves_next(self) -> bool:
        """Two parts instead of the next one; False if it cannot be decoded, and a broker may tell why."""
        try:
            halves = self.waiting[0].halves()
        except OttlaError:
            return False
        self.waiting_bytes += sum(half.size for half in halves) - self.waiting.popleft().size
        self.waiting.extendleft(reversed(halves))
        return True

    # ---- answers

    def stored(self, batch: Batch, base_offset: int, append_time_ms: int) -> list[Outcome]:
        """A broker has it."""
        self.in_flight.remove(batch)
        if self.sequences is not None and batch.base_sequence != NO_SEQUENCE:
            self.sequences.acked(batch.number)
        if batch.is_given_up:
            return []
        return [Outcome(batch.parts, self.partition, base_offset, append_time_ms)]

    def refused(self, batch: Batch, error: KafkaError, now_ms: float) -> tuple[Verdict, list[Outcome]]:
        """A broker answered an error."""
        self.in_flight.remove(batch)
        verdict = verdict_on(error.code)
        if error.code in MAY_BE_STORED:
            batch.may_be_stored = True
        if batch.is_given_up:
            self._gave_up(batch)
            return verdict, []
        if verdict is Verdict.SPLIT and batch.count > 1:
            return verdict, self._split(batch)
        if verdict is Verdict.OUT_OF_STEP or verdict is Verdict.NEW_IDENTITY:
            self._out_of_step(batch, verdict)
        elif verdict in {Verdict.FAIL, Verdict.SPLIT}:
            return verdict, self._failed(batch, error)
        return verdict, self._again(batch, error, now_ms)

    def lost(self, batch: Batch, error: OttlaError, now_ms: float) -> list[Outcome]:
        """The connection broke before an answer came."""
        self.in_flight.remove(batch)
        batch.may_be_stored = True
        if batch.is_given_up:
            self._gave_up(batch)
            return []
        return self._again(batch, error, now_ms)

    def unsendable(self, batch: Batch, error: OttlaError) -> list[Outcome]:
        """It could not be written down for this broker."""
        self.in_flight.remove(batch)
        return self._failed(batch, error)

    def _again(self, batch: Batch, error: OttlaError, now_ms: float) -> list[Outcome]:
        if batch.attempts > self._limits.retries:
            return self._failed(batch, error)
        batch.not_before_ms = now_ms + self._limits.backoff.pause_ms(batch.attempts, self._chance)
        insort(self.returned, batch, key=lambda one: one.number)
        return []

    def _failed(self, batch: Batch, error: OttlaError) -> list[Outcome]:
        self._gave_up(batch)
        return [Outcome(batch.parts, self.partition, error=error)]

    def _gave_up(self, batch: Batch) -> None:
        if self.sequences is not None and batch.base_sequence != NO_SEQUENCE:
            self.sequences.gave_up(batch.number, may_be_stored=batch.may_be_stored)

    def _split(self, batch: Batch) -> list[Outcome]:
        """Both halves again, at once; from now on this partition's batches are smaller."""
        self._batch_size = max(1, min(self._batch_size, batch.size // 2))
        self._whole_size = min(self._whole_size, batch.size - 1)
        try:
            halves = batch.halves()
        except OttlaError as error:
            return self._failed(batch, error)
        for half in halves:
            insort(self.returned, half, key=lambda one: one.number)
        return []

    def _out_of_step(self, batch: Batch, verdict: Verdict) -> None:
        """Refused for its numbers: because of older batches under way, or else numbers are missing."""
        if self.sequences is None or any(
            one.number < batch.number for one in (*self.in_flight, *self.returned)
        ):
            return
        batch.may_be_stored = False
        self._gave_up(batch)
        if verdict is Verdict.NEW_IDENTITY:
            self.sequences.wants_identity = True

    # ---- time

    @property
    def oldest_ms(self) -> float:
        """When the oldest record that is not settled was handed in."""
        oldest = self.waiting[0].created_ms if self.waiting else NEVER
        for batch in (*self.returned, *self.in_flight):
            if not batch.is_given_up and batch.created_ms < oldest:
                oldest = batch.created_ms
        return oldest

    def expired(self, now_ms: float, trouble: OttlaError | None = None) -> list[Outcome]:
        """Give up what is too old. What is in flight stays there, for the numbers that it has.

        `trouble` is why the leader does not answer, if that is known.
        """
        limit = now_ms - self._limits.delivery_timeout_ms
        outcomes: list[Outcome] = []
        for batch in [one for one in self.returned if one.created_ms <= limit]:
            self.returned.remove(batch)
            outcomes += self._failed(
                batch, self._too_late(batch.count, trouble, may_be_stored=batch.may_be_stored)
            )
        for batch in self.in_flight:
            if batch.created_ms <= limit and not batch.is_given_up:
                batch.is_given_up = True
                error = self._too_late(batch.count, trouble, may_be_stored=True)
                outcomes.append(Outcome(batch.parts, self.partition, error=error))
        while self.waiting and self.waiting[0].created_ms <= limit:
            part = self.waiting.popleft()
            self.waiting_bytes -= part.size
            outcomes.append(
                Outcome(
                    [part], self.partition, error=self._too_late(part.count, trouble, may_be_stored=False)
                )
            )
        return outcomes

    def _too_late(self, count: int, trouble: OttlaError | None, *, may_be_stored: bool) -> DeliveryExpired:
        why = "nobody leads the partition" if self.leader == NO_LEADER else f"broker {self.leader} leads it"
        fate = "they may be stored all the same" if may_be_stored else "they are not stored"
        error = DeliveryExpired(
            f"{self.topic}-{self.partition}: {count:,} records were not acknowledged within"
            f" delivery.timeout.ms={self._limits.delivery_timeout_ms:.0f}; {fate}; {why}"
            + (f": {trouble}" if trouble else "")
        )
        error.__cause__ = trouble
        return error

    def abandoned(self, error: OttlaError) -> list[Outcome]:
        """Give everything up. What is in flight stays there, for the numbers that it has."""
        outcomes = [Outcome([part], self.partition, error=error) for part in self.waiting]
        self.waiting.clear()
        self.waiting_bytes = 0
        for batch in self.returned:
            outcomes += self._failed(batch, error)
        self.returned.clear()
        for batch in self.in_flight:
            if not batch.is_given_up:
                batch.is_given_up = True
                outcomes.append(Outcome(batch.parts, self.partition, error=error))
        return outcomes
