"""The queue of one partition: the rules of sending, sending again and giving up, in order. Pure.

    waiting    parts that are in no batch yet
    returned   batches that were sent and must be sent again, oldest first
    in_flight  batches that were sent and are not answered, oldest first

Order. Records are stored in the order in which they were handed in, whatever happens. With an idempotent
producer the broker ensures that: several batches are in flight, and if one fails, the later ones are refused
as out of step. From then on batches are sent one at a time, oldest first, until every batch that was sent
before is settled. Without idempotence only one batch is in flight, unless nothing is sent again (retries=0,
acks=0).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass

from ottla.client.network_errors import CLUSTER, NetworkErrors, broker, topic
from ottla.client.reactions import Action, Call, action_for
from ottla.client.retry import Backoff
from ottla.model.chance import Chance
from ottla.model.error_codes import Code
from ottla.model.errors import DeliveryExpired, KafkaError, OttlaError
from ottla.producer.batches import NO_SEQUENCE, BatchOutcome, ProducerBatch
from ottla.producer.parts import Part, batch_size
from ottla.producer.sequences import Identity, Sequences

MAY_BE_STORED = frozenset(
    {
        Code.REQUEST_TIMED_OUT,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.NETWORK_EXCEPTION,
        Code.KAFKA_STORAGE_ERROR,
        Code.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors that a broker may answer after it has stored the batch."""

NO_LEADER = -1
NEVER = float("inf")
FULL = 15 / 16  # of batch.size: the next part is unlikely to fit


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The settings that these rules use."""

    batch_size: int
    linger_ms: float
    delivery_timeout_ms: float
    retries: int
    backoff: Backoff
    max_request_size: int
    acks: int
    is_transactional: bool = False


class PartitionQueue:
    """The batches of one partition."""

    def __init__(self, topic: str, partition: int, limits: QueueLimits, chance: Chance) -> None:
        self.topic = topic
        self.partition = partition
        self.leader = NO_LEADER
        self.waiting: deque[Part] = deque()
        self.waiting_bytes = 0
        self.returned: list[ProducerBatch] = []
        self.in_flight: deque[ProducerBatch] = deque()
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
        """Queue a part after all others."""
        self.waiting.append(part)
        self.waiting_bytes += part.size

    # ---- sending

    def ready_at(self, identity: Identity | None, *, in_hurry: bool) -> float:
        """Return from when on `take` returns a batch; NEVER while something else must happen first."""
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
        # No new batch while one is sent again: a broker recognizes only the last five.
        if self._in_flight_at != self.leader or self.returned or self.in_flight[0].attempts > 1:
            return False
        if identity is not None:
            return sequences is not None and sequences.is_proven and not sequences.has_gap
        return self._limits.retries == 0 or self._limits.acks == 0

    @property
    def next_size(self) -> int:
        """Return an upper bound of the next batch's size."""
        if self.returned:
            return batch_size(self.returned[0].size)
        if self.waiting and self.waiting[0].is_whole:
            return self.waiting[0].size
        return batch_size(min(self.waiting_bytes, self._batch_size))

    def take(self, identity: Identity | None) -> ProducerBatch | None:
        """Return the next batch, which is in flight from now on; None if it needs another producer id first.

        `identity` is None for a producer that is not idempotent.
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
        """Give the next batch sequence numbers that a broker accepts.

        Returns False if that needs another producer id.
        """
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

    def _form(self) -> ProducerBatch:
        parts: list[Part] = []
        size = batch_size(0)
        while self.waiting:
            part = self.waiting[0]
            if parts and (part.is_whole or parts[-1].is_whole or size + part.size > self._batch_size):
                break
            if part.count > 1 and part.size > self._part_limit(part) and self._halves_next():
                continue  # the topic accepts less than batch.size
            parts.append(self.waiting.popleft())
            size += part.size
            self.waiting_bytes -= part.size
        batch = ProducerBatch(self.topic, self.partition, self._formed, parts)
        self._formed += batch.count
        return batch

    def _part_limit(self, part: Part) -> int:
        """Return the largest size of a part. Whole batches are only cut to the topic's limit."""
        return self._whole_size if part.is_whole else self._batch_size

    def _halves_next(self) -> bool:
        """Cut the next part in two.

        Returns False if it cannot be decoded: then it is sent, and the broker may say why.
        """
        try:
            halves = self.waiting[0].halves()
        except OttlaError:
            return False
        self.waiting_bytes += sum(half.size for half in halves) - self.waiting.popleft().size
        self.waiting.extendleft(reversed(halves))
        return True

    # ---- answers

    def stored(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> list[BatchOutcome]:
        """Note that a broker has stored the batch."""
        self.in_flight.remove(batch)
        if self.sequences is not None and batch.base_sequence != NO_SEQUENCE:
            self.sequences.acked(batch.number)
        if batch.is_given_up:
            return []
        return [BatchOutcome(batch.parts, self.partition, base_offset, append_time_ms)]

    def refused(
        self, batch: ProducerBatch, error: KafkaError, now_ms: float
    ) -> tuple[Action, list[BatchOutcome]]:
        """Process a broker's error."""
        self.in_flight.remove(batch)
        action = action_for(error.code, Call.PRODUCE)
        if error.code in MAY_BE_STORED:
            batch.may_be_stored = True
        if batch.is_given_up:
            self._gave_up(batch)
            return action, []
        if action is Action.SPLIT and batch.count > 1:
            return action, self._split(batch)
        if action is Action.RENUMBER or action is Action.NEW_IDENTITY:
            if self._limits.is_transactional and not self._has_older(batch):
                return action, self._failed(batch, error)  # its identity changes with the transaction only
            self._out_of_step(batch, action)
        elif action in {Action.FAIL, Action.SPLIT}:
            return action, self._failed(batch, error)
        return action, self._again(batch, error, now_ms)

    def lost(self, batch: ProducerBatch, error: OttlaError, now_ms: float) -> list[BatchOutcome]:
        """Note that the connection broke before the batch was answered."""
        self.in_flight.remove(batch)
        batch.may_be_stored = True
        if batch.is_given_up:
            self._gave_up(batch)
            return []
        return self._again(batch, error, now_ms)

    def unsendable(self, batch: ProducerBatch, error: OttlaError) -> list[BatchOutcome]:
        """Note that the batch could not be encoded for its broker."""
        self.in_flight.remove(batch)
        return self._failed(batch, error)

    def _again(self, batch: ProducerBatch, error: OttlaError, now_ms: float) -> list[BatchOutcome]:
        if batch.attempts > self._limits.retries:
            return self._failed(batch, error)
        batch.not_before_ms = now_ms + self._limits.backoff.pause_ms(batch.attempts, self._chance)
        insort(self.returned, batch, key=lambda returned: returned.number)
        return []

    def _failed(self, batch: ProducerBatch, error: OttlaError) -> list[BatchOutcome]:
        self._gave_up(batch)
        return [BatchOutcome(batch.parts, self.partition, error=error)]

    def _gave_up(self, batch: ProducerBatch) -> None:
        if self.sequences is not None and batch.base_sequence != NO_SEQUENCE:
            self.sequences.gave_up(batch.number, may_be_stored=batch.may_be_stored)

    def _split(self, batch: ProducerBatch) -> list[BatchOutcome]:
        """Send both halves again, at once. From now on the batches of this partition are smaller."""
        self._batch_size = max(1, min(self._batch_size, batch.size // 2))
        self._whole_size = min(self._whole_size, batch.size - 1)
        try:
            halves = batch.halves()
        except OttlaError as error:
            return self._failed(batch, error)
        for half in halves:
            insort(self.returned, half, key=lambda returned: returned.number)
        return []

    def _out_of_step(self, batch: ProducerBatch, action: Action) -> None:
        """Process a refused sequence number: older batches are not stored yet, or numbers are missing."""
        if self.sequences is None or self._has_older(batch):
            return
        batch.may_be_stored = False
        self._gave_up(batch)
        if action is Action.NEW_IDENTITY:
            self.sequences.wants_identity = True

    def _has_older(self, batch: ProducerBatch) -> bool:
        return any(older.number < batch.number for older in (*self.in_flight, *self.returned))

    # ---- time

    @property
    def oldest_ms(self) -> float:
        """When the oldest record that is not settled was handed in."""
        oldest = self.waiting[0].created_ms if self.waiting else NEVER
        for batch in (*self.returned, *self.in_flight):
            if not batch.is_given_up and batch.created_ms < oldest:
                oldest = batch.created_ms
        return oldest

    def expired(self, now_ms: float, errors: NetworkErrors) -> list[BatchOutcome]:
        """Give up what is too old. Batches in flight stay in flight, because their sequence numbers are used.

        `errors` say why the leader does not answer.
        """
        limit = now_ms - self._limits.delivery_timeout_ms
        outcomes: list[BatchOutcome] = []
        for batch in [batch for batch in self.returned if batch.created_ms <= limit]:
            self.returned.remove(batch)
            outcomes += self._failed(
                batch, self._too_late(batch.count, errors, may_be_stored=batch.may_be_stored)
            )
        for batch in self.in_flight:
            if batch.created_ms <= limit and not batch.is_given_up:
                batch.is_given_up = True
                error = self._too_late(batch.count, errors, may_be_stored=True)
                outcomes.append(BatchOutcome(batch.parts, self.partition, error=error))
        while self.waiting and self.waiting[0].created_ms <= limit:
            part = self.waiting.popleft()
            self.waiting_bytes -= part.size
            outcomes.append(
                BatchOutcome(
                    [part], self.partition, error=self._too_late(part.count, errors, may_be_stored=False)
                )
            )
        return outcomes

    def _too_late(self, count: int, errors: NetworkErrors, *, may_be_stored: bool) -> DeliveryExpired:
        why = (
            "no broker leads the partition" if self.leader == NO_LEADER else f"broker {self.leader} leads it"
        )
        trouble = errors.of(broker(self.leader), topic(self.topic), CLUSTER)
        fate = "they may be stored all the same" if may_be_stored else "they are not stored"
        error = DeliveryExpired(
            f"{self.topic}-{self.partition}: {count:,} records were not acknowledged within"
            f" delivery.timeout.ms={self._limits.delivery_timeout_ms:.0f}; {fate}; {why}"
            + (f": {trouble}" if trouble else "")
        )
        error.__cause__ = trouble or errors.last
        if errors.last is not None:
            error.add_note(f"the last network error: {errors.last}")
        return error

    def abandoned(self, error: OttlaError) -> list[BatchOutcome]:
        """Give up everything. Batches in flight stay in flight, because their sequence numbers are used."""
        outcomes = [BatchOutcome([part], self.partition, error=error) for part in self.waiting]
        self.waiting.clear()
        self.waiting_bytes = 0
        for batch in self.returned:
            outcomes += self._failed(batch, error)
        self.returned.clear()
        for batch in self.in_flight:
            if not batch.is_given_up:
                batch.is_given_up = True
                outcomes.append(BatchOutcome(batch.parts, self.partition, error=error))
        return outcomes
