"""The options of a query that reads topics, checked together: what to read, from where to where, and how."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ottla.client.client_config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.fetching.fetch_config import FETCH_PROPERTIES, FetchConfig, OffsetReset
from ottla.model.errors import ConfigError
from ottla.model.property_table import parse_properties
from ottla.spark.admission import BatchLimits
from ottla.spark.offset_json import parse_offsets, shown
from ottla.spark.options import SOURCE_OPTIONS, Given, client_properties, parse_options
from ottla.spark.positions import (
    AtOffsets,
    AtTime,
    AtTimes,
    Edge,
    Position,
    Subscription,
    WithoutMatch,
    subscription,
)
from ottla.spark.range_planner import TaskSizes

log = logging.getLogger(__name__)

EARLIEST_OR_MORE, LATEST_OR_MORE = -2, -1


class Mode(Enum):
    """How Spark runs the query."""

    BATCH = "batch"
    STREAM = "streaming"


@dataclass(frozen=True, slots=True)
class RepeatedRows:
    """How rows that a sink wrote twice are left out: see `row_identity`."""

    lookback: int


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Checked options; they travel to the executors with the reader."""

    subscription: Subscription
    starting: Position
    ending: Position
    without_match: WithoutMatch
    limits: BatchLimits
    task_sizes: TaskSizes
    fails_on_data_loss: bool
    client: ClientConfig
    fetch: FetchConfig
    group_id: str
    commits_to_group: bool
    zookeeper_connect: str
    poll_timeout_ms: int
    partitions_ttl_ms: int
    repeated_rows: RepeatedRows | None

    @property
    def has_moving_start(self) -> bool:
        """Whether `starting` may mean another offset when it is looked up again."""
        if isinstance(self.starting, AtOffsets):
            return LATEST_OR_MORE in self.starting.offsets.values()
        if isinstance(self.starting, Edge):
            return self.starting is not Edge.EARLIEST
        return self.without_match is WithoutMatch.LATEST


def source_options(options: Mapping[str, str], mode: Mode) -> SourceOptions:
    """Parse and check. Raises ConfigError."""
    given = parse_options(SOURCE_OPTIONS, options)
    _check_mode(given, mode)
    values = given.values
    properties = client_properties(given.kafka)
    properties.setdefault("allow.auto.create.topics", "false")
    parsed = parse_properties((*CLIENT_PROPERTIES, *FETCH_PROPERTIES), properties, foreign=FOREIGN_PROPERTIES)
    fetch = replace(
        FetchConfig.from_values(parsed),
        include_headers=values["includeHeaders"] or values["dropRepeatedRows"],
        auto_offset_reset=OffsetReset.NONE if values["failOnDataLoss"] else OffsetReset.SMALLEST,
    )
    group_id = values["group.id"] or given.kafka.get("group.id", "")
    starting = _starting(given, mode)
    if starting is Edge.GROUP and not group_id:
        raise ConfigError("startingOffsets=group needs the group: give group.id")
    if values["zookeeper.connect"] and not group_id:
        raise ConfigError("zookeeper.connect is where a group keeps its offsets: give group.id too")
    return SourceOptions(
        subscription=subscription(values),
        starting=starting,
        ending=_ending(given),
        without_match=WithoutMatch(values["startingOffsetsByTimestampStrategy"]),
        limits=_limits(values),
        task_sizes=_task_sizes(values),
        fails_on_data_loss=values["failOnDataLoss"],
        client=ClientConfig.from_values(parsed),
        fetch=fetch,
        group_id=group_id,
        commits_to_group=bool(values["group.id"]),
        zookeeper_connect=values["zookeeper.connect"],
        poll_timeout_ms=values["kafkaConsumer.pollTimeoutMs"],
        partitions_ttl_ms=max(0, values["partition.metadata.cache.ttl.ms"]),
        repeated_rows=RepeatedRows(values["repeatedRowsLookback"]) if values["dropRepeatedRows"] else None,
    )


_STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


def _check_mode(given: Given, mode: Mode) -> None:
    if mode is Mode.STREAM:
        for name in _BATCH_ONLY:
            if given.is_given(name):
                raise ConfigError(f"{name} is for batch queries: a streaming query has no end")
        return
    for name in _STREAM_ONLY:
        if given.is_given(name):
            log.warning("%s is for streaming queries: without effect in a batch query", name)


def _starting(given: Given, mode: Mode) -> Position:
    values = given.values
    if values["startingTimestamp"] is not None:
        return AtTime(values["startingTimestamp"])
    if values["startingOffsetsByTimestamp"]:
        name = "startingOffsetsByTimestamp"
        return AtTimes(parse_offsets(values[name], name, minimum=0))
    text = values["startingOffsets"] or ("latest" if mode is Mode.STREAM else "earliest")
    known = {edge.value: edge for edge in Edge}.get(text.lower())
    if known is Edge.LATEST and mode is Mode.BATCH:
        raise ConfigError("startingOffsets=latest: a batch query would read nothing; write earliest or JSON")
    if known is not None:
        return known
    offsets = parse_offsets(text, "startingOffsets", minimum=EARLIEST_OR_MORE)
    at_end = [topic_partition for topic_partition, offset in offsets.items() if offset == LATEST_OR_MORE]
    if at_end and mode is Mode.BATCH:
        raise ConfigError(
            f"startingOffsets: {shown(at_end)} begins at the latest offset (-1), where a batch query would"
            " read nothing; write an offset, or -2 for the earliest"
        )
    return AtOffsets(offsets)


def _ending(given: Given) -> Position:
    values = given.values
    if values["endingTimestamp"] is not None:
        return AtTime(values["endingTimestamp"])
    if values["endingOffsetsByTimestamp"]:
        name = "endingOffsetsByTimestamp"
        return AtTimes(parse_offsets(values[name], name, minimum=0))
    text = values["endingOffsets"] or "latest"
    if text.lower() == "latest":
        return Edge.LATEST
    if text.lower() == "earliest":
        raise ConfigError("endingOffsets=earliest: the query would read nothing; write latest or JSON")
    return AtOffsets(parse_offsets(text, "endingOffsets", minimum=LATEST_OR_MORE))


def _limits(values: Mapping[str, Any]) -> BatchLimits:
    least, most = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}")
    return BatchLimits(most, least, values["maxTriggerDelay"])


def _task_sizes(values: Mapping[str, Any]) -> TaskSizes:
    if values["dropRepeatedRows"]:
        # A repeated row is recognised by the rows before it in its partition, so one task must see all of
        # them.
        for name in ("minPartitions", "maxRecordsPerPartition", "maxBytesPerTask"):
            if values[name] is not None:
                raise ConfigError(
                    f"{name} splits partitions, and dropRepeatedRows needs them whole: drop one"
                )
    return TaskSizes(
        values["minPartitions"],
        values["maxRecordsPerPartition"],
        values["minRecordsPerTask"],
        values["maxBytesPerTask"],
    )
