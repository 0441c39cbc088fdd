"""The driver's side of a streaming query: where it begins, where the next micro-batch ends, and its tasks.

Spark calls in this order, and repeats some of it after a restart:

    initial_offset()          twice for the first batch, and again if that batch has to be repeated
    latest_offset(start)      every 10 ms while there is nothing to read; `start` is the end of the last
                              completed batch
    tasks(start, end)         for each batch; the checkpoint has `end` by then

So the first offset is determined once and kept. After a restart it may be another one: "latest" moves. Then
the first batch is empty, and its end is the query's start; Spark's own connector stores the start elsewhere,
where a Python source cannot write.
`latest_offset` commits `start` to the group: Spark's own commit call comes one batch late, and never after
the last batch. Brokers are asked for new records at most every LATEST_TTL_MS.

Where logs begin and end is asked at most every BOUNDS_TTL_MS to plan tasks: a record waits for each question.
What was deleted since is noticed by the task that reads.
"""

from __future__ import annotations

import logging
from typing import Any

from ottla.client.clock import MONOTONIC, Clock
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, DataLost, KafkaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.admission import backlog, is_held_back, limited
from ottla.spark.cluster import SparkCluster
from ottla.spark.data_loss import Bounds, ranges_between
from ottla.spark.group_offsets import GroupOffsets
from ottla.spark.offset_json import Offsets, SparkOffset, from_spark, start_in, to_spark
from ottla.spark.positions import AtOffsets, Edge
from ottla.spark.range_planner import Task, plan
from ottla.spark.source_options import SourceOptions

log = logging.getLogger(__name__)

LATEST_TTL_MS = 5
BOUNDS_TTL_MS = 1000


class StreamPlanner:
    """For one thread: the driver's thread in which Spark calls a source."""

    def __init__(self, options: SourceOptions, clock: Clock = MONOTONIC) -> None:
        self._options = options
        self._clock = clock
        self._cluster = SparkCluster(options.client, isolation_level=options.fetch.isolation_level)
        self._group = GroupOffsets(options.group_id, options.client, options.zookeeper_connect)
        self._initial: Offsets | None = None
        self._first_end: SparkOffset | None = None
        self._target: Offsets | None = None  # for Trigger.AvailableNow: where the query ends
        self._partitions: set[TopicAndPartition] = set()
        self._partitions_at_ms: float | None = None
        self._latest: Offsets = {}
        self._latest_at_ms: float | None = None
        self._known_bounds = Bounds({}, {})
        self._bounds_at_ms = 0.0
        self._last_batch_at_ms: float | None = None

    # --- where it begins

    def initial_offset(self) -> SparkOffset:
        """Where a new query begins; the same at every call."""
        if self._initial is None:
            partitions = self._cluster.partitions(self._options.subscription)
            self._cluster.check_all_exist(self._options.subscription, partitions)
            self._initial = starting_offsets(self._options, self._cluster, self._group, partitions)
            log.info("the query begins at %s", to_spark(self._initial))
        return to_spark(self._initial)

    # --- where the next batch ends

    def prepare_available_now(self) -> None:
        """Let the query end at today's ends of the logs."""
        self._target = self._latest_now()

    def latest_offset(self, start: SparkOffset, max_rows: int | None, *, takes_all: bool) -> SparkOffset:
        """The end of the next batch; `start` itself if there is nothing to read.

        `max_rows` is Spark's limit. With `takes_all` Spark wants everything, whatever the options say.
        """
        is_first = self._first_end is None and self._is_initial(start)
        begin = from_spark(start)
        if not is_first:
            self.completed(start)
        latest = self._latest_now() if self._target is None else self._target
        new = latest.keys() - begin.keys()
        begin_of_all = {**begin, **self._cluster.earliest(new)}
        if is_first:
            self._last_batch_at_ms = self._clock.now_ms()
            is_empty = self._options.has_moving_start
            self._first_end = to_spark(begin if is_empty else limited(begin_of_all, latest, max_rows))
            return self._first_end
        if latest == begin or self._is_held_back(begin_of_all, latest, takes_all=takes_all):
            return start
        end = limited(begin_of_all, latest, max_rows)
        if end == begin:
            return start
        self._last_batch_at_ms = self._clock.now_ms()
        return to_spark(end)

    def report_latest(self) -> SparkOffset:
        """The ends of the logs, for the query's progress."""
        return to_spark(self._latest)

    def completed(self, end: SparkOffset) -> None:
        """The batch that ends at `end` is done: commit it to the group, if there is one."""
        if self._options.commits_to_group:
            self._group.commit(from_spark(end))

    def _is_initial(self, start: SparkOffset) -> bool:
        return self._initial is not None and start == to_spark(self._initial)

    def _is_held_back(self, begin: Offsets, latest: Offsets, *, takes_all: bool) -> bool:
        if takes_all or self._target is not None or self._last_batch_at_ms is None:
            return False
        since_ms = self._clock.now_ms() - self._last_batch_at_ms
        return is_held_back(backlog(begin, latest), since_ms, self._options.limits)

    def _latest_now(self) -> Offsets:
        now_ms = self._clock.now_ms()
        if self._latest_at_ms is None or now_ms - self._latest_at_ms >= LATEST_TTL_MS:
            try:
                self._latest = self._cluster.latest(self._partitions_now(now_ms))
            except KafkaError as error:
                if error.code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                self._partitions_at_ms = None  # a topic was deleted since: `tasks` decides what that means
                self._latest = self._cluster.latest(self._partitions_now(now_ms))
            self._latest_at_ms = self._clock.now_ms()
        return self._latest

    def _partitions_now(self, now_ms: float) -> set[TopicAndPartition]:
        if (
            self._partitions_at_ms is None
            or now_ms - self._partitions_at_ms >= self._options.partitions_ttl_ms
        ):
            self._partitions = self._cluster.partitions(self._options.subscription)
            self._partitions_at_ms = now_ms
        return self._partitions

    # --- its tasks

    def tasks(self, start: SparkOffset, end: SparkOffset) -> list[Task]:
        """The tasks of a batch. Raises DataLost."""
        begin, until = start_in(end), from_spark(end)
        if begin is None:
            begin = from_spark(start)
            if self._first_end is None and self._is_initial(start):
                self._first_end = end  # a restart that repeats the first batch
            if self._first_end == end and self._is_initial(start):
                if self._options.has_moving_start:
                    return []
                # A partition that came later belongs to the next batch.
                begin = {
                    topic_partition: offset
                    for topic_partition, offset in begin.items()
                    if topic_partition in until
                }
        return planned(self._options, self._cluster, begin, until, self._bounds(until))

    def _bounds(self, end: Offsets) -> Bounds:
        """Return where the logs of a batch begin and end; asks brokers if the last answer is too old."""
        now_ms = self._clock.now_ms()
        if (
            now_ms - self._bounds_at_ms >= BOUNDS_TTL_MS
            or not end.keys() <= self._known_bounds.earliest.keys()
        ):
            self._known_bounds = self._cluster.bounds(end.keys())
            self._bounds_at_ms = now_ms
        earliest, latest = self._known_bounds
        return Bounds(
            earliest,
            {
                topic_partition: max(latest[topic_partition], self._latest.get(topic_partition, 0))
                for topic_partition in latest
            },
        )

    def close(self) -> None:
        """Close all connections."""
        self._cluster.close()
        self._group.close()


def starting_offsets(
    options: SourceOptions, cluster: SparkCluster, group: GroupOffsets, partitions: set[TopicAndPartition]
) -> Offsets:
    """Where a new query begins. Partitions without an offset of the group begin at their first record."""
    if options.starting is not Edge.GROUP:
        return cluster.resolve("startingOffsets", options.starting, partitions, options.without_match)
    committed = group.committed(partitions)
    return {**cluster.earliest(partitions - committed.keys()), **committed}


def planned(
    options: SourceOptions, cluster: SparkCluster, begin: Offsets, end: Offsets, bounds: Bounds
) -> list[Task]:
    """The tasks that read from `begin` to `end`. Lost records raise DataLost, or are logged."""
    batch = ranges_between(begin, end, bounds)
    if batch.losses:
        losses = "; ".join(batch.losses)
        if options.fails_on_data_loss:
            raise DataLost(f"{losses}. To continue without these records, set failOnDataLoss to false")
        log.warning("records are lost: %s", losses)
    if options.repeated_rows is None:
        is_by_bytes = options.task_sizes.max_bytes is not None
        densities = cluster.bytes_per_offset(bounds) if is_by_bytes else None
        return plan(batch.ranges, options.task_sizes, densities)
    ranges = [
        offset_range._replace(
            look_from=max(
                bounds.earliest[offset_range.topic_partition],
                offset_range.start - options.repeated_rows.lookback,
            )
        )
        for offset_range in batch.ranges
    ]
    return plan(ranges, options.task_sizes)


def batch_tasks(options: SourceOptions) -> list[Task]:
    """The tasks of a batch query."""
    cluster = SparkCluster(options.client, isolation_level=options.fetch.isolation_level)
    group = GroupOffsets(options.group_id, options.client, options.zookeeper_connect)
    try:
        partitions = cluster.partitions(options.subscription)
        cluster.check_all_exist(options.subscription, partitions)
        begin = starting_offsets(options, cluster, group, partitions)
        end = cluster.resolve("endingOffsets", options.ending, partitions)
        check_order(options, begin, end)
        return planned(options, cluster, begin, end, cluster.bounds(end.keys()))
    finally:
        cluster.close()
        group.close()


def check_order(options: SourceOptions, begin: Offsets, end: Offsets) -> None:
    """Raise ConfigError for offsets that begin after their end.

    A range of times may: then there is nothing to read, and `end` is moved to its beginning.
    """
    for topic_partition, offset in begin.items():
        if offset > end[topic_partition] and isinstance(options.starting, AtOffsets):
            raise ConfigError(
                f"startingOffsets: {topic_partition} begins at {offset}, "
                f"after its end at {end[topic_partition]}"
            )
        end[topic_partition] = max(end[topic_partition], offset)


def read_limit(limit: Any, options: SourceOptions) -> int | None:
    """The most rows that a batch may have, from Spark's limit object or else from the options."""
    rows: int | None = getattr(limit, "max_rows", None)
    return rows if rows is not None else options.limits.max_offsets
