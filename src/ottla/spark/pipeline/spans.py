"""Which records something holds: offsets from a start to before an end, of each partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.offset_json import Offsets

Span = tuple[int, int]
Spans = dict[TopicAndPartition, list[Span]]
"""Sorted, not empty, and apart from each other."""


def spans_between(begin: Offsets, end: Offsets) -> Spans:
    """From one to the other; a partition that is new begins at 0."""
    found = {place: (begin.get(place, 0), offset) for place, offset in end.items()}
    return {place: [span] for place, span in sorted(found.items()) if span[0] < span[1]}


def united(many: Iterable[Spans]) -> Spans:
    """What at least one of them has."""
    gathered: dict[TopicAndPartition, list[Span]] = {}
    for spans in many:
        for place, more in spans.items():
            gathered.setdefault(place, []).extend(more)
    return {place: _merged(spans) for place, spans in sorted(gathered.items())}


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def hull(spans: Spans) -> Spans:
    """One span a partition: from its first to its last."""
    return {place: [(many[0][0], many[-1][1])] for place, many in spans.items() if many}


def is_overlap(one: Spans, other: Spans) -> bool:
    """Whether they have a record in common."""
    return any(
        start < last and first < end
        for place, spans in one.items()
        for start, end in spans
        for first, last in other.get(place, ())
    )


def without(spans: Spans, taken: Spans) -> Spans:
    """What is left of them."""
    left: Spans = {}
    for place, many in spans.items():
        pieces = many
        for first, last in taken.get(place, ()):
            pieces = [
                piece
                for start, end in pieces
                for piece in ((start, min(end, first)), (max(start, last), end))
                if piece[0] < piece[1]
            ]
        if pieces:
            left[place] = pieces
    return left


def begins(spans: Spans) -> Offsets:
    """Where each partition begins."""
    return {place: many[0][0] for place, many in spans.items()}


def ends(spans: Spans) -> Offsets:
    """Where each partition ends."""
    return {place: many[-1][1] for place, many in spans.items()}


def to_json(spans: Spans) -> dict[str, Any]:
    """{"orders": {"0": [[0, 10]]}}"""
    made: dict[str, Any] = {}
    for (topic, partition), many in sorted(spans.items()):
        made.setdefault(topic, {})[str(partition)] = [list(span) for span in many]
    return made


def from_json(told: Mapping[str, Any]) -> Spans:
    """The reverse."""
    return {
        TopicAndPartition(topic, int(partition)): [(start, end) for start, end in many]
        for topic, rows in told.items()
        for partition, many in rows.items()
    }
