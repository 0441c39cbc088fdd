"""All partitions' queues: which have something to send to which broker, and from when on.

Decides and does nothing: whoever calls holds the producer's lock, hands in the time, and carries out what is
returned. `take` gives the batches of one Produce request; their fate is told with `stored`, `refused`, `lost`
or `unsendable`, whose outcomes are for the submissions.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from ottla.model.errors import KafkaError, OttlaError
from ottla.producer.batches import Batch, Outcome
from ottla.producer.partition_queue import NEVER, NO_LEADER, Limits, PartitionQueue
from ottla.producer.parts import Part, batch_size
from ottla.producer.sequences import Identity
from ottla.producer.verdicts import Verdict

Place: TypeAlias = tuple[str, int]


class Accumulator:
    """`is_idempotent` and `identity` are set by whoever asks for the producer's id; nothing leaves before."""

    def __init__(self, limits: Limits, *, is_idempotent: bool, chance: random.Random) -> None:
        self.limits = limits
        self.is_idempotent = is_idempotent
        self.identity: Identity | None = None
        self.in_hurry = False  # a flush, a close, or somebody waits for memory: no lingering
        self.troubles: dict[int, OttlaError] = {}  # by broker, or NO_LEADER for all: why nothing is answered
        self._chance = chance
        self._queues: dict[Place, PartitionQueue] = {}
        # Queues that are not empty, by the broker that leads them. Whoever sent goes to the end.
        self._busy: dict[int, dict[Place, PartitionQueue]] = {}

    # ---- what comes in

    def add(self, topic: str, partition: int, parts: Iterable[Part]) -> int:
        """Take parts in their order; the broker that leads the partition, or NO_LEADER."""
        queue = self._queue(topic, partition)
        for part in parts:
            queue.add(part)
        self._file(queue)
        return queue.leader

    def led(self, topic: str, partition: int, leader: int) -> None:
        """This broker leads the partition from now on, or none does (NO_LEADER)."""
        queue = self._queue(topic, partition)
        if queue.leader != leader:
            self._busy.get(queue.leader, {}).pop((topic, partition), None)
            queue.leader = leader
            self._file(queue)

    def _queue(self, topic: str, partition: int) -> PartitionQueue:
        place = (topic, partition)
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = PartitionQueue(topic, partition, self.limits, self._chance)
        return queue

    def _file(self, queue: PartitionQueue) -> None:
        busy = self._busy.setdefault(queue.leader, {})
        if queue.is_empty:
            busy.pop((queue.topic, queue.partition), None)
        else:
            busy[queue.topic, queue.partition] = queue

    # ---- what there is

    @property
    def is_empty(self) -> bool:
        """Whether everything is settled."""
        return not any(self._busy.values())

    @property
    def leaderless(self) -> list[Place]:
        """Partitions that have something to send and nobody to send it to."""
        return list(self._busy.get(NO_LEADER, ()))

    @property
    def places(self) -> list[Place]:
        """Every partition that was ever written to."""
        return list(self._queues)

    def knows(self, topic: str, partition: int) -> bool:
        """Whether the partition was ever written to."""
        return (topic, partition) in self._queues

    @property
    def busy_leaders(self) -> list[int]:
        """Brokers that there is something for."""
        return [leader for leader, busy in self._busy.items() if busy and leader != NO_LEADER]

    @property
    def wants_identity(self) -> bool:
        """Whether an InitProducerId is due."""
        if not self.is_idempotent:
            return False
        if self.identity is None:
            return True
        return any(
            queue.sequences is not None and queue.sequences.waits_for_another_than(self.identity)
            for queue in self._all_busy()
        )

    def _all_busy(self) -> Iterator[PartitionQueue]:
        for busy in self._busy.values():
            yield from busy.values()

    # ---- what goes out

    def ready_at(self, broker_id: int) -> float:
        """From when on `take` gives something; NEVER while something must happen first."""
        if self.is_idempotent and self.identity is None:
            return NEVER
        identity, in_hurry = self._numbering, self.in_hurry
        queues = self._busy.get(broker_id, {}).values()
        return min((queue.ready_at(identity, in_hurry=in_hurry) for queue in queues), default=NEVER)

    @property
    def _numbering(self) -> Identity | None:
        return self.identity if self.is_idempotent else None

    def take(self, broker_id: int, now_ms: float) -> list[Batch]:
        """What one request to this broker carries: at most a batch a partition, and max.request.size."""
        if self.is_idempotent and self.identity is None:
            return []
        identity, in_hurry = self._numbering, self.in_hurry
        busy = self._busy.get(broker_id, {})
        batches: list[Batch] = []
        room = self.limits.max_request_size
        for place, queue in list(busy.items()):
            if queue.ready_at(identity, in_hurry=in_hurry) > now_ms:
                continue
            if batches and queue.next_size > room:
                continue
            batch = queue.take(identity)
            if batch is None:
                continue
            batches.append(batch)
            busy[place] = busy.pop(place)
            room -= batch_size(batch.size)
            if room <= 0:
                break
        return batches

    # ---- what comes back

    def stored(self, batch: Batch, base_offset: int, append_time_ms: int) -> list[Outcome]:
        """A broker has the batch."""
        queue = self._of(batch)
        outcomes = queue.stored(batch, base_offset, append_time_ms)
        self._file(queue)
        return outcomes

    def refused(self, batch: Batch, error: KafkaError, now_ms: float) -> tuple[Verdict, list[Outcome]]:
        """A broker answered an error; the verdict tells whether the leader must be found anew."""
        queue = self._of(batch)
        verdict, outcomes = queue.refused(batch, error, now_ms)
        self._file(queue)
        return verdict, outcomes

    def lost(self, batches: Iterable[Batch], error: OttlaError, now_ms: float) -> list[Outcome]:
        """The connection broke before answers came."""
        outcomes: list[Outcome] = []
        for batch in batches:
            queue = self._of(batch)
            outcomes += queue.lost(batch, error, now_ms)
            self._file(queue)
        return outcomes

    def unsendable(self, batch: Batch, error: OttlaError) -> list[Outcome]:
        """The batch could not be written down for its broker."""
        queue = self._of(batch)
        outcomes = queue.unsendable(batch, error)
        self._file(queue)
        return outcomes

    def _of(self, batch: Batch) -> PartitionQueue:
        return self._queues[batch.topic, batch.partition]

    # ---- time and end

    def expires_at(self) -> float:
        """When `expired` gives something next."""
        oldest = min((queue.oldest_ms for queue in self._all_busy()), default=NEVER)
        return oldest + self.limits.delivery_timeout_ms

    def expired(self, now_ms: float) -> list[Outcome]:
        """Give up what is older than delivery.timeout.ms."""
        outcomes: list[Outcome] = []
        for queue in list(self._all_busy()):
            trouble = self.troubles.get(queue.leader) or self.troubles.get(NO_LEADER)
            outcomes += queue.expired(now_ms, trouble)
            self._file(queue)
        return outcomes

    def abandoned(self, error: OttlaError) -> list[Outcome]:
        """Give everything up."""
        outcomes: list[Outcome] = []
        for queue in list(self._all_busy()):
            outcomes += queue.abandoned(error)
            self._file(queue)
        return outcomes
