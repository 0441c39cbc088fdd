"""Offsets as Spark writes them: {"orders": {"0": 23, "1": -1}}; -1 is the latest, -2 the earliest.

What a streaming query stores in its checkpoint is the same, so a checkpoint can be read by people and by
Spark's own connector. The first batch of a query also carries where the query began, under a name that no
topic can have. Spark asks a source for its first offset again if that batch has to be repeated, and by
then "latest" is another place: records between the two would be lost without a word.

    {"@start": {"orders": {"0": 20}}, "orders": {"0": 23}}
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
    """The offsets (or times) of an option. Raises ConfigError that shows what was meant."""
    found: Offsets = {}
    for topic, rows in _object(text, what, '{"topic": {"0": 23}}').items():
        if not isinstance(rows, dict):
            raise ConfigError(f'{what}: {topic!r} has {rows!r:.100}; partitions are wanted: {{"0": 23}}')
        for number, value in rows.items():
            if not number.isdecimal() or not isinstance(value, int) or isinstance(value, bool):
                raise ConfigError(f"{what}: {topic!r} has {number!r}: {value!r}; whole numbers are wanted")
            if not minimum <= value <= LONG_MAX:
                raise ConfigError(f"{what}: {topic}-{number} is {value}; it must be {minimum} or more")
            found[TopicAndPartition(topic, int(number))] = value
    if not found:
        raise ConfigError(f'{what} has no partition: write {{"topic": {{"0": 23}}}}')
    return found


def parse_partitions(text: str, what: str) -> tuple[TopicAndPartition, ...]:
    """Partitions as `assign` lists them: {"orders": [0, 1]}."""
    found: list[TopicAndPartition] = []
    for topic, numbers in _object(text, what, '{"topic": [0, 1]}').items():
        if not isinstance(numbers, list) or not all(type(one) is int and one >= 0 for one in numbers):
            raise ConfigError(f"{what}: {topic!r} has {numbers!r:.100}; a list of numbers is wanted: [0, 1]")
        found += [TopicAndPartition(topic, number) for number in numbers]
    if not found:
        raise ConfigError(f'{what} has no partition: write {{"topic": [0, 1]}}')
    return tuple(sorted(set(found)))


def to_spark(
    offsets: Mapping[TopicAndPartition, int], start: Mapping[TopicAndPartition, int] | None = None
) -> SparkOffset:
    """Offsets for Spark, sorted: it compares their texts to see whether there is anything new."""
    made: SparkOffset = {} if start is None else {START: to_spark(start)}
    for (topic, partition), offset in sorted(offsets.items()):
        made.setdefault(topic, {})[str(partition)] = offset
    return made


def from_spark(offset: Mapping[str, Any]) -> Offsets:
    """What Spark hands back, without where the query began."""
    return {
        TopicAndPartition(topic, int(partition)): position
        for topic, rows in offset.items()
        if topic != START
        for partition, position in rows.items()
    }


def start_in(offset: Mapping[str, Any]) -> Offsets | None:
    """Where the query began, if this is the end of its first batch."""
    return from_spark(offset[START]) if START in offset else None


def shown(partitions: Iterable[TopicAndPartition], most: int = 10) -> str:
    """Partitions in a message, not more than one can read."""
    names = [str(one) for one in sorted(partitions)]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _object(text: str, what: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{what}={text!r:.200}: JSON is wanted, {example}")
    return found
