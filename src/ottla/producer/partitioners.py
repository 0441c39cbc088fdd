"""Which partition a record goes to: by its key as Java's default partitioner, or as the user says.

    a partition column or argument   that partition; rows where it is null are handled as below
    a key                            by murmur2 of the key, as in Java's client
    no key                           one partition for about batch.size bytes, then the next partition that
                                     has a leader: a few large batches instead of many small ones
    round robin                      each row to the next partition that has a leader

A user's own function is called for all rows without an explicit partition, with or without a key.
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
"""(topic, key, value, partition count) → a partition."""

ColumnPartitioner: TypeAlias = Callable[[str, pa.RecordBatch, int], "pa.Array | Sequence[int]"]
"""(topic, columns, partition count) → a partition for each row."""

Partitions: TypeAlias = npt.NDArray[np.int32]

NOT_CHOSEN = -1


@dataclass(frozen=True, slots=True)
class PartitionerChoice:
    """What the user set. `ignores_keys`: records with a key are treated like those without."""

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
    """Chooses partitions for one topic; remembers the last one of records without a key. Not thread-safe."""

    def __init__(self, topic: str, choice: PartitionerChoice, first_turn: int) -> None:
        self.topic = topic
        self._choice = choice
        self._turn = first_turn

    def assigned(
        self, columns: pa.RecordBatch, partition_count: int, available: Sequence[int]
    ) -> int | Partitions:
        """Return one partition for all rows, or one for each row. `available` partitions have a leader.

        Raises ConfigError.
        """
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
        """Return partitions by the user's function or by keys; NOT_CHOSEN for rows without a key.

        Returns None if no row has a key.
        """
        choice = self._choice
        if choice.row is not None or choice.column is not None:
            return self._custom(columns, partition_count)
        if choice.is_round_robin:
            turns = np.arange(self._turn, self._turn + columns.num_rows) % len(available)
            self._turn += columns.num_rows
            chosen: Partitions = np.array(available, np.int32)[turns]
            return chosen
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
    """Return the error for a partition that the topic does not have."""
    return ConfigError(
        f"{source} says partition {partition}, but {topic} has {partition_count}: 0 to {partition_count - 1}"
    )


def _pairs(columns: pa.RecordBatch) -> list[tuple[bytes | None, bytes | None]]:
    count = columns.num_rows
    has_keys = "key" in columns.schema.names
    keys = binary_values(columns.column("key")) if has_keys else [None] * count
    return list(zip(keys, binary_values(columns.column("value")), strict=True))


class Placement(NamedTuple):
    """Rows sorted by partition; rows of one partition keep their order.

    `order` has the sorted row numbers, `runs` the (partition, first, last) of each partition in it. `reach`
    has for each of its rows the bytes of the partition's rows up to and including that row.
    """

    order: npt.NDArray[np.int64]
    reach: npt.NDArray[np.int64]
    runs: list[tuple[int, int, int]]


def by_partition(chosen: Partitions, reach: npt.NDArray[np.int64], partition_count: int) -> Placement:
    """Sort rows by partition. `reach` has the bytes before each row, and after the last."""
    chosen = np.ascontiguousarray(chosen, np.int32)
    chosen.flags.writeable = False  # the kernel is compiled for this type only
    starts = np.zeros(partition_count + 1, np.int64)
    order, reach_in_order = np.empty(len(chosen), np.int64), np.empty(len(chosen), np.int64)
    kernels.path().rows_by_partition(chosen, reach, starts, order, reach_in_order)
    ends = starts.tolist()
    runs = zip(range(partition_count), ends, ends[1:], strict=False)
    return Placement(order, reach_in_order, [run for run in runs if run[1] < run[2]])
