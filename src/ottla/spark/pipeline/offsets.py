"""Which offsets of each partition a run reads. Asks brokers; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.cluster import SparkCluster
from ottla.spark.group_offsets import GroupOffsets
from ottla.spark.offset_json import Offsets
from ottla.spark.pipeline.spans import Spans, begins, ends, spans_between, united
from ottla.spark.pipeline.state import PipelineState, merged, shown_offsets
from ottla.spark.source_options import Mode, SourceOptions, source_options
from ottla.spark.stream_planner import starting_offsets

_ONLINE_ONLY = {"group.id", "maxoffsetspertrigger", "maxtriggerdelay", "minoffsetspertrigger"}
"""Options of a stream that do not concern a range."""
_MOVING = {"latest", "group"}
"""Starts that move: a stream may begin there, but a range may not, since its next run would begin
elsewhere.
"""
_WHERE = ("starting", "ending", "subscribe", "assign")


class Reach(NamedTuple):
    """The offsets to read from one partition."""

    topic_partition: TopicAndPartition
    start: int
    end: int


def bounded(source: Mapping[str, str], bounds: Mapping[str, str]) -> dict[str, str]:
    """The options of a run over a range.

    It begins where a new stream would, unless `bounds` say otherwise.
    """
    options = {name: value for name, value in source.items() if name.lower() not in _ONLINE_ONLY}
    if source.get("startingOffsets", "") in _MOVING:
        options.pop("startingOffsets", None)
    if any(name.startswith("starting") for name in bounds):
        options = {name: value for name, value in options.items() if not name.startswith("starting")}
    return {**options, **bounds}


def exactly(source: Mapping[str, str], spans: Spans) -> dict[str, str]:
    """Options that read exactly these spans."""
    kept = {name: value for name, value in bounded(source, {}).items() if not name.lower().startswith(_WHERE)}
    assigned: dict[str, list[int]] = {}
    for span in spans:
        assigned.setdefault(span.topic, []).append(span.partition)
    return {
        **kept,
        "assign": str(assigned).replace("'", '"'),
        "startingOffsets": shown_offsets(begins(spans)),
        "endingOffsets": shown_offsets(ends(spans)),
    }


@contextmanager
def _opened_cluster(
    options: SourceOptions,
) -> Iterator[tuple[SparkCluster, GroupOffsets, set[TopicAndPartition]]]:
    cluster = SparkCluster(options.client, isolation_level=options.fetch.isolation_level)
    group = GroupOffsets(options.group_id, options.client, options.zookeeper_connect)
    try:
        partitions = cluster.partitions(options.subscription)
        cluster.check_all_exist(options.subscription, partitions)
        yield cluster, group, partitions
    finally:
        cluster.close()
        group.close()


def of_range(sources: Sequence[Mapping[str, str]], bounds: Mapping[str, str]) -> Spans:
    """The offsets that a run over a range reads."""
    check_apart(sources)
    return united(_of_range(source, bounds) for source in sources)


def _of_range(source: Mapping[str, str], bounds: Mapping[str, str]) -> Spans:
    options = source_options(bounded(source, bounds), Mode.BATCH)
    with _opened_cluster(options) as (cluster, group, partitions):
        begin = starting_offsets(options, cluster, group, partitions)
        return spans_between(begin, cluster.resolve("endingOffsets", options.ending, partitions))


def of_stream(sources: Sequence[Mapping[str, str]], state: PipelineState | None) -> list[Reach]:
    """The offsets that a stream would read up to now, with empty ranges."""
    check_apart(sources)
    return [reach for source in sources for reach in _of_stream(source, state)]


def _of_stream(source: Mapping[str, str], state: PipelineState | None) -> list[Reach]:
    options = source_options(source, Mode.STREAM)
    done = state.committed() if state is not None else None
    with _opened_cluster(options) as (cluster, group, partitions):
        begin = starting_offsets(options, cluster, group, partitions) if done is None else done.offsets
        begin |= cluster.earliest(partitions - begin.keys())
        latest = cluster.latest(partitions)
    return [
        Reach(topic_partition, begin[topic_partition], latest[topic_partition])
        for topic_partition in sorted(partitions)
    ]


def pinned(sources: Sequence[Mapping[str, str]], state: PipelineState) -> list[dict[str, str]]:
    """The sources with their start as offsets, which the checkpoint keeps.

    So a first batch that is repeated, and a second query, begin at the same records. Partitions that came
    since begin at their first record.
    """
    check_apart(sources)
    if state.committed() is not None:
        return [dict(source) for source in sources]
    stored = state.start() or {
        topic_partition: first for source in sources for topic_partition, first in _begins(source).items()
    }
    if not stored:
        return [dict(source) for source in sources]  # the pattern matches nothing yet
    stored = state.pin_start(stored)
    return [_beginning(source, stored) for source in sources]


def _beginning(source: Mapping[str, str], stored: Offsets) -> dict[str, str]:
    kept = {name: value for name, value in source.items() if not name.lower().startswith("starting")}
    earliest = _begins({**kept, "startingOffsets": "earliest"})
    if not earliest:
        return dict(source)
    chosen = {
        topic_partition: stored.get(topic_partition, first) for topic_partition, first in earliest.items()
    }
    return {**kept, "startingOffsets": shown_offsets(chosen)}


def topics_of(source: Mapping[str, str]) -> set[str]:
    """The topics that a source reads now. Raises ConfigError if one that it names does not exist."""
    with _opened_cluster(source_options(source, Mode.STREAM)) as (_, _, partitions):
        return {partition.topic for partition in partitions}


def check_apart(sources: Sequence[Mapping[str, str]]) -> None:
    """Raise ConfigError if two sources read the same topic."""
    if len(sources) > 1:
        merged(dict.fromkeys(topics_of(source), source) for source in sources)


def shares(sources: Sequence[Mapping[str, str]], spans: Spans) -> list[Spans]:
    """Return the part of the spans that each source reads."""
    if len(sources) == 1:
        return [spans]
    by_source = [topics_of(source) for source in sources]
    return [
        {topic_partition: many for topic_partition, many in spans.items() if topic_partition.topic in topics}
        for topics in by_source
    ]


def _begins(source: Mapping[str, str]) -> Offsets:
    return {reach.topic_partition: reach.start for reach in _of_stream(source, None)}


def silent(source: Mapping[str, str]) -> dict[str, str]:
    """Return the source for a second query beside the first: without a group."""
    kept = {name: value for name, value in source.items() if name not in {"group.id", "zookeeper.connect"}}
    if kept.get("startingOffsets") == "group":
        del kept["startingOffsets"]  # the query exists already: it continues at its checkpoint
    return kept


def latest_of(sources: Sequence[Mapping[str, str]], partitions: Iterable[TopicAndPartition]) -> Offsets:
    """The current ends of the logs, without partitions that no longer exist."""
    wanted, latest = set(partitions), Offsets()
    for source in sources:
        with _opened_cluster(source_options(source, Mode.STREAM)) as (cluster, _, there):
            latest |= cluster.latest(there & wanted)
    return latest


def check_still_there(sources: Sequence[Mapping[str, str]], wanted: Spans, recorded: Spans) -> None:
    """Raise ConfigError if the widened range contains records that the log no longer has."""
    if wanted != recorded:
        for source, share in zip(sources, shares(sources, wanted), strict=True):
            _check_still_there(source, share, recorded)


def _check_still_there(source: Mapping[str, str], wanted: Spans, recorded: Spans) -> None:
    widened = {
        topic_partition for topic_partition, spans in wanted.items() if spans != recorded.get(topic_partition)
    }
    if not widened:
        return
    options = source_options(exactly(source, wanted), Mode.BATCH)
    with _opened_cluster(options) as (cluster, _, partitions):
        earliest = cluster.earliest(partitions)
    lost = {
        topic_partition
        for topic_partition in widened
        if wanted[topic_partition][0][0] < earliest.get(topic_partition, 0)
    }
    if lost:
        later: Offsets = {topic_partition: wanted[topic_partition][0][1] for topic_partition in lost}
        raise ConfigError(
            "the table has batches that are partly within the range, and their first records are gone from"
            f" the log: choose a range that does not touch what lies before {shown_offsets(later)}"
        )
