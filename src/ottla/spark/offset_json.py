"""Offsets as Spark writes them: {"orders": {"0": 23, "1": -1}}; -1 is the latest, -2 the earliest.

A streaming query stores the same JSON in its checkpoint, so people and Spark's own connector can read it.
Checkpoints of ottla before 0.2 have the query's start in the end of the first batch, under a name that no
topic can have: {"@start": {"orders": {"0": 20}}, "orders": {"0": 23}}.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition

Offsets = dict[TopicAndPartition, int]
SparkOffset = dict[str, Any]

START = "@start"
LONG_MAX = (1 << 63) - 1


def parse_offsets(text: str, what: str, *, minimum: int) -> Offsets:
    """Parse the offsets (or times) of an option. Raises ConfigError with an example."""
    offsets: Offsets = {}
    for topic, rows in _object(text, what, '{"topic": {"0": 23}}').items():
        if not isinstance(rows, dict):
            raise ConfigError(f'{what}: {topic!r} has {rows!r:.100}; partitions are wanted: {{"0": 23}}')
        for number, value in rows.items():
            if not number.isdecimal() or not isinstance(value, int) or isinstance(value, bool):
                raise ConfigError(f"{what}: {topic!r} has {number!r}: {value!r}; whole numbers are wanted")
            if not minimum <= value <= LONG_MAX:
                raise ConfigError(f"{what}: {topic}-{number} is {value}; it must be {minimum} or more")
            offsets[TopicAndPartition(topic, int(number))] = value
    if not offsets:
        raise ConfigError(f'{what} has no partition: write {{"topic": {{"0": 23}}}}')
    return offsets


def parse_partitions(text: str, what: str) -> tuple[TopicAndPartition, ...]:
    """Partitions as `assign` lists them: {"orders": [0, 1]}."""
    partitions: list[TopicAndPartition] = []
    for topic, numbers in _object(text, what, '{"topic": [0, 1]}').items():
        if not isinstance(numbers, list) or not all(
            type(number) is int and number >= 0 for number in numbers
        ):
            raise ConfigError(f"{what}: {topic!r} has {numbers!r:.100}; a list of numbers is wanted: [0, 1]")
        partitions += [TopicAndPartition(topic, number) for number in numbers]
    if not partitions:
        raise ConfigError(f'{what} has no partition: write {{"topic": [0, 1]}}')
    return tuple(sorted(set(partitions)))


def to_spark(offsets: Mapping[TopicAndPartition, int]) -> SparkOffset:
    """Offsets as Spark stores them, sorted: Spark compares the texts to see whether there is new data."""
    made: SparkOffset = {}
    for (topic, partition), offset in sorted(offsets.items()):
        made.setdefault(topic, {})[str(partition)] = offset
    return made


def from_spark(offset: Mapping[str, Any]) -> Offsets:
    """Return the offsets in what Spark gives back, without the query's start."""
    return {
        TopicAndPartition(topic, int(partition)): position
        for topic, rows in offset.items()
        if topic != START
        for partition, position in rows.items()
    }


def start_in(offset: Mapping[str, Any]) -> Offsets | None:
    """The query's start, in the first batch of an old checkpoint; else None."""
    return from_spark(offset[START]) if START in offset else None


def shown(partitions: Iterable[TopicAndPartition], most: int = 10) -> str:
    """Partitions for an error message; a long list is shortened."""
    names = [str(partition) for partition in sorted(partitions)]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _object(text: str, what: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(f"{what}={text!r:.200}: JSON is wanted, {example}")
    return value
