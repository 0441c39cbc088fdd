"""The owner of the queues: user threads submit parts, senders take batches and report their outcomes.

No other object touches the accumulator or its lock. Each method is one intention of a thread. Callbacks of
the application, wake-ups and waits happen outside the lock.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from ottla.client.network_errors import broker
from ottla.client.reactions import Action
from ottla.model.cluster_view import NO_LEADER, ClusterView
from ottla.model.errors import KafkaError, OttlaError
from ottla.producer.accumulator import Accumulator, TopicPartition
from ottla.producer.batches import BatchOutcome, ProducerBatch
from ottla.producer.intake import PartsByPartition
from ottla.producer.producer_state import ProducerParts
from ottla.producer.sequences import Identity
from ottla.producer.settled_rows import NO_TIME, UNKNOWN_OFFSET
from ottla.producer.transaction_state import PartitionGate


class Sender(Protocol):
    """The thread or task that sends to one broker, as the dispatcher sees it."""

    def start(self) -> None:
        """Begin to send."""

    def wake(self) -> None:
        """Look for something to send."""

    def stop(self) -> None:
        """End soon, whatever is in flight."""


class AcceptedBatch(NamedTuple):
    """The batch is in the log, from this try or an earlier one."""

    base_offset: int = UNKNOWN_OFFSET
    append_time_ms: int = NO_TIME


class BatchAnswer(NamedTuple):
    """The answer about one batch. Any error but KafkaError means that the response left the batch out."""

    batch: ProducerBatch
    result: AcceptedBatch | OttlaError


class Questions(NamedTuple):
    """What to ask the brokers: the leaders of `topics` (None: they are not needed), and a producer id.

    With `wants_partitions` it tells the transaction coordinator about partitions.
    """

    topics: frozenset[str] | None
    wants_identity: bool
    wants_partitions: bool = False

    @property
    def is_any(self) -> bool:
        """Whether there is a question to send."""
        return self.topics is not None or self.wants_identity or self.wants_partitions


class Dispatcher:
    """Thread-safe. `new_sender` makes the thread of a broker, which the dispatcher starts and wakes."""

    def __init__(self, state: ProducerParts, new_sender: Callable[[int, Dispatcher], Sender]) -> None:
        self.is_stopped = False
        self._new_sender = new_sender
        self._memory = state.memory
        self._settlement = state.settlement
        self._intake = state.intake
        self._topics = state.topics
        self._errors = state.errors
        self._metadata_wanted = state.metadata_wanted
        self._timer_wanted = state.timer_wanted
        self._lock = threading.Lock()
        config = state.config
        self._gate = PartitionGate() if config.is_transactional else None
        self._left_flight = state.left_flight
        self._core = Accumulator(
            config.limits, is_idempotent=config.is_idempotent, chance=state.chance, gate=self._gate
        )
        self._are_leaders_stale = False
        self._view: ClusterView | None = None
        self._senders: dict[int, Sender] = {}
        self._hurries = 0

    # ---- user threads

    def reserve(self, size: int) -> None:
        """Reserve memory for records. Waits up to max.block.ms, and meanwhile everything is sent at once.

        Raises BufferFull, ProducerClosed.
        """
        if not self._memory.try_reserve(size):
            with self.hurrying():
                self._memory.reserve(size)

    def submit(self, topic: str, groups: PartsByPartition) -> bool:
        """Queue parts by partition, in order. Returns False if the producer is closed."""
        leaders = set()
        with self._lock:
            if self.is_stopped:
                return False
            for partition, parts in groups:
                if not self._core.knows(topic, partition) and self._view is not None:
                    self._lead(topic, partition, self._view)
                leaders.add(self._core.add(topic, partition, parts))
            must_ask = NO_LEADER in leaders or self._core.wants_identity or bool(self._core.unregistered)
            senders = [self._sender(leader) for leader in leaders if leader != NO_LEADER]
        if must_ask:
            self._metadata_wanted.set()
        for sender in senders:
            sender.wake()
        return True

    @contextlib.contextmanager
    def hurrying(self) -> Iterator[None]:
        """Send everything without lingering inside this block, because a thread waits for it."""
        self._hurry(1)
        try:
            self._timer_wanted.set()
            self._wake_senders()
            yield
        finally:
            self._hurry(-1)

    def _hurry(self, change: int) -> None:
        with self._lock:
            self._hurries += change
            self._core.in_hurry = self._hurries > 0

    @property
    def is_hurrying(self) -> bool:
        """Whether rows are sent without lingering."""
        return self._core.in_hurry

    # ---- senders

    def ready_at(self, broker_id: int) -> float:
        """Return from when on there is something to send to this broker; infinity while nothing
        may be sent.
        """
        with self._lock:
            return self._core.ready_at(broker_id)

    def next_batches(self, broker_id: int, now_ms: float) -> list[ProducerBatch]:
        """Return the batches of the next request to this broker. They count as in flight from now on."""
        with self._lock:
            batches = self._core.take(broker_id, now_ms)
            lacks_identity = self._core.lacks_identity
        if lacks_identity:
            self._metadata_wanted.set()
        return batches

    def answered(self, broker_id: int, answers: Sequence[BatchAnswer], now_ms: float) -> bool:
        """Process a broker's answer. Returns whether it does not lead some of the partitions any more."""
        self._errors.answered(broker(broker_id))
        outcomes: list[BatchOutcome] = []
        actions: list[Action] = []
        with self._lock:
            for answer in answers:
                action, settled = self._judged(answer, now_ms)
                outcomes += settled
                actions.append(action)
                if action is Action.REFRESH:
                    self._core.led(answer.batch.topic, answer.batch.partition, NO_LEADER)
                    self._are_leaders_stale = True
            moved = self._senders_of((answer.batch for answer in answers), but_not=broker_id)
        for sender in moved:
            sender.wake()
        if Action.REFRESH in actions or Action.NEW_IDENTITY in actions:
            self._metadata_wanted.set()
        self._settlement.settle(outcomes)
        self._left_flight.set()
        return Action.REFRESH in actions

    def _senders_of(self, batches: Iterable[ProducerBatch], *, but_not: int) -> list[Sender]:
        """Return the senders that can now send, because these batches held back partitions that have moved to
        them.
        """
        leaders = {self._core.leader_of(batch) for batch in batches} - {but_not}
        return [sender for leader in leaders if (sender := self._senders.get(leader)) is not None]

    def _judged(self, answer: BatchAnswer, now_ms: float) -> tuple[Action, list[BatchOutcome]]:
        batch, result = answer
        if isinstance(result, AcceptedBatch):
            return Action.STORED, self._core.stored(batch, result.base_offset, result.append_time_ms)
        if isinstance(result, KafkaError):
            return self._core.refused(batch, result, now_ms)
        return Action.RETRY, self._core.lost([batch], result, now_ms)

    def unsendable(self, refused: Sequence[tuple[ProducerBatch, OttlaError]]) -> None:
        """Fail the records of batches that cannot be encoded for their broker."""
        with self._lock:
            outcomes = [
                outcome for batch, error in refused for outcome in self._core.unsendable(batch, error)
            ]
        self._settlement.settle(outcomes)

    def disconnected(
        self, broker_id: int, in_flight: Sequence[ProducerBatch], error: OttlaError, now_ms: float
    ) -> None:
        """Note that the connection broke before these batches were answered: they are sent again,
        in order.
        """
        with self._lock:
            outcomes = self._core.lost(in_flight, error, now_ms)
        self._settlement.settle(outcomes)
        self._left_flight.set()
        if in_flight:
            self.unreachable(broker_id, error)
        else:
            self.leaders_are_stale()  # the broker may be gone, but no batch was waiting for it

    def unreachable(self, broker_id: int, error: OttlaError) -> None:
        """Note that a broker cannot be reached: other brokers may lead its partitions now."""
        self._errors.failed(broker(broker_id), error)
        self.leaders_are_stale()

    # ---- the metadata thread

    def questions(self) -> Questions:
        """Return what to ask the brokers."""
        topics = self._topics.to_refresh
        with self._lock:
            needs_leaders = bool(self._are_leaders_stale or topics or self._core.leaderless)
            topics.update(topic for topic, _ in self._core.partitions)
            wants_identity = self._core.wants_identity and not self._core.is_empty
            wants_partitions = bool(self._core.unregistered)
        return Questions(frozenset(topics) if needs_leaders else None, wants_identity, wants_partitions)

    @property
    def awaited_topics(self) -> set[str]:
        """Return the topics with records that no broker takes at present."""
        topics = self._topics.to_refresh
        with self._lock:
            return topics.union(topic for topic, _ in self._core.leaderless)

    def leaders_are_stale(self) -> None:
        """Have the metadata thread look up the leaders now, even if the metadata is not old yet."""
        with self._lock:
            self._are_leaders_stale = True
        self._metadata_wanted.set()

    def leaders_requested(self) -> None:
        """Note that the leaders are requested now. If they become stale after this, they are
        requested again.
        """
        with self._lock:
            self._are_leaders_stale = False

    def leaders_changed(self, view: ClusterView) -> None:
        """Use the leaders of this view."""
        self._topics.learn(view)
        with self._lock:
            self._view = view
            for topic, partition in self._core.partitions:
                self._lead(topic, partition, view)
            busy = [] if self.is_stopped else [self._sender(leader) for leader in self._core.busy_leaders]
        self._timer_wanted.set()
        for sender in busy:
            sender.wake()

    def refuse_topic(self, topic: str, error: OttlaError) -> None:
        """Fail the records of a topic that cannot be written to."""
        self._topics.refuse(topic, error)
        self._timer_wanted.set()

    def identified(self, identity: Identity | None) -> None:
        """Set the producer's id; None: the brokers have no idempotence, so records are sent without an id."""
        with self._lock:
            self._core.identity = identity
            self._core.is_idempotent = identity is not None
        self._wake_senders()

    def _lead(self, topic: str, partition: int, view: ClusterView) -> None:
        leader = view.leader_of(topic, partition)
        self._core.led(topic, partition, NO_LEADER if leader is None else leader.node.broker_id)

    def _sender(self, broker_id: int) -> Sender:
        sender = self._senders.get(broker_id)
        if sender is None:
            sender = self._senders[broker_id] = self._new_sender(broker_id, self)
            sender.start()
        return sender

    def _wake_senders(self) -> None:
        with self._lock:
            senders = list(self._senders.values())
        for sender in senders:
            sender.wake()

    # ---- transactions

    @property
    def adds_partitions(self) -> bool:
        """Whether a Produce request adds its partitions to the transaction, if there is one."""
        return self._gate is None or self._gate.registered is None

    def renumber(self, identity: Identity) -> None:
        """Use another epoch that the coordinator gave the producer; nothing is in flight."""
        with self._lock:
            self._core.renumber(identity)

    def open_transaction(self, *, registers: bool) -> None:
        """Send what is submitted from now on; `registers`: partitions must be `registered` first."""
        with self._lock:
            self._the_gate.open(registers=registers)

    def close_transaction(self) -> bool:
        """Send nothing more. Returns whether the coordinator may know something of the transaction."""
        with self._lock:
            self._the_gate.is_open = False
            return self._the_gate.is_started

    def start_transaction(self) -> None:
        """Note that the coordinator is about to learn of the transaction."""
        with self._lock:
            self._the_gate.is_started = True

    def unregistered(self) -> list[TopicPartition]:
        """Return the partitions that the coordinator must know before anything is sent to them."""
        with self._lock:
            return self._core.unregistered

    def registered(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the coordinator knows these partitions."""
        with self._lock:
            if self._the_gate.registered is not None:
                self._the_gate.registered.update(partitions)
        self._wake_senders()

    @property
    def has_gaps(self) -> bool:
        """Whether the sequence numbers of the current epoch cannot be continued."""
        with self._lock:
            return self._core.has_gaps

    @property
    def _the_gate(self) -> PartitionGate:
        assert self._gate is not None
        return self._gate

    # ---- the timer thread

    @property
    def is_empty(self) -> bool:
        """Whether everything that was submitted is stored or has failed."""
        with self._lock:
            return self._core.is_empty

    def expire(self, now_ms: float) -> None:
        """Give up what is older than delivery.timeout.ms."""
        with self._lock:
            is_due = self._core.expires_at() <= now_ms
            outcomes = self._core.expired(now_ms, self._errors) if is_due else []
        self._settlement.settle(outcomes)

    # ---- the end

    def abandon(self, error: OttlaError) -> None:
        """Fail everything that is not settled."""
        self._abandon_queued(error)
        self._intake.fail_rows(error)
        # Another thread may have moved rows from an inbox into the queues meanwhile.
        self._abandon_queued(error)

    def _abandon_queued(self, error: OttlaError) -> None:
        with self._lock:
            outcomes = self._core.abandoned(error)
        self._settlement.settle(outcomes)

    def fail(self, error: OttlaError) -> None:
        """Fail everything, and accept nothing more: nothing can be sent any more."""
        self._intake.refuse(error)
        self.abandon(error)

    def stop(self) -> None:
        """End all senders."""
        with self._lock:
            self.is_stopped = True
            senders = list(self._senders.values())
        self._metadata_wanted.set()
        self._timer_wanted.set()
        self._memory.close()
        self._topics.close()
        for sender in senders:
            sender.stop()
