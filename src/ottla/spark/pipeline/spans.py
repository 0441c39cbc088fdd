"""Sets of records: by partition, spans of offsets from a start to before an end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.offset_json import Offsets

Span = tuple[int, int]
Spans = dict[TopicAndPartition, list[Span]]
"""Spans are sorted, not empty, and do not touch each other."""


def spans_between(begin: Offsets, end: Offsets) -> Spans:
    """The spans from `begin` to `end`; a new partition begins at 0."""
    bounds = {
        topic_partition: (begin.get(topic_partition, 0), offset) for topic_partition, offset in end.items()
    }
    return {topic_partition: [span] for topic_partition, span in sorted(bounds.items()) if span[0] < span[1]}


def united(many: Iterable[Spans]) -> Spans:
    """The union."""
    gathered: dict[TopicAndPartition, list[Span]] = {}
    for spans in many:
        for topic_partition, more in spans.items():
            gathered.setdefault(topic_partition, []).extend(more)
    return {topic_partition: _merged(spans) for topic_partition, spans in sorted(gathered.items())}


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def hull(spans: Spans) -> Spans:
    """One span for each partition, from its first to its last offset."""
    return {topic_partition: [(many[0][0], many[-1][1])] for topic_partition, many in spans.items() if many}


def is_overlap(left: Spans, other: Spans) -> bool:
    """Whether they have a record in common."""
    return any(
        start < last and first < end
        for topic_partition, spans in left.items()
        for start, end in spans
        for first, last in other.get(topic_partition, ())
    )


def without(spans: Spans, taken: Spans) -> Spans:
    """Return `spans` without the records in `taken`."""
    left: Spans = {}
    for topic_partition, many in spans.items():
        pieces = many
        for first, last in taken.get(topic_partition, ()):
            pieces = [
                piece
                for start, end in pieces
                for piece in ((start, min(end, first)), (max(start, last), end))
                if piece[0] < piece[1]
            ]
        if pieces:
            left[topic_partition] = pieces
    return left


def begins(spans: Spans) -> Offsets:
    """Where each partition begins."""
    return {topic_partition: many[0][0] for topic_partition, many in spans.items()}


def ends(spans: Spans) -> Offsets:
    """Where each partition ends."""
    return {topic_partition: many[-1][1] for topic_partition, many in spans.items()}


def to_json(spans: Spans) -> dict[str, Any]:
    """{"orders": {"0": [[0, 10]]}}"""
    made: dict[str, Any] = {}
    for (topic, partition), many in sorted(spans.items()):
        made.setdefault(topic, {})[str(partition)] = [list(span) for span in many]
    return made


def from_json(json_spans: Mapping[str, Any]) -> Spans:
    """Parse what `to_json` returns."""
    return {
        TopicAndPartition(topic, int(partition)): [(start, end) for start, end in many]
        for topic, rows in json_spans.items()
        for partition, many in rows.items()
    }
