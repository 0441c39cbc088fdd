"""ConsumerConnector: the public face of the classic consumer.

    with ConsumerConnector(group_id="billing", zookeeper_connect="127.0.0.1:2181") as connector:
        streams = connector.create_message_streams({"orders": 2})["orders"]
        connector.run(consume, streams)              # one thread a stream

Nothing connects before streams are created. Threads: one rebalances, one commits (with auto.commit.enable),
and those of the fetch engine; streams are read by the application's own.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from ottla.classic.config import ClassicConfig
from ottla.classic.connections import Connections
from ottla.classic.errors import ConsumerRebalanceFailed, MessageStreamsExist
from ottla.classic.gate import DeliveryGate
from ottla.classic.group_view import ViewRules
from ottla.classic.identity import ConsumerIdString, consumer_id_string
from ottla.classic.listener import ConsumerRebalanceListener
from ottla.classic.member import Member
from ottla.classic.member_thread import MemberThread, Surroundings
from ottla.classic.readings import Readings
from ottla.classic.rebalancer import Health, RebalanceTimes
from ottla.classic.stream import KafkaStream
from ottla.classic.stream_threads import run_streams
from ottla.classic.topic_count import StaticTopicCount, TopicCount, TopicFilter, WildcardTopicCount
from ottla.client.clock import MONOTONIC
from ottla.client.properties import merged
from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import OttlaError
from ottla.records.rows import Decoder
from ottla.zookeeper.consumer_znodes import encode_registration

log = logging.getLogger(__name__)

Streams = dict[tuple[str, int], KafkaStream]


@dataclass(frozen=True)
class ConnectorMetrics:
    """Counts since the streams were created."""

    health: Health
    owned_partitions: int
    rebalances: int
    last_rebalance_ms: float
    degradations: int
    lost_sessions: int
    commits: int


class ConsumerConnector:
    """A member of a group. `properties` are Kafka's, with dots or underscores; also as keyword arguments."""

    def __init__(self, properties: Mapping[str, object] | None = None, **more: object) -> None:
        self._config = ClassicConfig.from_properties(merged(properties, more))
        self.consumer_id: ConsumerIdString = consumer_id_string(
            self._config.group_id, self._config.consumer_id
        )
        self._clock = MONOTONIC
        self._gate = DeliveryGate()
        self._connections = Connections(self._config, self.consumer_id)
        self._listener: ConsumerRebalanceListener | None = None
        self._lock = threading.Lock()  # guards creating and shutting down
        self._changed = threading.Condition(threading.Lock())
        self._health = Health.JOINING
        self._streams: Streams = {}
        self._readings = Readings(
            self._config.group_id,
            self._connections.engine,
            self._connections.store,
            self._stream_of,
            gate=self._gate,
            clock=self._clock,
        )
        self._thread: MemberThread | None = None
        self._committer: threading.Thread | None = None
        self._is_created = False
        self._is_shut_down = threading.Event()

    # --- streams

    def set_consumer_rebalance_listener(self, listener: ConsumerRebalanceListener) -> None:
        """Before streams are created. Raises MessageStreamsExist."""
        if self._is_created:
            raise MessageStreamsExist("a rebalance listener is set before streams are created")
        self._listener = listener

    def create_message_streams(
        self,
        topic_count_map: Mapping[str, int],
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> dict[str, list[KafkaStream]]:
        """So many streams for each topic, which share its partitions with those of the other members.

        Registers and waits for the first rebalance. Raises MessageStreamsExist the second time, ConfigError,
        ConnectionLost if ZooKeeper does not answer; ConsumerRebalanceFailed by rebalance.failure.policy.
        """
        count = StaticTopicCount(dict(topic_count_map))
        made = {
            topic: [self._new_stream(key_decoder, value_decoder) for _ in range(number)]
            for topic, number in count.streams.items()
        }
        by_thread = {(topic, at): one for topic, some in made.items() for at, one in enumerate(some)}
        self._create(count, by_thread)
        return made

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> list[KafkaStream]:
        """So many streams for all topics that the filter allows, now and later. Raises as the other."""
        count = WildcardTopicCount(topic_filter, num_streams)
        made = [self._new_stream(key_decoder, value_decoder) for _ in range(num_streams)]
        self._create(count, {("", at): one for at, one in enumerate(made)})
        return made

    def run(self, function: Callable[[KafkaStream], object], streams: Sequence[KafkaStream]) -> None:
        """Call the function with every stream, each in a thread of its own, until all have returned.

        The first error shuts the connector down, so that the others end, and is raised; so does Ctrl-C.
        """
        run_streams(function, streams, self.shutdown)

    def _new_stream(self, key_decoder: Decoder | None, value_decoder: Decoder | None) -> KafkaStream:
        timeout_ms = self._config.consumer_timeout_ms
        return KafkaStream(self._gate, self._clock, timeout_ms, key_decoder, value_decoder)

    def _stream_of(self, topic: str, thread: int) -> KafkaStream:
        """The streams of a filter are those of every topic."""
        found = self._streams.get((topic, thread)) or self._streams.get(("", thread))
        assert found is not None, f"{topic} has no stream {thread}"
        return found

    def _create(self, count: TopicCount, streams: Streams) -> None:
        with self._lock:
            if self._is_created:
                raise MessageStreamsExist("streams are created once; make another connector for more")
            self._is_created = True
            self._streams = streams
            try:
                times = self._connect()
            except BaseException:
                self._connections.close()
                raise
            self._thread = self._new_thread(count, times)
            self._thread.start()
            self._start_committer()
        self._await_balance()

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
            asks_brokers=bool(config.bootstrap),
        )
        member = Member(
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
            ask_brokers=self._connections.partitions,
            find_brokers=self._connections.find_brokers,
            listener=self._listener,
            commits_itself=config.auto_commit_interval_ms is not None,
        )
        return MemberThread(member, around, self._health_changed)

    def _health_changed(self, health: Health) -> None:
        if health is Health.FAILED:
            for stream in self._streams.values():
                stream.fail(self._rebalance_failed)
        with self._changed:
            self._health = health
            self._changed.notify_all()

    def _await_balance(self) -> None:
        """Until the member has its partitions, or has said that it does not get them."""
        with self._changed:
            self._changed.wait_for(lambda: self._health is not Health.JOINING or self._is_shut_down.is_set())
            failed = self._health is Health.FAILED
        if failed:
            self.shutdown()
            raise self._rebalance_failed()

    def _rebalance_failed(self) -> ConsumerRebalanceFailed:
        reason = self._thread.reason if self._thread is not None else ""
        return ConsumerRebalanceFailed(f"{self.consumer_id} is no member of the group any more: {reason}")

    # --- offsets

    def commit_offsets(self, offsets: Mapping[TopicAndPartition, int] | None = None) -> None:
        """Store what streams have handed out so far, or these offsets of the next messages to read.

        Raises ConnectionLost (of ottla.zookeeper) while it is not certain that the partitions are ours, and
        what the storage raises.
        """
        self._readings.commit(offsets)

    def _start_committer(self) -> None:
        if self._config.auto_commit_interval_ms is not None:
            self._committer = threading.Thread(
                target=self._commit_now_and_then, name=f"{self.consumer_id}-committer", daemon=True
            )
            self._committer.start()

    def _commit_now_and_then(self) -> None:
        assert self._config.auto_commit_interval_ms is not None
        while not self._is_shut_down.wait(self._config.auto_commit_interval_ms / 1000):
            try:
                self._readings.commit()
            except OttlaError as error:
                log.warning("[%s] offsets are not committed this time: %s", self.consumer_id, error)

    # --- how it is

    @property
    def health(self) -> Health:
        """How the member is."""
        return self._health

    def metrics(self) -> ConnectorMetrics:
        """What happened so far."""
        thread = self._thread
        return ConnectorMetrics(
            health=self._health,
            owned_partitions=len(self._readings.places),
            rebalances=thread.counts.rebalances if thread else 0,
            last_rebalance_ms=thread.counts.last_rebalance_ms if thread else 0.0,
            degradations=thread.counts.degradations if thread else 0,
            lost_sessions=thread.counts.lost_sessions if thread else 0,
            commits=self._readings.commits,
        )

    # --- the end

    def shutdown(self) -> None:
        """End all streams, commit, give the partitions back, leave. From any thread; may be called twice."""
        if self._thread is not None and self._thread.is_current:
            threading.Thread(target=self.shutdown, name=f"{self.consumer_id}-shutdown").start()
            return
        self._is_shut_down.set()
        for stream in self._streams.values():
            stream.close()
        with self._changed:
            self._changed.notify_all()
        with self._lock:
            if self._thread is not None:
                self._thread.stop()
            self._gate.shut()
            self._connections.close()
        if self._committer is not None and threading.current_thread() is not self._committer:
            self._committer.join()
        self._health_changed(Health.CLOSED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
