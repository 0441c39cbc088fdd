"""How far a streaming query is behind, of what Spark tells of its progress.

    ottla.spark.lag(query.lastProgress).total

Spark takes metrics from Java's sources only; the two offsets that it does report say the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.offset_json import from_spark


@dataclass(frozen=True, slots=True)
class Lag:
    """Offsets between the end of the last batch and the ends of the logs."""

    partitions: Mapping[TopicAndPartition, int]

    @property
    def total(self) -> int:
        """Of all partitions."""
        return sum(self.partitions.values())

    @property
    def most(self) -> int:
        """Of the partition that is the furthest behind."""
        return max(self.partitions.values(), default=0)


def lag(progress: Any) -> Lag:
    """Of a StreamingQueryProgress, with all sources of the query; None (no batch yet) has no partitions."""
    behind: dict[TopicAndPartition, int] = {}
    for source in progress.sources if progress is not None else ():
        if source.endOffset and source.latestOffset:
            done = from_spark(json.loads(source.endOffset))
            for place, latest in from_spark(json.loads(source.latestOffset)).items():
                behind[place] = max(0, latest - done.get(place, 0))
    return Lag(behind)
