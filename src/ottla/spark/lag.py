"""How far a streaming query is behind, computed from the progress that Spark reports.

    ottla.spark.lag(query.lastProgress).total

Spark accepts metrics only from Java sources, so `sources[0].metrics` of a query's progress stays empty. The
two offsets that it reports contain the same information; `Lag.metrics` has it under the connector's names.
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
    """Offsets between the end of the last batch and the ends of the logs, by partition.

    >>> from ottla import TopicAndPartition
    >>> from ottla.spark import Lag
    >>> lag = Lag({TopicAndPartition("orders", 0): 5, TopicAndPartition("orders", 1): 7})
    >>> lag.total, lag.most, lag.metrics["avgOffsetsBehindLatest"]
    (12, 7, '6.0')
    """

    partitions: Mapping[TopicAndPartition, int]

    @property
    def total(self) -> int:
        """The lag of all partitions together."""
        return sum(self.partitions.values())

    @property
    def most(self) -> int:
        """The lag of the partition that is furthest behind."""
        return max(self.partitions.values(), default=0)

    @property
    def metrics(self) -> dict[str, str]:
        """What Spark's own connector reports as a source's metrics; empty without partitions."""
        behind = self.partitions.values()
        if not behind:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(behind)),
            "maxOffsetsBehindLatest": str(max(behind)),
            "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        }


def lag(progress: Any) -> Lag:
    """The lag in a StreamingQueryProgress, over all sources of the query.

    None (no batch yet) has no partitions.
    """
    behind: dict[TopicAndPartition, int] = {}
    for source in progress.sources if progress is not None else ():
        if source.endOffset and source.latestOffset:
            done = from_spark(json.loads(source.endOffset))
            for topic_partition, latest in from_spark(json.loads(source.latestOffset)).items():
                behind[topic_partition] = max(0, latest - done.get(topic_partition, 0))
    return Lag(behind)
