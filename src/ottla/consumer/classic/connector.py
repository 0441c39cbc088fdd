"""ConsumerConnector: the public face of the classic consumer.

    with ConsumerConnector(group_id="billing", zookeeper_connect="127.0.0.1:2181") as connector:
        streams = connector.create_message_streams({"orders": 2})["orders"]
        connector.run(consume, streams)              # one thread per stream

Nothing connects before streams are created. Threads: one rebalances, one commits (with auto.commit.enable),
and those of the fetch engine. Streams are read by threads of the application.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from ottla.consumer.classic.classic_config import ClassicConfig
from ottla.consumer.classic.identity import ConsumerIdString, consumer_id_string, generated_consumer_id
from ottla.consumer.classic.member_thread import ConsumerRebalanceListener
from ottla.consumer.classic.membership import ConnectorMetrics, GroupMembership, Queues
from ottla.consumer.classic.stream import KafkaStream, run_streams
from ottla.consumer.classic.stream_queue import StreamQueue
from ottla.consumer.classic.topic_count import StaticTopicCount, TopicCount, TopicFilter, WildcardTopicCount
from ottla.consumer.reading.health import Health
from ottla.consumer.reading.reader_state import Stopped, feed_of, retry_all
from ottla.fetching.commit_positions import Committable, Positions
from ottla.model.closing import Closing
from ottla.model.errors import ConfigError, MessageStreamsExist, OttlaError
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.offset_spec import OffsetSpec
from ottla.model.property_table import merged
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.rows import Deserializer


def _new_consumer_id() -> str:
    now_ms = int(time.time() * 1000)
    return generated_consumer_id(socket.gethostname(), now_ms, random.SystemRandom().getrandbits(64))


class ConsumerConnector(Closing):
    """A member of a classic group: partitions are assigned through ZooKeeper.

        >>> from ottla import ConsumerConnector
        >>> settings = {"zookeeper.connect": "127.0.0.1:2181", "auto.offset.reset": "smallest"}
        >>> with ConsumerConnector(settings, group_id="kitchen") as connector:
        ...     (stream,) = connector.create_message_streams({"orders": 1})["orders"]
        ...     print(next(stream).value)
        ...     connector.commit()
        b'tea'

    `properties` has Kafka's names, with dots or underscores; they may also be given as keyword arguments.
    group.id and zookeeper.connect are required. Raises ConfigError.
    """

    def __init__(self, properties: Mapping[str, object] | None = None, **settings: object) -> None:
        config = ClassicConfig.from_properties(merged(properties, settings))
        self.group_id = config.group_id
        self.consumer_id: ConsumerIdString = consumer_id_string(
            config.group_id, config.consumer_id or _new_consumer_id()
        )
        self._membership = GroupMembership(config, self.consumer_id)
        self._forgotten = stop_if_forgotten(
            self,
            f"ConsumerConnector {self.consumer_id!r}",
            self._membership.leave,
            is_running=lambda membership=self._membership: membership.is_joined,  # type: ignore[misc]
        )

    # --- streams

    def set_consumer_rebalance_listener(self, listener: ConsumerRebalanceListener) -> None:
        """Set the listener, before streams are created. Raises MessageStreamsExist."""
        if self._membership.has_streams:
            raise MessageStreamsExist("set the rebalance listener before streams are created")
        self._membership.listener = listener

    def create_message_streams(
        self,
        topic_count_map: Mapping[str, int],
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> dict[str, list[KafkaStream]]:
        """Join the group, and return the given number of streams for each topic.

        They share the partitions of the topic with the streams of the other members. Waits for the first
        rebalance. Raises MessageStreamsExist the second time, ConfigError, ZooKeeperConnectionLost if
        ZooKeeper does not answer, ConsumerIdInUse if another member has the same consumer.id, and
        ConsumerRebalanceFailed if all attempts fail and rebalance.failure.policy is raise.
        """
        count = StaticTopicCount(dict(topic_count_map))
        queues = {
            (topic, number): self._membership.new_queue(key_deserializer, value_deserializer)
            for topic, stream_count in count.streams.items()
            for number in range(stream_count)
        }
        self._join(count, queues)
        streams: dict[str, list[KafkaStream]] = {topic: [] for topic in count.streams}
        for (topic, number), queue in queues.items():
            streams[topic].append(self._stream(queue, f"{number} of {topic!r}"))
        return streams

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> list[KafkaStream]:
        """Join the group, and return streams of all topics that the filter allows, now and later.

        Raises as `create_message_streams`.
        """
        count = WildcardTopicCount(topic_filter, num_streams)
        queues = {
            ("", number): self._membership.new_queue(key_deserializer, value_deserializer)
            for number in range(num_streams)
        }
        self._join(count, queues)
        kind = type(topic_filter).__name__.lower()
        return [
            self._stream(queue, f"{number} of the {kind} {topic_filter}")
            for (_, number), queue in queues.items()
        ]

    def _join(self, count: TopicCount, queues: Queues) -> None:
        self._membership.join(count, queues)

    def _stream(self, queue: StreamQueue, name: str) -> KafkaStream:
        return KafkaStream(queue, f"{name}, group {self.group_id!r}", self)

    def run(self, function: Callable[[KafkaStream], object], streams: Sequence[KafkaStream]) -> None:
        """Call the function with every stream, each in a thread of its own, until all have returned.

        The first error, or Ctrl-C, closes the connector, so that the other threads end; then it is raised.
        """
        run_streams(function, streams, self.close)

    # --- offsets

    def commit(self, offsets: Committable | None = None) -> None:
        """Commit everything that streams have handed out, or what is given.

        A message or a chunk counts as processed, with everything before it in its partition. A mapping has
        the next offset to read of each partition, as int or OffsetAndMetadata. Raises ZooKeeperConnectionLost
        while it is not certain that the partitions are ours, and what the storage raises.
        """
        self._membership.readings.commit(offsets)

    def commit_offsets(self, offsets: Positions | None = None, *, retry_on_failure: bool = True) -> None:
        """Kafka's name of `commit`. Without `retry_on_failure` a commit to Kafka is tried only once."""
        self._membership.readings.commit(offsets, retries=retry_on_failure)

    # --- positions

    @property
    def assignment(self) -> frozenset[TopicAndPartition]:
        """The partitions that this member reads at present."""
        return frozenset(
            TopicAndPartition(info.topic, info.partition) for info in self._membership.readings.infos()
        )

    def seek(self, topic_partition: TopicAndPartition, offset: OffsetSpec) -> None:
        """Continue at `offset`: a number, "earliest", "latest", a datetime with a time zone or a timedelta.

        A partition that an error has stopped is read again. Raises ConfigError if the offset makes no sense,
        or the partition is not read by this member.
        """
        readings = self._membership.readings
        readings.seek(topic_partition, self._membership.lookup.start(topic_partition, offset))

    def skip(self, topic_partition: TopicAndPartition) -> int:
        """Continue after damaged or too large messages, and return that offset.

        Raises ConfigError if no such messages stopped the partition, or it is not read by this member.
        """
        return feed_of(self._membership.readings.feeds, topic_partition).skip()

    def retry(self, *partitions: TopicAndPartition) -> None:
        """Fetch now where errors stopped these partitions, or all if none is named. Raises ConfigError."""
        retry_all(self._membership.readings.feeds, partitions)

    def tail(self, count: int) -> None:
        """Continue at the last `count` offsets of each assigned partition.

        Raises ConfigError if no partition is assigned.
        """
        if not self.assignment:
            raise ConfigError("tail(): no partition is assigned; create streams first")
        for topic_partition, offset in self._membership.lookup.tail(self.assignment, count).items():
            self._membership.readings.seek(topic_partition, offset)

    def offsets_for_times(
        self, times: Mapping[TopicAndPartition, datetime | timedelta | str]
    ) -> dict[TopicAndPartition, int | None]:
        """Return the offset of the first record at that time or later; None if there is none.

        A time is a datetime with a time zone, ISO text, or a timedelta before now.
        """
        return self._membership.lookup.for_times(times)

    # --- state

    @property
    def health(self) -> Health:
        """The health of the member; DEGRADED also while a partition that it owns cannot be read."""
        return self._membership.health

    @property
    def stopped(self) -> Stopped:
        """The partitions that cannot be read at present, and why: `skip`, `seek` or `retry` them."""
        return self._membership.readings.stopped

    @property
    def lost_sessions(self) -> int:
        """How often ZooKeeper expired the session. Each time all partitions were lost; no listener was
        called."""
        return self._membership.lost_sessions

    def metrics(self) -> ConnectorMetrics:
        """Return counts, lag, queue sizes and rates."""
        return self._membership.metrics()

    def check_brokers(self, timeout: float | None = None) -> None:
        """Ask a broker to describe the cluster, and return when one has. Call it when there are streams.

        Raises BrokerUnreachable or AuthenticationFailed: at once if every address fails, at the latest after
        `timeout` seconds (default: request.timeout.ms).
        """
        self._membership.connections.check_brokers(timeout)

    @property
    def network_error(self) -> OttlaError | None:
        """Why no broker gives a usable answer at present; None if one does, or none was asked."""
        return self._membership.connections.network_error

    def __repr__(self) -> str:
        partitions = len(self._membership.readings.infos())
        return f"<ConsumerConnector {self.consumer_id}, {self.health.value}, {partitions} partitions>"

    # --- the end

    def close(self) -> None:
        """End all streams, commit (with auto.commit.enable), release the partitions and leave the group.

        Any thread may call it, more than once.
        """
        self._forgotten.detach()
        self._membership.leave()

    def shutdown(self) -> None:
        """Kafka's name of `close`."""
        self.close()
