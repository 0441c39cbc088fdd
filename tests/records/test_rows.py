"""Columns as rows: once, in order, from where the last one stopped; cut short and asked about midway."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
import pytest

from ottla.model.errors import ConfigError
from ottla.records import rows
from ottla.records.messages import Message, MessageSet, TimestampType
from ottla.records.rows import RowMaker

COUNT = 10


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that ten rows are three blocks."""
    monkeypatch.setattr(rows, "BLOCK_ROWS", 4)


def batch(*, headers: bool = False) -> pa.RecordBatch:
    messages = [
        Message(b"v%d" % n if n % 4 else None, b"k%d" % n if n % 3 else None, 1000 + n, (("h", b"%d" % n),))
        for n in range(COUNT)
    ]
    (piece,) = MessageSet.of(messages, base_offset=100).decoded(headers=headers)
    return piece.batch


def offsets(found: pa.RecordBatch) -> list[int]:
    return found.column("offset").to_pylist()


def test_every_row_has_what_its_columns_have() -> None:
    columns = batch(headers=True)
    found = list(RowMaker("orders", 3).rows(columns))
    assert [(one.offset, one.key, one.value) for one in found] == list(
        zip(*(columns.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True)
    )
    assert [one.timestamp_ms for one in found] == [1000 + n for n in range(COUNT)]
    assert {(one.topic, one.partition, one.timestamp_type) for one in found} == {
        ("orders", 3, TimestampType.CREATE_TIME)
    }
    assert found[7].headers == (("h", b"7"),)
    assert found[4].message is None
    assert repr(found[5]) == "RawMessageAndMetadata(orders-3@105, key=b'k5', value=b'v5')"


def test_headers_that_were_not_read_are_no_empty_headers() -> None:
    row = next(iter(RowMaker("t", 0).rows(batch())))
    assert repr(row.headers) == "<not read>"
    for look in (bool, len, list, tuple, dict):
        with pytest.raises(ConfigError, match="include_headers=True"):
            look(row.headers)


def test_a_decoder_fails_at_its_row_and_the_next_row_is_sound() -> None:
    found = list(
        RowMaker("t", 0, value_deserializer=lambda data: int(data[1:]) // (int(data[1:]) - 5)).rows(batch())
    )
    with pytest.raises(ZeroDivisionError):
        _ = found[5].value
    assert [found[6].value, found[6].key, found[4].value] == [6, None, None]


def test_whoever_iterates_goes_on_where_the_last_one_stopped() -> None:
    made = RowMaker("t", 0).rows(batch())
    assert [one.offset for one in islice(made, 3)] == [100, 101, 102]
    assert offsets(made.rest()) == [*range(103, 110)]
    assert [one.offset for one in islice(made, 3)] == [103, 104, 105]
    assert [one.offset for one in made] == [106, 107, 108, 109]
    assert offsets(made.rest()) == []
    assert list(made) == []


@pytest.mark.parametrize("taken", [0, 3, 4, 9, 10])
def test_what_is_dropped_does_not_come(taken: int) -> None:
    made = RowMaker("t", 0).rows(batch())
    for _ in islice(made, taken):
        pass
    made.drop()
    assert list(made) == []
    assert offsets(made.rest()) == []


def test_the_rest_can_be_taken_as_columns() -> None:
    made = RowMaker("t", 0).rows(batch())
    assert [one.offset for one in islice(made, 5)] == [*range(100, 105)]
    assert offsets(made.take_rest()) == [*range(105, 110)]
    assert list(made) == []
    assert offsets(made.take_rest()) == []


@pytest.mark.parametrize("allowed", [0, 1, 4, 6, 9, 10])
def test_rows_end_at_a_shut_gate_and_continue_when_it_opens(allowed: int) -> None:
    left = [allowed]

    def gate(numbers: Iterator[int]) -> Iterator[int]:
        while left[0] and (number := next(numbers, None)) is not None:
            left[0] -= 1
            yield number

    made = RowMaker("t", 0, gate=gate).rows(batch())
    before = iter(made)
    assert [one.offset for one in before] == [*range(100, 100 + allowed)]
    assert offsets(made.rest()) == [*range(100 + allowed, 110)]
    assert list(made) == []
    left[0] = COUNT
    assert list(before) == [], "who holds the old iterator gets no row of the new one"
    assert [one.offset for one in made] == [*range(100 + allowed, 110)]


def test_a_slice_gives_its_rows() -> None:
    made = RowMaker("t", 0).rows(batch().slice(2, 5))
    assert [one.offset for one in made] == [102, 103, 104, 105, 106]
