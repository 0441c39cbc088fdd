"""Marks the rows that a sink writes, so that a reader can drop those that were written twice. Pure.

A task that is tried again, and a batch that is repeated after a crash, write their rows again. With
rowIdentity the last header of each row, `ottla-row`, says which row of which task of which batch it is:

    query/epoch/partition/index         6f…e1/17/3/4096

The same task writes the same rows in the same order. They are partitioned by key, or by this text if there is
no key, so a repeated row arrives in the same partition of the topic. There the rows of a (query, partition)
are in the order of (epoch, index), so a row that is not after the last one is a repetition. A reader keeps
one number for each (query, partition), and restores it by reading some records before its range.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.records.columns import HEADER, HEADERS
from ottla.records.hashes import key_partition_column

NAME = "ottla-row"
INDEX_BITS = 32
_PARTS = r"^(?P<writer>.+)/(?P<epoch>\d{1,9})/(?P<partition>\d{1,9})/(?P<index>\d{1,9})$"


class TaskIdentity(NamedTuple):
    """The query, batch and task that write."""

    query: str
    epoch: int
    partition: int


def with_identity(headers: pa.Array | None, task: TaskIdentity, first: int, count: int) -> pa.Array:
    """Headers of `count` rows, each with its identity appended. The first one is row `first` of its task."""
    prefix = f"{task.query}/{task.epoch}/{task.partition}"
    indexes = pa.array(np.arange(first, first + count)).cast(pa.string())
    values = pc.binary_join_element_wise(prefix, indexes, "/").cast(pa.binary())
    own = pa.StructArray.from_arrays([pa.repeat(NAME, count), values], fields=list(HEADER))
    if headers is None:
        return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), own, type=HEADERS)
    lengths = headers.value_lengths().fill_null(0).to_numpy()
    ends = np.cumsum(lengths + 1)
    is_own = np.zeros(int(ends[-1]) if count else 0, bool)
    is_own[ends - 1] = True
    given = headers.flatten()
    order = np.empty(len(is_own), np.int64)
    order[~is_own] = np.arange(len(given))
    order[is_own] = len(given) + np.arange(count)
    both = pa.concat_arrays([given, own]).take(pa.array(order))
    bounds = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    return pa.ListArray.from_arrays(bounds, both, type=HEADERS)


def partitioned_by_identity(_: str, columns: pa.RecordBatch, partition_count: int) -> npt.NDArray[np.int32]:
    """A column partitioner for the producer: by key, and by identity for rows without a key."""
    by_identity = key_partition_column(_last_values(columns.column("headers")), partition_count)
    if "key" not in columns.schema.names:
        return by_identity.to_numpy()  # type: ignore[no-any-return]
    by_key = key_partition_column(columns.column("key"), partition_count)
    return pc.coalesce(by_key, by_identity).to_numpy()  # type: ignore[no-any-return]


def _last_values(headers: pa.Array) -> pa.Array:
    """The identity of each row; null for rows without one."""
    ends = np.asarray(headers.offsets)[1:].astype(np.int64)
    starts = np.asarray(headers.offsets)[:-1]
    at = pa.array(ends - 1, mask=ends == starts)
    pairs = headers.values
    names, values = pairs.field("key").take(at), pairs.field("value").take(at)
    return pc.if_else(pc.fill_null(pc.equal(names, NAME), False), values, pa.scalar(None, pa.binary()))  # noqa: FBT003


class RepeatFilter:
    """Remembers the identities seen in one partition. Belongs to one task."""

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}  # writer → the order of its last row

    def first_seen(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records that are not repeats; records without an identity are kept."""
        parts = _parts(_last_values(records.column("headers")))
        if parts is None:
            return records
        writers, orders, rows = parts
        keep = np.ones(records.num_rows, bool)
        names, codes = np.unique(writers, return_inverse=True)
        for code, name in enumerate(names.tolist()):
            own = codes == code
            keep[rows[own]] = self._news(name, orders[own])
        return records if keep.all() else records.filter(pa.array(keep))

    def _news(self, writer: bytes, orders: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        highest = np.maximum.accumulate(np.concatenate([[self._last.get(writer, -1)], orders]))
        self._last[writer] = int(highest[-1])
        return orders > highest[:-1]


def _parts(
    identities: pa.Array,
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """(writer, order among its rows, row number) of each row with an identity; None if there are no such
    rows.
    """
    if identities.null_count == len(identities):
        return None
    parts = pc.extract_regex(identities, _PARTS)
    rows = np.flatnonzero(parts.is_valid().to_numpy(zero_copy_only=False))
    if not len(rows):
        return None
    parts = parts.take(pa.array(rows))
    epoch, index = (
        parts.field(name).cast(pa.string()).cast(pa.int64()).to_numpy() for name in ("epoch", "index")
    )
    writers = pc.binary_join_element_wise(parts.field("writer"), parts.field("partition"), b"/")
    return writers.to_numpy(zero_copy_only=False), (epoch << INDEX_BITS) | index, rows
