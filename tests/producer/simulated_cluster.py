"""A cluster and its network in one thread, for the producer's core: brokers that number, refuse and forget.

Brokers follow Kafka's rules for idempotent producers. The network loses connections before or after requests
are handled, and leaders move. One seed decides everything.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pyarrow as pa

from ottla.client.network_errors import NetworkErrors
from ottla.client.reactions import Action
from ottla.client.retry import Backoff
from ottla.model.error_codes import Code
from ottla.model.errors import ConnectionLost, KafkaError
from ottla.producer.accumulator import Accumulator
from ottla.producer.batches import NO_SEQUENCE, BatchOutcome, ProducerBatch
from ottla.producer.deliveries import Submission
from ottla.producer.partition_queue import NEVER, NO_LEADER, QueueLimits
from ottla.producer.parts import ColumnSource, Part, Sizes
from ottla.producer.sequences import Identity
from ottla.producer.whole_parts import WholePart
from ottla.records.builder import NO_PICKS, encode
from ottla.records.compression import Codec

TOPIC = "orders"
IN_FLIGHT_MAX = 5
REFUSALS = (
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.LEADER_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS,
    Code.CORRUPT_MESSAGE,
)
# No broker says these of a batch that it has.
REFUSALS_OF_THE_NEW = (
    Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Code.UNKNOWN_PRODUCER_ID,
    Code.INVALID_PRODUCER_EPOCH,
    Code.INVALID_RECORD,
    Code.MESSAGE_TOO_LARGE,
)
AFTER_APPEND = (Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def limits(**changes: object) -> QueueLimits:
    """Small batches and quick retries."""
    values = {
        "batch_size": 400,
        "linger_ms": 5.0,
        "delivery_timeout_ms": 2_000.0,
        "retries": 2**31 - 1,
        "backoff": Backoff(10.0, 50.0),
        "max_request_size": 1_000,
        "acks": -1,
    }
    return QueueLimits(**{**values, **changes})  # type: ignore[arg-type]


def part(values: list[int], now_ms: float, submission: Submission | None = None) -> Part:
    """Records that carry numbers."""
    columns = pa.record_batch({"value": pa.array([b"%d" % value for value in values], pa.binary())})
    submission = submission or Submission(TOPIC, NetworkErrors(lambda: 0.0))
    submission.close(len(values))
    source = ColumnSource.of(columns, 0)
    reach = Sizes(source.records).reach
    size = int(reach[-1] - reach[0])
    return Part(source, NO_PICKS, range(len(values)), size, submission, now_ms, 0)


def whole_part(values: list[int], now_ms: float) -> WholePart:
    """The same as a batch that somebody else encoded."""
    (batch,) = encode(part(values, now_ms).columns, codec=Codec.LZ4)
    submission = Submission(TOPIC, NetworkErrors(lambda: 0.0))
    submission.close(len(values))
    return WholePart(batch, Codec.LZ4, range(len(values)), submission, 0, now_ms)


def numbers(one: Part) -> list[int]:
    """What the records of a part carry."""
    return [int(value) for value in one.columns.column("value").to_pylist()]


@dataclass
class StoredPartition:
    """A log of numbers, and what it knows of producers: epoch, last sequence, the last five batches."""

    records: list[int] = field(default_factory=list)
    producers: dict[int, tuple[int, int, list[tuple[int, int, int]]]] = field(default_factory=dict)

    def append(self, batch: ProducerBatch) -> tuple[Code, int]:
        """An error and a base offset."""
        base = len(self.records)
        if batch.identity is not None and batch.base_sequence != NO_SEQUENCE:
            known = self.producers.get(batch.identity.producer_id)
            first, last = batch.base_sequence, batch.base_sequence + batch.count - 1
            stored: list[tuple[int, int, int]] = []
            if known is not None:
                epoch, last_sequence, stored = known
                if batch.identity.epoch < epoch:
                    return Code.INVALID_PRODUCER_EPOCH, -1
                if batch.identity.epoch > epoch:
                    if first:
                        return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                    stored = []
                elif first != last_sequence + 1:
                    for one in stored:
                        if one[:2] == (first, last):
                            return Code.NONE, one[2]
                    return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            entry = [*stored, (first, last, base)][-5:]
            self.producers[batch.identity.producer_id] = (batch.identity.epoch, last, entry)
        for part in batch.parts:
            self.records += numbers(part)
        return Code.NONE, base


@dataclass
class Fate:
    """What the user was told of one record."""

    partition: int
    offset: int
    error: Exception | None


class Simulation:
    """Run `steps`, then `settle`; `told` and `partitions` are what there is to check."""

    def __init__(self, seed: int, *, is_idempotent: bool, partitions: int, faults: float, **changes: object):
        self.chance = random.Random(seed)
        self.faults = faults
        self.now_ms = 0.0
        self.core = Accumulator(limits(**changes), is_idempotent=is_idempotent, chance=self.chance)
        self.partitions = [StoredPartition() for _ in range(partitions)]
        self.leaders = [self.chance.choice((1, 2)) for _ in range(partitions)]
        self.links: dict[int, deque[list[ProducerBatch]]] = {1: deque(), 2: deque()}
        self.told: dict[int, Fate] = {}
        self.sent = 0
        self.places: dict[int, int] = {}
        self._identities = 0
        self._stale: set[int] = set(range(partitions))
        self._whole_share = self.chance.choice((0.0, 0.0, 0.0, 0.25))

    # ---- the user

    def send(self) -> None:
        partition = self.chance.randrange(len(self.partitions))
        count = self.chance.choice((1, 1, 3, 12))
        values = list(range(self.sent, self.sent + count))
        self.sent += count
        for value in values:
            self.places[value] = partition
        made = whole_part if self.chance.random() < self._whole_share else part
        self.core.add(TOPIC, partition, [made(values, self.now_ms)])

    def tell(self, outcomes: list[BatchOutcome]) -> None:
        for outcome in outcomes:
            for one, run in outcome.runs():
                for position, value in enumerate(numbers(one)):
                    assert value not in self.told, "told twice"
                    offset = run.base_offset + position if run.base_offset >= 0 else -1
                    self.told[value] = Fate(run.partition, offset, run.error)

    # ---- the producer's threads

    def housekeeping(self) -> None:
        if self.core.wants_identity:
            self._identities += 1
            self.core.identity = Identity(self._identities, 0)
        for place in list(self._stale):
            self.core.led(TOPIC, place, self.leaders[place])
        self._stale.clear()
        if self.core.expires_at() <= self.now_ms:
            self.tell(self.core.expired(self.now_ms, NetworkErrors(lambda: 0.0)))

    def drain(self, broker: int) -> None:
        if len(self.links[broker]) < IN_FLIGHT_MAX:
            batches = self.core.take(broker, self.now_ms)
            assert len({batch.partition for batch in batches}) == len(batches)
            if batches:
                self.links[broker].append(batches)

    def answer(self, broker: int) -> None:
        if not self.links[broker]:
            return
        for batch in self.links[broker].popleft():
            code, offset = self._handle(broker, batch)
            if code is Code.NONE:
                self.tell(self.core.stored(batch, offset, -1))
            else:
                action, outcomes = self.core.refused(batch, KafkaError(code), self.now_ms)
                self.tell(outcomes)
                if action is Action.REFRESH:
                    self.core.led(TOPIC, batch.partition, NO_LEADER)
                    self._stale.add(batch.partition)

    def _handle(self, broker: int, batch: ProducerBatch) -> tuple[Code, int]:
        if self.leaders[batch.partition] != broker:
            return Code.NOT_LEADER_OR_FOLLOWER, -1
        if self.chance.random() < self.faults:
            return self.chance.choice(REFUSALS), -1
        partition = self.partitions[batch.partition]
        is_new = numbers(batch.parts[0])[0] not in partition.records
        if is_new and self.chance.random() < self.faults:
            return self.chance.choice(REFUSALS_OF_THE_NEW), -1
        code, offset = partition.append(batch)
        if code is Code.NONE and self.chance.random() < self.faults:
            return self.chance.choice(AFTER_APPEND), -1
        return code, offset

    def cut(self, broker: int) -> None:
        """The broker handles some requests, whose answers are lost, and never sees the others."""
        requests = list(self.links[broker])
        self.links[broker].clear()
        for batches in requests[: self.chance.randint(0, len(requests))]:
            for batch in batches:
                self._handle(broker, batch)
        lost = [batch for batches in requests for batch in batches]
        self.tell(self.core.lost(lost, ConnectionLost("cut"), self.now_ms))

    # ---- running

    def step(self) -> None:
        what = self.chance.random()
        broker = self.chance.choice((1, 2))
        if what < 0.25:
            self.send()
        elif what < 0.5:
            self.drain(broker)
        elif what < 0.75:
            self.answer(broker)
        elif what < 0.75 + self.faults / 4:
            self.cut(broker)
        elif what < 0.75 + self.faults / 2:
            place = self.chance.randrange(len(self.partitions))
            self.leaders[place] = 3 - self.leaders[place]
        elif what < 0.76 + self.faults / 2:
            self.now_ms += self.chance.uniform(0, 1_000)
        else:
            self.housekeeping()
            self.now_ms += self.chance.uniform(0, 5)

    def settle(self) -> None:
        """No more faults; everything comes to an end."""
        self.faults = 0.0
        self.core.in_hurry = True
        for _ in range(100_000):
            self.housekeeping()
            for broker in self.links:
                self.drain(broker)
                self.answer(broker)
            if self.core.is_empty:
                return
            waits = [at for broker in self.links if (at := self.core.ready_at(broker)) != NEVER]
            self.now_ms = max(self.now_ms, min(waits, default=self.now_ms))
        raise AssertionError("it never ends")
