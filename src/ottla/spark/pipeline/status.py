"""How far a pipeline is, according to its stored state. It may run in another process, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ottla.model.errors import ConfigError
from ottla.spark.offset_json import Offsets, from_spark
from ottla.spark.pipeline.form import PipelineForm
from ottla.spark.pipeline.offsets import latest_of
from ottla.spark.pipeline.state import BatchDone, PipelineState, seconds_behind


class PartitionStatus(NamedTuple):
    """Position and lag in one partition; None where it is unknown."""

    topic: str
    partition: int
    offset: int
    latest: int | None
    lag: int | None


class PipelineStatus(NamedTuple):
    """The status of a pipeline. `batch` is the last completed one."""

    batch: int
    partitions: list[PartitionStatus]
    batches: list[BatchDone]
    seconds_behind: float | None = None

    @property
    def lag(self) -> int:
        """Records that are left, in all partitions whose end is known."""
        return sum(partition.lag or 0 for partition in self.partitions)


def form_of(pipeline: str | Path) -> PipelineForm | None:
    """The pipeline of a TOML file; None for a checkpoint. Raises ConfigError."""
    return None if Path(pipeline).is_dir() else PipelineForm.read(pipeline)


def status_at(pipeline: str | Path, checkpoint: str = "") -> PipelineStatus:
    """The status of a pipeline by its TOML file, or by its checkpoint. Raises ConfigError.

    A file names the sources, so brokers are asked for the ends of the logs; `checkpoint` replaces the file's.
    """
    form = form_of(pipeline)
    if form is None:
        return status_of(PipelineState(pipeline))
    stored = checkpoint or form.checkpoint
    if not stored:
        raise ConfigError(f"{pipeline} names no checkpoint: give --checkpoint")
    return status_of(PipelineState(stored), [source.options for source in form.sources])


def status_of(state: PipelineState, sources: Sequence[Mapping[str, str]] = ()) -> PipelineStatus:
    """The status of a checkpoint.

    With sources, brokers are asked for the ends of the logs; else they are as of the last batch. Raises
    ConfigError if no batch is done yet.
    """
    done = state.committed()
    if done is None:
        raise ConfigError(f"{state.url}: no batch is done yet")
    batches = state.batches()
    latest: Offsets = from_spark(batches[-1].latest) if batches else {}
    if sources:
        latest = latest_of(sources, done.offsets)
    rows = [
        PartitionStatus(
            topic_partition.topic,
            topic_partition.partition,
            offset,
            latest.get(topic_partition),
            max(0, latest[topic_partition] - offset) if topic_partition in latest else None,
        )
        for topic_partition, offset in sorted(done.offsets.items())
    ]
    behind = seconds_behind(batches, done.offsets, datetime.now(UTC))
    return PipelineStatus(done.batch, rows, batches, behind)
