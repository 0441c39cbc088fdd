"""Which partition a record goes to: by its key as Java's default partitioner, or as the user says.

    a partition column or argument   as it says; rows where it is null go the other ways
    a key                            murmur2 of it, as every Kafka client places it
    no key                           one partition for a piece of about batch.size bytes, then the next one,
                                     of those that have a leader: few large batches instead of many small
    round robin                      each row to the next partition of those that have a leader

A user's own function is asked for rows without an explicit partition, with a key or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla import kernels
from ottla.model.errors import ConfigError
from ottla.producer.parts import PARTITION
from ottla.records.hashes import key_partitions
from ottla.records.inputs import binary_input
from ottla.records.messages import binary_values

RowPartitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int]
"""topic, key, value, how many partitions → a partition."""

ColumnPartitioner: TypeAlias = Callable[[str, pa.RecordBatch, int], "pa.Array | Sequence[int]"]
"""topic, columns, how many partitions → a partition for each row."""

Partitions: TypeAlias = npt.NDArray[np.int32]

NOT_CHOSEN = -1


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user set. `ignores_keys`: records with a key go as those without one."""

    row: RowPartitioner | None = None
    column: ColumnPartitioner | None = None
    is_round_robin: bool = False
    ignores_keys: bool = False

    def __post_init__(self) -> None:
        if (self.row is not None) + (self.column is not None) + self.is_round_robin > 1:
            raise ConfigError("give one of partitioner, column_partitioner and round robin, not several")

    def spreads(self, columns: pa.RecordBatch) -> bool:
        """Whether neighbouring rows go to different partitions."""
        names = columns.schema.names
        if PARTITION in names or self.row is not None or self.column is not None or self.is_round_robin:
            return True
        return (
            not self.ignores_keys and "key" in names and columns.column("key").null_count < columns.num_rows
        )


class TopicPartitioner:
    """The choice for one topic, with the turn that keyless records have. Not thread-safe."""

    def __init__(self, topic: str, choice: Choice, first_turn: int) -> None:
        self.topic = topic
        self._choice = choice
        self._turn = first_turn

    def assigned(
        self, columns: pa.RecordBatch, partition_count: int, available: Sequence[int]
    ) -> int | Partitions:
        """One partition for all rows, or one for each. `available` have a leader. Raises ConfigError."""
        chosen = self._explicit(columns, partition_count)
        if chosen is None:
            chosen = self._derived(columns, partition_count, available)
            if chosen is None:
                return self._next(available)
        elif (chosen == NOT_CHOSEN).any():
            derived = self._derived(columns, partition_count, available)
            if derived is not None:
                chosen = np.where(chosen == NOT_CHOSEN, derived, chosen)
        if (missing := chosen == NOT_CHOSEN).any():
            chosen = np.where(missing, np.int32(self._next(available)), chosen)
        first = int(chosen[0])
        return first if (chosen == first).all() else chosen

    def _next(self, available: Sequence[int]) -> int:
        self._turn += 1
        return available[self._turn % len(available)]

    def _explicit(self, columns: pa.RecordBatch, partition_count: int) -> Partitions | None:
        if PARTITION not in columns.schema.names:
            return None
        column = columns.column(PARTITION)
        if column.null_count == len(column):
            return None
        values = column.fill_null(NOT_CHOSEN) if column.null_count else column
        chosen: Partitions = values.to_numpy()
        nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else False
        self._check(np.where(nulls, 0, chosen), partition_count, "column 'partition'")
        return chosen

    def _derived(
        self, columns: pa.RecordBatch, partition_count: int, available: Sequence[int]
    ) -> Partitions | None:
        """By the user's function, or by the keys; NOT_CHOSEN where there is none, None if there are none."""
        choice = self._choice
        if choice.row is not None or choice.column is not None:
            return self._custom(columns, partition_count)
        if choice.is_round_robin:
            turns = np.arange(self._turn, self._turn + columns.num_rows) % len(available)
            self._turn += columns.num_rows
            placed: Partitions = np.array(available, np.int32)[turns]
            return placed
        if choice.ignores_keys or "key" not in columns.schema.names:
            return None
        keys = columns.column("key")
        if keys.null_count == len(keys):
            return None
        return key_partitions(binary_input(keys, "key"), len(keys), partition_count)

    def _custom(self, columns: pa.RecordBatch, partition_count: int) -> Partitions:
        if self._choice.column is not None:
            answer = self._choice.column(self.topic, columns, partition_count)
            name = "column_partitioner"
        else:
            assert self._choice.row is not None
            answer = [
                self._choice.row(self.topic, key, value, partition_count) for key, value in _pairs(columns)
            ]
            name = "partitioner"
        try:
            chosen: Partitions = np.asarray(answer).astype(np.int32, casting="same_kind")
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{name} gave no partitions for {self.topic}: {error}") from error
        if chosen.shape != (columns.num_rows,):
            raise ConfigError(f"{name} gave {chosen.shape} partitions for {columns.num_rows} records")
        self._check(chosen, partition_count, name)
        return chosen

    def _check(self, chosen: Partitions, partition_count: int, source: str) -> None:
        wrong = (chosen < 0) | (chosen >= partition_count)
        if wrong.any():
            raise no_such_partition(self.topic, int(chosen[wrong][0]), partition_count, source)


def no_such_partition(topic: str, partition: int, partition_count: int, source: str) -> ConfigError:
    """The error for a partition that a topic does not have."""
    return ConfigError(
        f"{source} says partition {partition}, but {topic} has {partition_count}: 0 to {partition_count - 1}"
    )


def _pairs(columns: pa.RecordBatch) -> list[tuple[bytes | None, bytes | None]]:
    count = columns.num_rows
    has_keys = "key" in columns.schema.names
    keys = binary_values(columns.column("key")) if has_keys else [None] * count
    return list(zip(keys, binary_values(columns.column("value")), strict=True))


class Placement(NamedTuple):
    """Rows in the order of their partitions; those of one partition keep their order.

    `runs` has (partition, first, last) of each run of that order, `reach` at each place of it the bytes of
    that partition's rows up to and with this one.
    """

    order: npt.NDArray[np.int64]
    reach: npt.NDArray[np.int64]
    runs: list[tuple[int, int, int]]


def by_partition(chosen: Partitions, reach: npt.NDArray[np.int64], partition_count: int) -> Placement:
    """`reach` has the bytes before each row and those of all."""
    chosen = np.ascontiguousarray(chosen, np.int32)
    chosen.flags.writeable = False  # the one type that the kernel is compiled for
    starts = np.zeros(partition_count + 1, np.int64)
    order, placed = np.empty(len(chosen), np.int64), np.empty(len(chosen), np.int64)
    kernels.rows_by_partition(chosen, reach, starts, order, placed)
    ends = starts.tolist()
    runs = zip(range(partition_count), ends, ends[1:], strict=False)
    return Placement(order, placed, [run for run in runs if run[1] < run[2]])
