"""One shape for what the reader and the oracle say of a record set, so that they can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from ottla.model.errors import CorruptRecord
from ottla.records import reader
from ottla.wire.api.fetch import AbortedTransaction
from tests.naive import record_set
from tests.naive.record_set import Record


class Outcome(NamedTuple):
    """`damage` is (offset, next offset) of the damaged entry; `raised` tells that nothing came before it."""

    records: list[Record]
    next_offset: int | None
    valid_bytes: int | None
    damage: tuple[int | None, int | None] | None
    raised: bool


def records_of(batch: pa.RecordBatch) -> list[Record]:
    """The rows of a decoded batch."""
    columns = [
        batch.column(0).to_pylist(),
        batch.column(1).cast(pa.int64()).to_pylist(),
        *(batch.column(index).to_pylist() for index in (2, 3, 4)),
    ]
    if batch.num_columns == 5:
        return [Record(*row) for row in zip(*columns, strict=True)]
    lists = batch.column(5).to_pylist()
    headers = [tuple((pair["key"], pair["value"]) for pair in pairs) for pairs in lists]
    return [Record(*row) for row in zip(*columns, headers, strict=True)]


def read(data: bytes, *, aborted: Iterable[tuple[int, int]] = (), **options: Any) -> Outcome:
    """What the reader says."""
    listed = [AbortedTransaction(first_offset=first, producer_id=producer) for first, producer in aborted]
    try:
        decoded = reader.decode(data, aborted=listed, **options)
    except CorruptRecord as error:
        return Outcome([], None, None, (error.offset, error.next_offset), raised=True)
    decoded.batch.validate(full=True)
    damage = decoded.damage and (decoded.damage.offset, decoded.damage.next_offset)
    return Outcome(
        records_of(decoded.batch), decoded.next_offset, decoded.valid_bytes, damage or None, raised=False
    )


def expected(data: bytes, *, decompressed_bytes_max: int = record_set.UNBOUNDED, **options: Any) -> Outcome:
    """What the oracle says."""
    try:
        result = record_set.decode(data, limit=decompressed_bytes_max, **options)
    except record_set.Damage as error:
        return Outcome([], None, None, (error.offset, error.next_offset), raised=True)
    damage = result.damage and (result.damage.offset, result.damage.next_offset)
    return Outcome(result.records, result.next_offset, result.valid_bytes, damage or None, raised=False)


def assert_agreement(data: bytes, **options: Any) -> Outcome:
    """The reader says what the oracle says; returns it."""
    got, wanted = read(data, **options), expected(data, **options)
    assert got == wanted, f"{bytes(data).hex()} {options}"
    return got
