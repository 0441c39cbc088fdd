"""How far a pipeline is, from what it has stored: it may run in another process, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.model.errors import ConfigError
from ottla.spark.offset_json import Offsets, from_spark
from ottla.spark.pipeline.offsets import latest_of
from ottla.spark.pipeline.state import BatchDone, State


class PartitionStatus(NamedTuple):
    """How far it is in one partition. None is what nobody has told."""

    topic: str
    partition: int
    offset: int
    latest: int | None
    lag: int | None


class PipelineStatus(NamedTuple):
    """All of it. `batch` is the last one that is done."""

    batch: int
    partitions: list[PartitionStatus]
    batches: list[BatchDone]


def status_of(state: State, source: Mapping[str, str] | None = None) -> PipelineStatus:
    """Of a checkpoint. With a source, brokers are asked where logs end; else it is told as of the last batch.

    Raises ConfigError if nothing was done yet.
    """
    done = state.committed()
    if done is None:
        raise ConfigError(f"{state.path}: no batch is done yet")
    batches = state.batches()
    latest: Offsets = from_spark(batches[-1].latest) if batches else {}
    if source is not None:
        latest = latest_of(source, done.offsets)
    rows = [
        PartitionStatus(
            place.topic,
            place.partition,
            offset,
            latest.get(place),
            max(0, latest[place] - offset) if place in latest else None,
        )
        for place, offset in sorted(done.offsets.items())
    ]
    return PipelineStatus(done.batch, rows, batches)
