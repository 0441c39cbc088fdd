"""GroupMembership: everything of a ConsumerConnector that its threads use.

ConsumerConnector is the public face of it. The threads know this object only, so that a connector that the
application drops can be collected, and then leaves its group.

    rebalancing thread ─▶ MemberThread ─▶ Readings ─▶ StreamQueue ◀─ KafkaStream ◀─ threads of the application
    committing thread  ─▶ commit                                         └─▶ ConsumerConnector ─▶ this
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.clock import MONOTONIC, wait_for
from ottla.client.interruption import ended
from ottla.client.offset_lookup import OffsetLookup
from ottla.consumer.classic.classic_config import ClassicConfig
from ottla.consumer.classic.connections import Connections
from ottla.consumer.classic.gate import DeliveryGate
from ottla.consumer.classic.group_view import ViewRules
from ottla.consumer.classic.identity import ConsumerIdString
from ottla.consumer.classic.member import ClassicMember
from ottla.consumer.classic.member_thread import ConsumerRebalanceListener, MemberThread, Surroundings
from ottla.consumer.classic.readings import Readings
from ottla.consumer.classic.rebalancer import RebalanceTimes
from ottla.consumer.classic.stream_queue import StreamQueue
from ottla.consumer.classic.topic_count import TopicCount
from ottla.consumer.reading.health import Health
from ottla.fetching.fetch_errors import PartitionError
from ottla.model.errors import ConsumerIdInUse, ConsumerRebalanceFailed, MessageStreamsExist, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.rows import Deserializer
from ottla.zookeeper.consumer_znodes import encode_registration

log = logging.getLogger(__name__)

_READING = (Health.STABLE, Health.REBALANCING)
Queues = Mapping[tuple[str, int], StreamQueue]
"""(topic, number of the stream) → its queue; the topic is "" for streams of a filter."""


@dataclass(frozen=True)
class ConnectorMetrics:
    """Figures of a connector. Counts are since the streams were created, rates over about a minute.

    >>> from ottla import ConsumerConnector
    >>> with ConsumerConnector(group_id="kitchen", zookeeper_connect="127.0.0.1:2181") as connector:
    ...     streams = connector.create_message_streams({"orders": 1})
    ...     metrics = connector.metrics()
    >>> metrics.rebalances >= 1, metrics.lost_sessions
    (True, 0)
    """

    health: Health
    owned_partitions: int
    rebalances: int
    last_rebalance_ms: float
    degradations: int
    lost_sessions: int
    commits: int
    stopped: Mapping[TopicAndPartition, PartitionError]
    """Partitions that cannot be read at present, and why. `skip`, `seek` or `retry` ends that."""
    lag: Mapping[TopicAndPartition, int]
    """Offsets between what was handed out and the end of the log; only partitions whose end is known."""
    queued_chunks: int
    queued_bytes: int
    messages: int
    bytes: int
    messages_per_second: float
    bytes_per_second: float

    @property
    def max_lag(self) -> int:
        """The largest lag of a partition; 0 if none is known."""
        return max(self.lag.values(), default=0)


class GroupMembership:
    """One member of a group, from `join` to `leave`."""

    def __init__(self, config: ClassicConfig, consumer_id: ConsumerIdString) -> None:
        self.consumer_id = consumer_id
        self.listener: ConsumerRebalanceListener | None = None
        self.has_streams = False
        self._config = config
        self._clock = MONOTONIC
        self._gate = DeliveryGate()
        self._connections = Connections(config, consumer_id)
        self._lock = threading.Lock()  # guards joining and leaving
        self._changed = threading.Condition(threading.Lock())
        self._health = Health.JOINING
        self._queues: Queues = {}
        self._readings = Readings(
            config.group_id,
            self._connections.engine,
            self._connections.store,
            self._queue_of,
            gate=self._gate,
            clock=self._clock,
        )
        self._thread: MemberThread | None = None
        self._committer: threading.Thread | None = None
        self._is_leaving = threading.Event()

    # --- joining

    def new_queue(
        self, key_deserializer: Deserializer | None, value_deserializer: Deserializer | None
    ) -> StreamQueue:
        """Return the queue of a new stream."""
        deserializers = key_deserializer, value_deserializer
        connections = self._connections
        return StreamQueue(
            self._gate,
            self._clock,
            self._config.consumer_timeout_ms,
            deserializers,
            lambda: connections.network_error,
        )

    def join(self, count: TopicCount, queues: Queues) -> None:
        """Register, and wait for the first rebalance; raises as `create_message_streams` of the connector."""
        with self._lock:
            if self.has_streams:
                raise MessageStreamsExist("streams are created once; make another connector for more")
            self.has_streams = True
            self._queues = queues
            try:
                times = self._connect()
            except BaseException:
                self._connections.close()
                raise
            self._thread = self._new_thread(count, times)
            self._thread.start()
            self._start_committer()
        self._await_balance()

    def _queue_of(self, topic: str, thread: int) -> StreamQueue:
        queue = self._queues.get((topic, thread)) or self._queues.get(("", thread))
        assert queue is not None, f"{topic} has no stream {thread}"
        return queue

    def _connect(self) -> RebalanceTimes:
        session = self._connections.session
        session.connect()
        return self._config.for_session(session.session_timeout_ms)

    def _new_thread(self, count: TopicCount, times: RebalanceTimes) -> MemberThread:
        config = self._config
        rules = ViewRules(
            config.group_id,
            self.consumer_id,
            exclude_internal_topics=config.exclude_internal_topics,
            needs_all_topics=config.needs_all_topics,
            topics_from_brokers=bool(config.bootstrap),
        )
        member = ClassicMember(
            rules,
            config.assignor,
            encode_registration(count.registration(int(time.time() * 1000))),
            times=times,
            chance=random.Random(),
            now_ms=self._clock.now_ms,
        )
        around = Surroundings(
            session=self._connections.session,
            readings=self._readings,
            gate=self._gate,
            clock=self._clock,
            query_partitions=self._connections.partitions,
            find_brokers=self._connections.find_brokers,
            listener=self.listener,
            commits_itself=config.auto_commit_interval_ms is not None,
        )
        return MemberThread(member, around, self._health_changed)

    def _health_changed(self, health: Health) -> None:
        if health is Health.FAILED:
            for queue in self._queues.values():
                queue.fail(self._failure)
        with self._changed:
            self._health = health
            self._changed.notify_all()

    def _await_balance(self) -> None:
        """Wait until the member has its partitions, or cannot get them."""
        with self._changed:
            wait_for(
                self._changed,
                lambda: self._health is not Health.JOINING or self._is_leaving.is_set(),
                None,
            )
            has_failed = self._health is Health.FAILED
        if has_failed:
            self.leave()
            raise self._failure()

    def _failure(self) -> OttlaError:
        assert self._thread is not None
        last_error = self._thread.member.last_error
        if isinstance(last_error, ConsumerIdInUse):
            return ConsumerIdInUse(last_error.path)
        reason = self._thread.reason
        return ConsumerRebalanceFailed(f"{self.consumer_id} is no member of the group any more: {reason}")

    # --- offsets

    @property
    def readings(self) -> Readings:
        """The partitions that are read, and their positions."""
        return self._readings

    @property
    def lookup(self) -> OffsetLookup:
        """Asks leaders for offsets by time."""
        return self._connections.lookup()

    def _start_committer(self) -> None:
        if self._config.auto_commit_interval_ms is not None:
            self._committer = threading.Thread(
                target=self._commit_regularly, name=f"{self.consumer_id}-committer", daemon=True
            )
            self._committer.start()

    def _commit_regularly(self) -> None:
        assert self._config.auto_commit_interval_ms is not None
        failures = 0
        while not self._is_leaving.wait(self._config.auto_commit_interval_ms / 1000):
            try:
                self._readings.commit()
            except OttlaError as error:
                failures += 1
                if failures.bit_count() == 1:  # the 1st, 2nd, 4th, 8th, …: an outage lasts
                    log.warning(
                        "[%s] offsets are not committed, %d times by now: %s",
                        self.consumer_id,
                        failures,
                        error,
                    )
                continue
            if failures:
                log.warning("[%s] offsets are committed again, after %d failures", self.consumer_id, failures)
            failures = 0

    # --- state

    @property
    def connections(self) -> Connections:
        """ZooKeeper, brokers and the offset store."""
        return self._connections

    @property
    def health(self) -> Health:
        """The health of the member; DEGRADED also while a partition that it owns cannot be read."""
        is_stopped = self._health in _READING and self._readings.stopped
        return Health.DEGRADED if is_stopped else self._health

    @property
    def lost_sessions(self) -> int:
        """How often ZooKeeper expired our session."""
        return self._thread.counts.lost_sessions if self._thread is not None else 0

    @property
    def is_joined(self) -> bool:
        """Whether the member has threads to stop."""
        return self._thread is not None and not self._is_leaving.is_set()

    def metrics(self) -> ConnectorMetrics:
        """Return the current figures."""
        counts = self._thread.counts if self._thread is not None else None
        infos = self._readings.infos()
        positions = self._readings.positions()
        queues = self._queues.values()
        now_ms = self._clock.now_ms()
        lag = {}
        for info in infos:
            topic_partition = TopicAndPartition(info.topic, info.partition)
            if topic_partition in positions and info.high_watermark >= 0:
                lag[topic_partition] = max(0, info.high_watermark - positions[topic_partition])
        return ConnectorMetrics(
            health=self.health,
            stopped=self._readings.stopped,
            owned_partitions=len(infos),
            rebalances=counts.rebalances if counts else 0,
            last_rebalance_ms=counts.last_rebalance_ms if counts else 0.0,
            degradations=counts.degradations if counts else 0,
            lost_sessions=self.lost_sessions,
            commits=self._readings.commits,
            lag=lag,
            queued_chunks=sum(info.queued_chunks for info in infos),
            queued_bytes=sum(info.queued_bytes for info in infos),
            messages=sum(queue.messages.count for queue in queues),
            bytes=sum(queue.bytes.count for queue in queues),
            messages_per_second=sum(queue.messages.per_second(now_ms) for queue in queues),
            bytes_per_second=sum(queue.bytes.per_second(now_ms) for queue in queues),
        )

    # --- leaving

    def leave(self) -> None:
        """End all streams, commit, release the partitions, unregister. Any thread may call it, repeatedly."""
        if self._thread is not None and self._thread.is_current:
            threading.Thread(target=self.leave, name=f"{self.consumer_id}-shutdown").start()
            return
        self._is_leaving.set()
        for queue in self._queues.values():
            queue.close()
        with self._changed:
            self._changed.notify_all()
        with self._lock:
            if self._thread is not None:
                self._thread.stop()
            self._gate.shut()
            self._connections.close()
        if self._committer is not None and threading.current_thread() is not self._committer:
            ended([self._committer], f"member {self.consumer_id}")
        self._health_changed(Health.CLOSED)
