"""The driver's questions to brokers: which partitions exist, and where their logs begin and end."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterable, Mapping

from ottla.client.attempts import attempts
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.metadata import ClusterMetadata
from ottla.client.offset_lookup import OffsetLookup
from ottla.client.pool import ConnectionPool
from ottla.client.reactions import Action, Call, action_for
from ottla.client.retry import Backoff
from ottla.model.cluster_view import TopicView
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError, Unsupported
from ottla.model.offset_spec import EARLIEST, LATEST, UNKNOWN_OFFSET
from ottla.model.permissions import NOT_ASKED, Operation
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.data_loss import Bounds
from ottla.spark.offset_json import Offsets, shown
from ottla.spark.positions import (
    AtOffsets,
    AtTime,
    AtTimes,
    Edge,
    Partitions,
    Position,
    Subscription,
    Topics,
    WithoutMatch,
    check_complete,
)
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse, LogDirTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic

log = logging.getLogger(__name__)

UNKNOWN_TOPIC_TRIES = 3
_UNKNOWN = Code.UNKNOWN_TOPIC_OR_PARTITION


class SparkCluster:
    """For one thread. Connects at the first call."""

    def __init__(self, config: ClientConfig, *, isolation_level: int = 0) -> None:
        self._config = config
        self._metadata = ClusterMetadata(config)
        self._pool = ConnectionPool(config, self._metadata)
        self._lookup = OffsetLookup(config, self._metadata, isolation_level, pool=self._pool)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._chance = random.Random()

    # --- partitions

    def partitions(self, subscription: Subscription) -> set[TopicAndPartition]:
        """The partitions that the subscription covers now. Topics that do not exist have none.

        A pattern never covers internal topics, such as __consumer_offsets.
        """
        if isinstance(subscription, Partitions):
            wanted = set(subscription.partitions)
            return wanted & self._of_topics({topic_partition.topic for topic_partition in wanted})
        if isinstance(subscription, Topics):
            return self._of_topics(set(subscription.names))
        view = self._metadata.refresh_all(reason="subscribePattern")
        matching = {
            name
            for name, topic in view.topics.items()
            if subscription.matches(name) and not topic.is_internal
        }
        return self._of_topics(matching)

    def check_all_exist(self, subscription: Subscription, existing: Collection[TopicAndPartition]) -> None:
        """Raise KafkaError for topics that the subscription names and that do not exist.

        Assigned partitions that a topic does not have are left out with a warning, as Spark's connector does.
        """
        if isinstance(subscription, Partitions):
            names = {partition.topic for partition in subscription.partitions}
            absent = set(subscription.partitions).difference(existing)
            if absent:
                log.warning("assign: there is no %s; it is left out", shown(absent))
        else:
            names = set(subscription.names) if isinstance(subscription, Topics) else set()
        missing = names - {topic_partition.topic for topic_partition in existing}
        if missing:
            raise KafkaError(_UNKNOWN, f"{', '.join(sorted(missing))}: make it first, or correct the name")

    def _of_topics(self, names: set[str]) -> set[TopicAndPartition]:
        if not names:
            return set()
        deadline = Deadline(MONOTONIC, self._config.request_timeout_ms)
        views: list[TopicView] = []
        for attempt in attempts(self._backoff, deadline, self._chance):
            known = self._metadata.refresh(sorted(names), reason="partitions of a query").topics
            views = [known[name] for name in sorted(names) if name in known]
            errors = {view.error for view in views if view.error}
            if errors <= {_UNKNOWN} and (not errors or attempt + 1 >= UNKNOWN_TOPIC_TRIES):
                break
            if any(action_for(error, Call.METADATA) is Action.FAIL for error in errors):
                break  # such as rights that are missing: waiting changes nothing
        bad = next((view for view in views if view.error not in {Code.NONE, _UNKNOWN}), None)
        if bad is not None:
            raise KafkaError(bad.error, f"topic {bad.name!r}")
        return {
            TopicAndPartition(view.name, partition.index)
            for view in views
            if view.error == Code.NONE
            for partition in view.partitions
        }

    def forbidden(self, partitions: Collection[TopicAndPartition], operation: Operation) -> set[str]:
        """Return the topics for which this user lacks the operation; none where brokers do not say (before
        2.3).
        """
        names = sorted({partition.topic for partition in partitions})
        if not names:
            return set()
        broker = self._metadata.leader(*min(partitions)).node.broker_id
        request = MetadataRequest(
            topics=[MetadataTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        try:
            answer = self._pool.to(broker).call(request)
        except Unsupported:
            return set()
        operations = {topic.name: topic.topic_authorized_operations for topic in answer.topics if topic.name}
        return {name for name, can in operations.items() if can != NOT_ASKED and not can >> operation & 1}

    # --- offsets

    def earliest(self, partitions: Iterable[TopicAndPartition]) -> Offsets:
        """The first offset of each log."""
        return self.offsets_at(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicAndPartition]) -> Offsets:
        """The end of each log: one after the last record that the isolation level lets a reader see."""
        return self.offsets_at(dict.fromkeys(partitions, LATEST))

    def bounds(self, partitions: Collection[TopicAndPartition]) -> Bounds:
        """Return the first offset and the end of each log, for the partitions that exist."""
        there = self._of_topics({topic_partition.topic for topic_partition in partitions}).intersection(
            partitions
        )
        return Bounds(self.earliest(there), self.latest(there))

    def offsets_at(self, times: Mapping[TopicAndPartition, int]) -> Offsets:
        """The first offset at or after a time (or LATEST, EARLIEST); -1 where every record is older.

        Retries through leader changes for request.timeout.ms. Raises OttlaError.
        """
        return self._lookup.known_offsets_at(times)

    # --- sizes

    def bytes_per_offset(self, bounds: Bounds) -> dict[TopicAndPartition, float]:
        """Return the average bytes per offset, by partition; {} with brokers before 1.0, which cannot say."""
        by_leader: dict[int, list[TopicAndPartition]] = {}
        for topic_partition in bounds.earliest:
            by_leader.setdefault(self._metadata.leader(*topic_partition).node.broker_id, []).append(
                topic_partition
            )
        densities: dict[TopicAndPartition, float] = {}
        for broker_id, partitions in by_leader.items():
            try:
                sizes = _log_sizes(self._pool.to(broker_id).call(_log_sizes_request(partitions)))
            except OttlaError as error:
                log.warning(
                    "tasks are not sized by bytes: broker %d does not report sizes: %s", broker_id, error
                )
                continue
            for topic_partition in partitions:
                offsets = bounds.latest[topic_partition] - bounds.earliest[topic_partition]
                if topic_partition in sizes and offsets > 0:
                    densities[topic_partition] = sizes[topic_partition] / offsets
        return densities

    # --- positions

    def resolve(
        self,
        what: str,
        position: Position,
        partitions: set[TopicAndPartition],
        without_match: WithoutMatch = WithoutMatch.LATEST,
    ) -> Offsets:
        """Return the position as an offset for each partition. Edge.GROUP is not allowed here."""
        if isinstance(position, AtOffsets):
            check_complete(what, position.offsets, partitions)
            edges = {
                topic_partition: offset for topic_partition, offset in position.offsets.items() if offset < 0
            }
            return {**position.offsets, **self.offsets_at(edges)}
        if isinstance(position, AtTime):
            times = dict.fromkeys(partitions, position.time_ms)
        elif isinstance(position, AtTimes):
            check_complete(what, position.times_ms, partitions)
            times = position.times_ms
        else:
            return self.earliest(partitions) if position is Edge.EARLIEST else self.latest(partitions)
        offsets = self.offsets_at(times)
        unmatched = {
            topic_partition for topic_partition, offset in offsets.items() if offset == UNKNOWN_OFFSET
        }
        if unmatched and without_match is WithoutMatch.ERROR:
            raise ConfigError(
                f"{what}: no record from that time on in {shown(unmatched)}; choose an earlier time, or set"
                " startingOffsetsByTimestampStrategy to latest"
            )
        return {**offsets, **self.latest(unmatched)}

    def close(self) -> None:
        """Close all connections."""
        self._lookup.close()
        self._pool.close()
        self._metadata.close()


def _log_sizes_request(partitions: Iterable[TopicAndPartition]) -> DescribeLogDirsRequest:
    """The request for one broker."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return DescribeLogDirsRequest(
        topics=[LogDirTopic(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    )


def _log_sizes(answer: DescribeLogDirsResponse) -> dict[TopicAndPartition, int]:
    """Bytes on disk by partition, without copies that are still being made. Raises KafkaError."""
    if answer.error_code:
        raise KafkaError(answer.error_code, "sizes of logs")
    return {
        TopicAndPartition(topic.name, partition.partition_index): partition.partition_size
        for directory in answer.results
        if directory.error_code == Code.NONE
        for topic in directory.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }
