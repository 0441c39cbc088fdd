"""Rows are found as a loop over them finds them: at borders, among nulls, in slices, empty."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.query.json_fields import field_columns, json_fields
from ottla.query.needles import rows_containing, rows_equal

CELLS = st.lists(st.none() | st.text("ab", max_size=6).map(str.encode), max_size=30)
NEEDLE = st.text("ab", max_size=4).map(str.encode)


@given(CELLS, NEEDLE, st.integers(0, 5))
def test_rows_that_equal(cells: list[bytes | None], needle: bytes, first: int) -> None:
    column = pa.array(cells, pa.binary()).slice(first)
    wanted = [row for row, cell in enumerate(cells[first:]) if cell == needle]
    assert rows_equal(column, needle).tolist() == wanted


@given(CELLS, st.lists(NEEDLE, min_size=1, max_size=3), st.integers(0, 5))
def test_rows_that_contain_one_of_several(
    cells: list[bytes | None], needles: list[bytes], first: int
) -> None:
    column = pa.array(cells, pa.binary()).slice(first)
    wanted = [
        row
        for row, cell in enumerate(cells[first:])
        if not all(needles) or (cell is not None and any(needle in cell for needle in needles))
    ]
    assert rows_containing(column, needles).tolist() == wanted


def test_fields_of_json_values_and_their_types() -> None:
    values = [
        b'{"user": "ann", "amount": 3, "price": 1, "paid": true, "tags": [1], "odd": 1}',
        b'{"user": null, "amount": 4, "price": 1.5, "address": {"zip": 1}, "odd": "one"}',
        b"not JSON",
        None,
    ]
    assert json_fields(values) == {
        "user": "VARCHAR",
        "amount": "BIGINT",
        "price": "DOUBLE",
        "paid": "BOOLEAN",
        "tags": "JSON",
        "odd": "VARCHAR",
        "address": "JSON",
    }
    assert json_fields([b"text", b"{}"]) == {}, "half of them is not most"
    assert json_fields([b"[1]", b"3", b"{"]) == {}
    assert json_fields([]) == {}


def test_a_field_named_like_a_column_of_records_is_not_a_column_of_its_own() -> None:
    (column,) = field_columns({"Key": "VARCHAR", "a'b": "VARCHAR"}, ["key"])
    assert column.endswith('as "a\'b"')
