"""The functions that applications give to a producer, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.model.errors import ConfigError
from ottla.producer.partitioners import ColumnPartitioner, PartitionerChoice, RowPartitioner
from ottla.producer.producer_config import ProducerConfig

ROUND_ROBIN = "round_robin"

Serializer: TypeAlias = Callable[[Any], bytes | str]
"""A key or value → its bytes; text is sent as UTF-8."""


def checked_serializer(name: str, serializer: Serializer | None) -> Serializer | None:
    """The serializer. Raises ConfigError if it cannot be called."""
    if serializer is not None and not callable(serializer):
        raise ConfigError(f"{name}={serializer!r}: a function that returns bytes is wanted")
    return serializer


def partitioner_choice(
    row: RowPartitioner | str | None, column: ColumnPartitioner | None, config: ProducerConfig
) -> PartitionerChoice:
    """How partitions are chosen, as the arguments of a producer say. Raises ConfigError."""
    if isinstance(row, str):
        if row != ROUND_ROBIN:
            raise ConfigError(f"partitioner={row!r}: give a function, or {ROUND_ROBIN!r}")
        return PartitionerChoice(column=column, is_round_robin=True)
    return PartitionerChoice(row=row, column=column, ignores_keys=config.ignores_keys)
