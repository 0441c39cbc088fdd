"""What a run reads: from where to where, of each partition. Asks brokers, and needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.cluster import SparkCluster
from ottla.spark.group_offsets import GroupOffsets
from ottla.spark.offset_json import Offsets
from ottla.spark.pipeline.spans import Spans, begins, ends, spans_between
from ottla.spark.pipeline.state import State, shown_offsets
from ottla.spark.source_options import Mode, SourceOptions, source_options
from ottla.spark.stream_planner import starting_offsets

_ONLINE_ONLY = {"group.id", "maxoffsetspertrigger", "maxtriggerdelay", "minoffsetspertrigger"}
"""Options of a stream that say nothing about a range."""
_MOVING = {"latest", "group"}
"""Where a stream may begin, and a range does not: another run would begin elsewhere."""
_WHERE = ("starting", "ending", "subscribe", "assign")


class Reach(NamedTuple):
    """What is to be read of one partition."""

    place: TopicAndPartition
    start: int
    end: int


def bounded(source: Mapping[str, str], bounds: Mapping[str, str]) -> dict[str, str]:
    """The options of a run over a range. It begins where a new stream does, unless `bounds` say otherwise."""
    options = {name: value for name, value in source.items() if name.lower() not in _ONLINE_ONLY}
    if source.get("startingOffsets", "") in _MOVING:
        options.pop("startingOffsets", None)
    if any(name.startswith("starting") for name in bounds):
        options = {name: value for name, value in options.items() if not name.startswith("starting")}
    return {**options, **bounds}


def exactly(source: Mapping[str, str], spans: Spans) -> dict[str, str]:
    """The options that read these spans and nothing else."""
    kept = {name: value for name, value in bounded(source, {}).items() if not name.lower().startswith(_WHERE)}
    assigned: dict[str, list[int]] = {}
    for place in spans:
        assigned.setdefault(place.topic, []).append(place.partition)
    return {
        **kept,
        "assign": str(assigned).replace("'", '"'),
        "startingOffsets": shown_offsets(begins(spans)),
        "endingOffsets": shown_offsets(ends(spans)),
    }


@contextmanager
def _asked(options: SourceOptions) -> Iterator[tuple[SparkCluster, GroupOffsets, set[TopicAndPartition]]]:
    cluster = SparkCluster(options.client, isolation_level=options.fetch.isolation_level)
    group = GroupOffsets(options.group_id, options.client, options.zookeeper_connect)
    try:
        places = cluster.partitions(options.subscription)
        cluster.check_all_exist(options.subscription, places)
        yield cluster, group, places
    finally:
        cluster.close()
        group.close()


def of_range(source: Mapping[str, str], bounds: Mapping[str, str]) -> Spans:
    """What a run over a range reads."""
    options = source_options(bounded(source, bounds), Mode.BATCH)
    with _asked(options) as (cluster, group, places):
        begin = starting_offsets(options, cluster, group, places)
        return spans_between(begin, cluster.resolve("endingOffsets", options.ending, places))


def of_stream(source: Mapping[str, str], state: State | None) -> list[Reach]:
    """What a stream reads until it has all that there is now; empty ones too."""
    options = source_options(source, Mode.STREAM)
    done = state.committed() if state is not None else None
    with _asked(options) as (cluster, group, places):
        begin = starting_offsets(options, cluster, group, places) if done is None else done.offsets
        begin |= cluster.earliest(places - begin.keys())
        latest = cluster.latest(places)
    return [Reach(place, begin[place], latest[place]) for place in sorted(places)]


def pinned(source: Mapping[str, str], state: State) -> dict[str, str]:
    """The source with its beginning as offsets, so that two new queries begin at the same."""
    if state.committed() is not None:
        return dict(source)
    kept = {name: value for name, value in source.items() if not name.lower().startswith("starting")}
    begin = {one.place: one.start for one in of_stream(source, None)}
    return {**kept, "startingOffsets": shown_offsets(begin)} if begin else dict(source)


def silent(source: Mapping[str, str]) -> dict[str, str]:
    """The source for a query beside another, which has nothing to do with a group."""
    kept = {name: value for name, value in source.items() if name not in {"group.id", "zookeeper.connect"}}
    if kept.get("startingOffsets") == "group":
        del kept["startingOffsets"]  # a query that is there already: it goes on by its checkpoint
    return kept


def latest_of(source: Mapping[str, str], places: Iterable[TopicAndPartition]) -> Offsets:
    """Where logs end now; partitions that are gone are left out."""
    options = source_options(source, Mode.STREAM)
    with _asked(options) as (cluster, _, there):
        return cluster.latest(there.intersection(places))


def check_still_there(source: Mapping[str, str], wanted: Spans, told: Spans) -> None:
    """Raise ConfigError if a range was widened to records that its log has lost."""
    widened = {place for place, spans in wanted.items() if spans != told.get(place)}
    if not widened:
        return
    options = source_options(exactly(source, wanted), Mode.BATCH)
    with _asked(options) as (cluster, _, places):
        earliest = cluster.earliest(places)
    lost = {place for place in widened if wanted[place][0][0] < earliest.get(place, 0)}
    if lost:
        later: Offsets = {place: wanted[place][0][1] for place in lost}
        raise ConfigError(
            "the table has batches that are partly within the range, and their first records are gone from"
            f" the log: choose a range that does not touch what lies before {shown_offsets(later)}"
        )
