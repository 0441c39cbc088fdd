"""What the producer's threads share: the core behind a lock, the memory budget, who waits for what.

User threads submit parts; sender threads take batches and tell what became of them; the scout finds leaders
and the producer's id; the upkeep ends lingering and what is too old. What runs user code (callbacks) or waits
does so outside the lock.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.clock import Clock
from ottla.kernels.layout import BATCH_OVERHEAD
from ottla.model.cluster_view import NO_LEADER, ClusterView
from ottla.model.errors import OttlaError
from ottla.producer.accumulator import Accumulator, Place
from ottla.producer.batches import Outcome
from ottla.producer.config import ProducerConfig
from ottla.producer.deliveries import Settled, Submission
from ottla.producer.errors import DeliveryExpired, ProducerClosed
from ottla.producer.inboxes import SEALED_BYTES
from ottla.producer.memory import MemoryBudget

if TYPE_CHECKING:
    from ottla.producer.inboxes import Groups, TopicInbox
    from ottla.producer.sender import BrokerSender

LOG = logging.getLogger(__name__)
FAILURES_KEPT = 1_000


class KnownTopic(NamedTuple):
    """What partitioning needs. `available` are the partitions with a leader, all of them if none has one."""

    partition_count: int
    available: tuple[int, ...]


class Dispatcher:
    """Thread-safe. `lock` guards the core and everything below it; `changed` is for the scout and who waits
    for a topic, `rows_changed` for the upkeep."""

    def __init__(self, config: ProducerConfig, clock: Clock, chance: random.Random) -> None:
        self.config = config
        self.clock = clock
        self.memory = MemoryBudget(config.buffer_memory, config.max_block_ms, clock)
        # A record waits for its topic, and for everything together, no longer than each may take.
        self.unknown_ms = min(config.max_block_ms, config.delivery_timeout_ms)
        self.part_bytes = max(1, min(config.batch_size, config.max_request_size) - BATCH_OVERHEAD)
        self.record_max = min(config.max_request_size, config.buffer_memory)
        self.sealed_bytes = min(SEALED_BYTES, config.batch_size, config.buffer_memory // 4)
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.rows_changed = threading.Condition(self.lock)
        self.core = Accumulator(config.limits, is_idempotent=config.is_idempotent, chance=chance)
        self.inboxes: dict[str, TopicInbox] = {}
        self.open_inboxes: dict[str, TopicInbox] = {}  # the same, and none when nothing is taken any more
        self.why_refused: OttlaError | None = None  # why that is
        self.is_stopped = False
        self.wanted: dict[str, float] = {}  # topics that nothing is known of, since when
        self.last_error: OttlaError | None = None  # why the scout has no answer
        self.stale = False  # leaders must be asked for again
        self._known: dict[str, KnownTopic] = {}
        self._refused: dict[str, OttlaError] = {}
        self._view: ClusterView | None = None
        self._senders: dict[int, BrokerSender] = {}
        self._new_sender: Callable[[int], BrokerSender] | None = None
        self._open: dict[int, Submission] = {}
        self._failed: list[Submission] = []
        self._flushes = 0

    def senders_are_made_by(self, new_sender: Callable[[int], BrokerSender]) -> None:
        """Given once, before anything is sent."""
        self._new_sender = new_sender

    # ---- handing in

    def open_inbox(self, new: TopicInbox) -> TopicInbox:
        """The inbox of a topic, this one if there is none. Raises why nothing is taken any more."""
        with self.lock:
            if self.why_refused is not None:
                raise self.why_refused.with_traceback(None)
            inbox = self.inboxes.setdefault(new.topic, new)
            self.open_inboxes[new.topic] = inbox
        return inbox

    def opened(self, submission: Submission) -> None:
        """These rows are to be settled before a flush is over."""
        self._open[id(submission)] = submission

    def closed(self, submission: Submission) -> None:
        """Rows of it were settled; perhaps all."""
        if submission.has_failed:
            with self.lock:
                if submission not in self._failed[-1:] and len(self._failed) < FAILURES_KEPT:
                    self._failed.append(submission)
        if submission.is_done:
            self._open.pop(id(submission), None)

    def reserve(self, size: int) -> None:
        """Memory for records; waits up to max.block.ms, and has everything sent meanwhile."""
        if not self.memory.try_reserve(size):
            try:
                self.memory.reserve(size, self.hurry)
            finally:
                self.relax()

    def known(self, topic: str) -> KnownTopic | None:
        """What is known of a topic; asks the scout if nothing is."""
        known = self._known.get(topic)
        if known is None:
            with self.lock:
                if topic not in self.wanted and topic not in self._refused:
                    self.wanted[topic] = self.clock.now_ms()
                    self.changed.notify_all()
        return known

    def knows(self, topic: str) -> bool:
        """Whether records for a topic can be placed."""
        return topic in self._known

    def refuses(self, topic: str) -> bool:
        """Whether it cannot be written to."""
        return topic in self._refused

    def gave_up_on(self, topic: str) -> bool:
        """Whether a topic has not become known in time; it is asked for anew next time."""
        with self.lock:
            since_ms = self.wanted.get(topic)
            if since_ms is None or self.clock.now_ms() < since_ms + self.unknown_ms:
                return False
            del self.wanted[topic]
            return True

    def unknown_topic(self, topic: str) -> OttlaError:
        """The error for a topic that stays unknown."""
        error = DeliveryExpired(
            f"topic {topic!r}: nothing is known of it after {self.unknown_ms:.0f} ms; its"
            f" records were not sent. Does it exist, are the brokers up? The last answer: {self.last_error}"
        )
        error.__cause__ = self.last_error
        return error

    def wait_known(self, topic: str) -> KnownTopic:
        """What is known of a topic, which is waited for. Raises OttlaError."""
        while (known := self.known(topic)) is None:
            refusal = self.refusal(topic)
            if refusal is not None:
                raise refusal
            if self.is_stopped:
                raise ProducerClosed(f"the producer was closed before {topic!r} was known")
            if self.gave_up_on(topic):
                raise self.unknown_topic(topic)
            with self.lock:
                if topic in self.wanted and not self.is_stopped:
                    until_ms = self.wanted[topic] + self.unknown_ms
                    self.changed.wait(max(0.0, until_ms - self.clock.now_ms()) / 1000.0)
        return known

    def refusal(self, topic: str) -> OttlaError | None:
        """Why a topic cannot be written to; asked once, so that the next try may go better."""
        return self._refused.pop(topic, None)

    def rows_wait(self, _inbox: TopicInbox) -> None:
        """Rows begin to linger. Called with the inbox's lock held, never with ours."""
        with self.lock:
            self.rows_changed.notify_all()

    def submit(self, topic: str, groups: Groups) -> bool:
        """Parts for partitions, in order; False if the producer has ended, and nobody would send them."""
        leaders = set()
        with self.lock:
            if self.is_stopped:
                return False
            for partition, parts in groups:
                if not self.core.knows(topic, partition) and self._view is not None:
                    self._lead(topic, partition, self._view)
                leaders.add(self.core.add(topic, partition, parts))
            if NO_LEADER in leaders or self.core.wants_identity:
                self.changed.notify_all()
            senders = [self._sender(leader) for leader in leaders if leader != NO_LEADER]
        for sender in senders:
            sender.wake()
        return True

    # ---- leaders

    def learn(self, view: ClusterView) -> None:
        """What the cluster looks like now."""
        with self.lock:
            self._view = view
            for topic in list(self.wanted):
                self._note_topic(topic, view)
            for topic in self._known:
                self._note_topic(topic, view)
            for topic, partition in self.core.places:
                self._lead(topic, partition, view)
            self.changed.notify_all()
            self.rows_changed.notify_all()
            busy = [self._sender(leader) for leader in self.core.busy_leaders]
        for sender in busy:
            sender.wake()

    def _note_topic(self, topic: str, view: ClusterView) -> None:
        told = view.topics.get(topic)
        if told is None or told.error or not told.partitions:
            return
        available = tuple(one.index for one in told.partitions if one.leader != NO_LEADER)
        count = len(told.partitions)
        self._known[topic] = KnownTopic(count, available or tuple(range(count)))
        self.wanted.pop(topic, None)

    def _lead(self, topic: str, partition: int, view: ClusterView) -> None:
        leader = view.leader_of(topic, partition)
        self.core.led(topic, partition, NO_LEADER if leader is None else leader.node.broker_id)

    def topic_refused(self, topic: str, error: OttlaError) -> None:
        """It cannot be written to, and waiting does not help."""
        with self.lock:
            self.wanted.pop(topic, None)
            self._refused[topic] = error
            self.changed.notify_all()
            self.rows_changed.notify_all()

    def moved(self, places: Iterable[Place]) -> None:
        """Whoever led these does not any more, or cannot be reached: nothing is sent until that is known."""
        with self.lock:
            for topic, partition in places:
                self.core.led(topic, partition, NO_LEADER)
            self.stale = True
            self.changed.notify_all()

    def ask(self) -> None:
        """The scout has something to ask."""
        with self.lock:
            self.changed.notify_all()

    def troubled(self, broker_id: int, error: OttlaError) -> None:
        """A broker does not answer, and this is why: ask who leads now."""
        with self.lock:
            self.last_error = self.core.troubles[broker_id] = error
            self.stale = True
            self.changed.notify_all()

    def _sender(self, broker_id: int) -> BrokerSender:
        sender = self._senders.get(broker_id)
        if sender is None:
            assert self._new_sender is not None
            sender = self._senders[broker_id] = self._new_sender(broker_id)
            sender.start()
        return sender

    # ---- outcomes

    def settle(self, outcomes: Iterable[Outcome]) -> None:
        """Tell submissions, and give their memory back. Without any lock: callbacks are user code."""
        failed: dict[Place, tuple[int, OttlaError]] = {}
        told: dict[int, tuple[Submission, list[Settled]]] = {}
        freed = 0
        for outcome in outcomes:
            if outcome.error is not None:
                place = (outcome.parts[0].submission.topic, outcome.partition)
                count, error = failed.get(place, (0, outcome.error))
                failed[place] = count + sum(part.count for part in outcome.parts), error
            for part, run in outcome.runs():
                freed += part.held_bytes
                told.setdefault(id(part.submission), (part.submission, []))[1].append(run)
        self.memory.release(freed)
        for submission, runs in told.values():
            submission.settle(runs)
            self.closed(submission)
        for (topic, partition), (count, error) in failed.items():
            LOG.warning("%s-%d: %d records failed: %s", topic, partition, count, error)

    def refuse(self, error: OttlaError) -> None:
        """Take nothing any more; the first reason stays."""
        with self.lock:
            self.why_refused = self.why_refused or error
            self.open_inboxes.clear()

    def fail(self, error: OttlaError) -> None:
        """Nothing can be sent, now and later."""
        self.refuse(error)
        self.abandon(error)

    def abandon(self, error: OttlaError) -> None:
        """Everything that is not settled fails."""
        with self.lock:
            outcomes = self.core.abandoned(error)
        self.settle(outcomes)
        for inbox in list(self.inboxes.values()):
            inbox.fail(error)

    # ---- hurry and end

    def hurry(self) -> None:
        """Send everything now: lingering would only keep somebody waiting."""
        with self.lock:
            self.core.in_hurry = True
            self.rows_changed.notify_all()
        self.wake_senders()

    def relax(self) -> None:
        """Linger again, if nobody is in a hurry."""
        with self.lock:
            self.core.in_hurry = self._flushes > 0 or self.is_stopped or self.memory.has_waiters

    def wake_senders(self) -> None:
        """Something has changed for all of them."""
        with self.lock:
            senders = list(self._senders.values())
        for sender in senders:
            sender.wake()

    def flush_begins(self) -> list[Submission]:
        """Everything in flight is to be settled; what is open at this time."""
        with self.lock:
            self._flushes += 1
        self.hurry()
        return list(self._open.values())

    def flush_ends(self) -> None:
        """As many times as it began."""
        with self.lock:
            self._flushes -= 1
        self.relax()

    def unseen_failures(self) -> list[Submission]:
        """Submissions with failed rows that nobody has looked at; each is told once."""
        with self.lock:
            failed, self._failed = self._failed, []
        return [submission for submission in failed if not submission.is_seen]

    def forked(self, error: OttlaError) -> None:
        """In a child, which has no thread but its own, and may have locks that nobody ever opens."""
        self.why_refused = error
        self.open_inboxes.clear()
        self.is_stopped = True

    def stop(self) -> list[BrokerSender]:
        """Have all threads end; the senders, to be waited for."""
        with self.lock:
            self.is_stopped = True
            self.changed.notify_all()
            self.rows_changed.notify_all()
            senders = list(self._senders.values())
        self.memory.close()
        for sender in senders:
            sender.stop()
        return senders
