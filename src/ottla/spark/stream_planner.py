"""The driver's side of a streaming query: where it begins, how far the next micro-batch goes, who reads it.

Spark asks in this order, and some of it again after a restart:

    initial_offset            twice in the first batch, and again if that batch has to be repeated
    latest_offset(start)      every 10 ms while there is nothing; `start` is the end of the last batch
    that is done tasks(start, end)         of each batch; the end is in the checkpoint by then

So the first offset is found once and kept, and the end of the first batch carries it (`offset_json`). A
group's offsets are committed from `start`: Spark's own call to commit comes one batch late, and after the
last batch never. Brokers are asked about new records at most every LATEST_TTL_MS.
"""

from __future__ import annotations

import logging
from typing import Any

from ottla.client.clock import MONOTONIC, Clock
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.admission import backlog, is_held_back, limited
from ottla.spark.cluster import SparkCluster
from ottla.spark.data_loss import DataLost, ranges_between
from ottla.spark.group_offsets import GroupOffsets
from ottla.spark.offset_json import Offsets, SparkOffset, from_spark, start_in, to_spark
from ottla.spark.positions import Edge
from ottla.spark.range_planner import Task, plan
from ottla.spark.source_options import SourceOptions

log = logging.getLogger(__name__)

LATEST_TTL_MS = 50


class StreamPlanner:
    """Belongs to the one thread of the driver that Spark calls a source in."""

    def __init__(self, options: SourceOptions, clock: Clock = MONOTONIC) -> None:
        self._options = options
        self._clock = clock
        self._cluster = SparkCluster(options.client, isolation_level=options.fetch.isolation_level)
        self._group = GroupOffsets(options.group_id, options.client, options.zookeeper_connect)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None  # of Trigger.AvailableNow: where the query ends
        self._places: set[TopicAndPartition] = set()
        self._places_at_ms: float | None = None
        self._latest: Offsets = {}
        self._latest_at_ms: float | None = None
        self._last_batch_at_ms: float | None = None

    # --- where it begins

    def initial_offset(self) -> SparkOffset:
        """Where a new query begins; the same each time."""
        if self._initial is None:
            places = self._cluster.partitions(self._options.subscription)
            self._cluster.check_all_exist(self._options.subscription, places)
            self._initial = starting_offsets(self._options, self._cluster, self._group, places)
            log.info("the query begins at %s", to_spark(self._initial))
        return to_spark(self._initial)

    # --- how far it goes

    def prepare_available_now(self) -> None:
        """The query ends at what there is now."""
        self._target = self._latest_now()

    def latest_offset(self, start: SparkOffset, max_rows: int | None, *, takes_all: bool) -> SparkOffset:
        """Where the next batch ends; `start` itself if there is nothing to do.

        `max_rows` is Spark's limit; `takes_all`: it wants everything, whatever the options say.
        """
        is_first = self._initial is not None and start == to_spark(self._initial)
        begin = from_spark(start)
        if not is_first:
            self.completed(start)
        latest = self._latest_now() if self._target is None else self._target
        new = latest.keys() - begin.keys()
        begin_of_all = {**begin, **self._cluster.earliest(new)}
        if is_first:
            self._last_batch_at_ms = self._clock.now_ms()
            return to_spark(limited(begin_of_all, latest, max_rows), start=self._initial)
        if latest == begin or self._is_held_back(begin_of_all, latest, takes_all=takes_all):
            return start
        end = limited(begin_of_all, latest, max_rows)
        if end == begin:
            return start
        self._last_batch_at_ms = self._clock.now_ms()
        return to_spark(end)

    def report_latest(self) -> SparkOffset:
        """The logs' ends, for the query's progress."""
        return to_spark(self._latest)

    def completed(self, end: SparkOffset) -> None:
        """A batch that ends here is done."""
        if self._options.commits_to_group:
            self._group.commit(from_spark(end))

    def _is_held_back(self, begin: Offsets, latest: Offsets, *, takes_all: bool) -> bool:
        if takes_all or self._target is not None or self._last_batch_at_ms is None:
            return False
        since_ms = self._clock.now_ms() - self._last_batch_at_ms
        return is_held_back(backlog(begin, latest), since_ms, self._options.limits)

    def _latest_now(self) -> Offsets:
        now_ms = self._clock.now_ms()
        if self._latest_at_ms is None or now_ms - self._latest_at_ms >= LATEST_TTL_MS:
            try:
                self._latest = self._cluster.latest(self._places_now(now_ms))
            except KafkaError as error:
                if error.code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                self._places_at_ms = None  # a topic was deleted since: what that means is decided by `tasks`
                self._latest = self._cluster.latest(self._places_now(now_ms))
            self._latest_at_ms = self._clock.now_ms()
        return self._latest

    def _places_now(self, now_ms: float) -> set[TopicAndPartition]:
        if self._places_at_ms is None or now_ms - self._places_at_ms >= self._options.partitions_ttl_ms:
            self._places = self._cluster.partitions(self._options.subscription)
            self._places_at_ms = now_ms
        return self._places

    # --- who reads it

    def tasks(self, start: SparkOffset, end: SparkOffset) -> list[Task]:
        """The tasks of a batch. Raises DataLost."""
        pinned = start_in(end)
        begin = from_spark(start) if pinned is None else pinned
        return planned(self._options, self._cluster, begin, from_spark(end))

    def close(self) -> None:
        """End all connections."""
        self._cluster.close()
        self._group.close()


def starting_offsets(
    options: SourceOptions, cluster: SparkCluster, group: GroupOffsets, places: set[TopicAndPartition]
) -> Offsets:
    """Where a new query begins. Partitions that a group has no offset of begin at their earliest."""
    if options.starting is not Edge.GROUP:
        return cluster.resolve("startingOffsets", options.starting, places, options.without_match)
    found = group.committed(places)
    return {**cluster.earliest(places - found.keys()), **found}


def planned(options: SourceOptions, cluster: SparkCluster, begin: Offsets, end: Offsets) -> list[Task]:
    """Ranges that can be read, as tasks. Raises DataLost, or warns."""
    bounds = cluster.bounds(end.keys())
    found = ranges_between(begin, end, bounds)
    if found.losses:
        told = "; ".join(found.losses)
        if options.fails_on_data_loss:
            raise DataLost(f"{told}. To go on without these records, set failOnDataLoss to false")
        log.warning("records are lost: %s", told)
    if options.repeated_rows is None:
        is_by_bytes = options.task_sizes.max_bytes is not None
        densities = cluster.bytes_per_offset(bounds) if is_by_bytes else None
        return plan(found.ranges, options.task_sizes, densities)
    ranges = [
        one._replace(
            look_from=max(bounds.earliest[one.topic_partition], one.start - options.repeated_rows.lookback)
        )
        for one in found.ranges
    ]
    return plan(ranges, options.task_sizes)


def batch_tasks(options: SourceOptions) -> list[Task]:
    """The tasks of a batch query."""
    cluster = SparkCluster(options.client, isolation_level=options.fetch.isolation_level)
    group = GroupOffsets(options.group_id, options.client, options.zookeeper_connect)
    try:
        places = cluster.partitions(options.subscription)
        cluster.check_all_exist(options.subscription, places)
        begin = starting_offsets(options, cluster, group, places)
        end = cluster.resolve("endingOffsets", options.ending, places)
        for place, offset in begin.items():
            end[place] = max(end[place], offset)  # a batch that begins behind its end is empty
        return planned(options, cluster, begin, end)
    finally:
        cluster.close()
        group.close()


def read_limit(limit: Any, options: SourceOptions) -> int | None:
    """How many rows a batch has at most, of Spark's limit object and of the options."""
    rows: int | None = getattr(limit, "max_rows", None)
    return rows if rows is not None else options.limits.max_offsets
