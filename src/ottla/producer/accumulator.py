"""The queues of all partitions: which have something to send to which broker, and from when on. Pure.

The dispatcher calls it under its lock, passes the time, and carries out what is returned. `take` returns the
batches of one Produce request. `stored`, `refused`, `lost` or `unsendable` then report each batch, and return
outcomes for the submissions. A producer with a `gate` sends only to the partitions of its open transaction;
a record that fails closes the gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from ottla.client.network_errors import NetworkErrors
from ottla.client.reactions import Action
from ottla.model.chance import Chance
from ottla.model.errors import KafkaError, OttlaError
from ottla.producer.batches import BatchOutcome, ProducerBatch
from ottla.producer.partition_queue import NEVER, NO_LEADER, PartitionQueue, QueueLimits
from ottla.producer.parts import Part, batch_size
from ottla.producer.sequences import Identity
from ottla.producer.transaction_state import PartitionGate

TopicPartition: TypeAlias = tuple[str, int]
"""Topic and partition."""


class Accumulator:
    """An idempotent producer sends nothing before `identity` is set."""

    def __init__(
        self, limits: QueueLimits, *, is_idempotent: bool, chance: Chance, gate: PartitionGate | None = None
    ) -> None:
        self.limits = limits
        self.is_idempotent = is_idempotent
        self.gate = gate
        self.identity: Identity | None = None
        self.in_hurry = False  # a thread waits for a flush or for memory: nothing lingers
        self.lacks_identity = False  # the last `take` left out batches that need another producer id
        self._chance = chance
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        # Queues that are not empty, by leader. A queue that was sent from moves to the end.
        self._busy: dict[int, dict[TopicPartition, PartitionQueue]] = {}

    # ---- what comes in

    def add(self, topic: str, partition: int, parts: Iterable[Part]) -> int:
        """Queue parts in order. Returns the broker that leads the partition, or NO_LEADER."""
        queue = self._queue(topic, partition)
        for part in parts:
            queue.add(part)
        self._file(queue)
        return queue.leader

    def led(self, topic: str, partition: int, leader: int) -> None:
        """Set the leader of a partition; NO_LEADER: it has none."""
        queue = self._queue(topic, partition)
        if queue.leader != leader:
            self._busy.get(queue.leader, {}).pop((topic, partition), None)
            queue.leader = leader
            self._file(queue)

    def _queue(self, topic: str, partition: int) -> PartitionQueue:
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = self._queues[topic, partition] = PartitionQueue(
                topic, partition, self.limits, self._chance
            )
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
        """Whether every record is stored or has failed."""
        return not any(self._busy.values())

    @property
    def leaderless(self) -> list[TopicPartition]:
        """Return the partitions that have something to send and no leader."""
        return list(self._busy.get(NO_LEADER, ()))

    @property
    def partitions(self) -> list[TopicPartition]:
        """Return every partition that was ever written to."""
        return list(self._queues)

    def knows(self, topic: str, partition: int) -> bool:
        """Whether the partition was ever written to."""
        return (topic, partition) in self._queues

    def leader_of(self, batch: ProducerBatch) -> int:
        """Return the broker that leads the partition of a batch, or NO_LEADER."""
        return self._of(batch).leader

    @property
    def busy_leaders(self) -> list[int]:
        """Return the brokers that something is queued for."""
        return [leader for leader, busy in self._busy.items() if busy and leader != NO_LEADER]

    @property
    def wants_identity(self) -> bool:
        """Whether an InitProducerId request is due.

        A transactional producer sends it only when its user asks.
        """
        if not self.is_idempotent or self.gate is not None:
            return False
        if self.identity is None:
            return True
        return any(
            queue.sequences is not None and queue.sequences.waits_for_another_than(self.identity)
            for queue in self._all_busy()
        )

    @property
    def unregistered(self) -> list[TopicPartition]:
        """Return the partitions that have something to send and are not in the open transaction yet."""
        gate = self.gate
        if gate is None or gate.registered is None:
            return []
        return [each for busy in self._busy.values() for each in busy if gate.wants(each)]

    @property
    def has_gaps(self) -> bool:
        """Whether sequence numbers of batches that were given up are missing, or may be."""
        return any(queue.sequences is not None and queue.sequences.has_gap for queue in self._queues.values())

    def renumber(self, identity: Identity) -> None:
        """Continue under this identity, which no partition has used: all numbers start at 0."""
        self.identity = identity
        for queue in self._queues.values():
            queue.sequences = None

    def _all_busy(self) -> Iterator[PartitionQueue]:
        for busy in self._busy.values():
            yield from busy.values()

    # ---- what goes out

    def ready_at(self, broker_id: int) -> float:
        """Return from when on `take` returns batches; NEVER while something else must happen first."""
        if self.is_idempotent and self.identity is None:
            return NEVER
        identity, in_hurry = self._numbering, self.in_hurry
        queues = self._sendable(broker_id).values()
        return min((queue.ready_at(identity, in_hurry=in_hurry) for queue in queues), default=NEVER)

    def _sendable(self, broker_id: int) -> dict[TopicPartition, PartitionQueue]:
        """Return the queues that are not empty and may be sent from."""
        busy, gate = self._busy.get(broker_id, {}), self.gate
        if gate is None:
            return busy
        return {each: queue for each, queue in busy.items() if gate.admits(each)}

    @property
    def _numbering(self) -> Identity | None:
        return self.identity if self.is_idempotent else None

    def take(self, broker_id: int, now_ms: float) -> list[ProducerBatch]:
        """Return the batches of one request to this broker: one for each partition, within
        max.request.size.
        """
        self.lacks_identity = self.is_idempotent and self.identity is None
        if self.lacks_identity:
            return []
        identity, in_hurry = self._numbering, self.in_hurry
        busy = self._busy.get(broker_id, {})
        batches: list[ProducerBatch] = []
        room = self.limits.max_request_size
        for topic_partition, queue in list(self._sendable(broker_id).items()):
            if queue.ready_at(identity, in_hurry=in_hurry) > now_ms:
                continue
            if batches and queue.next_size > room:
                continue
            batch = queue.take(identity)
            if batch is None:
                self.lacks_identity = True
                continue
            batches.append(batch)
            busy[topic_partition] = busy.pop(topic_partition)
            room -= batch_size(batch.size)
            if room <= 0:
                break
        if batches and self.gate is not None:
            self.gate.is_started = True
        return batches

    # ---- what comes back

    def stored(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> list[BatchOutcome]:
        """Note that a broker has stored the batch."""
        queue = self._of(batch)
        outcomes = queue.stored(batch, base_offset, append_time_ms)
        self._file(queue)
        return outcomes

    def refused(
        self, batch: ProducerBatch, error: KafkaError, now_ms: float
    ) -> tuple[Action, list[BatchOutcome]]:
        """Process a broker's error. The action says whether the leader must be looked up again."""
        queue = self._of(batch)
        action, outcomes = queue.refused(batch, error, now_ms)
        self._file(queue)
        return action, self._noted(outcomes)

    def lost(self, batches: Iterable[ProducerBatch], error: OttlaError, now_ms: float) -> list[BatchOutcome]:
        """Note that the connection broke before these batches were answered."""
        outcomes: list[BatchOutcome] = []
        for batch in batches:
            queue = self._of(batch)
            outcomes += queue.lost(batch, error, now_ms)
            self._file(queue)
        return self._noted(outcomes)

    def unsendable(self, batch: ProducerBatch, error: OttlaError) -> list[BatchOutcome]:
        """Note that the batch could not be encoded for its broker."""
        queue = self._of(batch)
        outcomes = queue.unsendable(batch, error)
        self._file(queue)
        return self._noted(outcomes)

    def _noted(self, outcomes: list[BatchOutcome]) -> list[BatchOutcome]:
        """Close the gate of the transaction if a record has failed, and return the outcomes."""
        if self.gate is not None and any(outcome.error is not None for outcome in outcomes):
            self.gate.is_open = False
        return outcomes

    def _of(self, batch: ProducerBatch) -> PartitionQueue:
        return self._queues[batch.topic, batch.partition]

    # ---- time and end

    def expires_at(self) -> float:
        """Return when `expired` will next return something."""
        oldest = min((queue.oldest_ms for queue in self._all_busy()), default=NEVER)
        return oldest + self.limits.delivery_timeout_ms

    def expired(self, now_ms: float, errors: NetworkErrors) -> list[BatchOutcome]:
        """Give up what is older than delivery.timeout.ms; `errors` say why leaders do not answer."""
        outcomes: list[BatchOutcome] = []
        for queue in list(self._all_busy()):
            outcomes += queue.expired(now_ms, errors)
            self._file(queue)
        return self._noted(outcomes)

    def abandoned(self, error: OttlaError) -> list[BatchOutcome]:
        """Give up everything."""
        outcomes: list[BatchOutcome] = []
        for queue in list(self._all_busy()):
            outcomes += queue.abandoned(error)
            self._file(queue)
        return self._noted(outcomes)
