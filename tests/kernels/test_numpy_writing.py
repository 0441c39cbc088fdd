"""The NumPy path against the kernels: encoding, placing and hashing records."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ottla import kernels
from ottla.kernels import (
    layout,
)
from ottla.kernels.layout import BAD_FIELD, FULL, OK, VERIFY_LATER
from ottla.model.errors import LocalProtocolError
from ottla.producer.partitioners import by_partition
from ottla.records import builder, entries, hashes
from ottla.records.compression import Codec
from ottla.records.hashes import java_hash_column, murmur2_column
from ottla.records.inputs import binary_input
from tests.kernels.two_paths import (
    POOL,
    _both,
    _chunks,
    encode_batches,
    encode_messages,
    read,
)
from tests.naive import hashes as naive
from tests.naive.strategies import HEADERS, TIMESTAMPS, VALUES

__all__ = ["_both", "_chunks"]


ROWS = st.lists(st.tuples(VALUES, VALUES, TIMESTAMPS, HEADERS), max_size=12)


def table_of(rows: list[tuple[Any, Any, int, list[tuple[bytes, Any]]]]) -> pa.RecordBatch:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    lists = [[{"key": key.decode(), "value": value} for key, value in row[3]] for row in rows]
    return pa.record_batch(
        {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
            "timestamp": pa.array([row[2] for row in rows], pa.int64()),
            "headers": pa.array(lists, headers),
        }
    )


@given(ROWS, st.sampled_from([1, 62, 80, 150, 400, 1 << 20]), st.integers(0, 3))
def test_columns_into_batches_of_any_size(rows: list[Any], batch_bytes: int, skipped: int) -> None:
    columns = table_of(rows)[skipped:]  # a slice has its own first bit of validity
    stamp = builder.Stamp(7, producer_id=5, producer_epoch=3, base_sequence=0x7FFFFFFE, transactional=True)
    for chosen in (columns, columns.drop_columns("headers"), columns.select(["value"])):
        with suppress(LocalProtocolError):
            data = b"".join(builder.encode(chosen, batch_bytes=batch_bytes, stamp=stamp, pool=POOL))
            assert read(data) == chosen.num_rows


@given(st.lists(st.tuples(ROWS, st.integers(0, 3), st.integers(1, 3), st.integers(0, 2)), max_size=4))
def test_some_rows_of_several_tables_are_one_batch(
    tables: list[tuple[list[Any], int, int, int]],
) -> None:
    """The same bytes as all those rows in one table."""
    pieces, whole = [], []
    for rows, first, step, chosen in tables:
        columns = table_of(rows).select([["key", "value", "timestamp", "headers"], ["value"]][chosen > 0])
        picks = np.arange(first, len(rows), step) if chosen < 2 else builder.NO_PICKS
        count = len(picks) if chosen < 2 else len(rows)
        if not count:
            continue
        records = builder.Records.of(columns, 7)
        pieces.append(builder.EncodedPiece(records, picks, count, records.bytes_max, 7))
        taken = [rows[pick] for pick in picks] if chosen < 2 else rows
        whole += [row if chosen == 0 else (None, row[1], 7, []) for row in taken]
    if not pieces:
        return
    stamp = builder.Stamp(producer_id=5, producer_epoch=3, base_sequence=0x7FFFFFFE)
    with suppress(LocalProtocolError):
        batch = builder.encode_batch(pieces, codec=Codec.NONE, level=None, stamp=stamp, pool=POOL)
        assert batch == builder.encode(table_of(whole), stamp=stamp, batch_bytes=1 << 30, pool=POOL)[0]


@given(ROWS, ROWS, st.sampled_from([1, 62, 80, 150, 400]))
def test_a_batch_that_is_full_ends_within_a_call_and_between_calls(
    first: list[Any], second: list[Any], batch_bytes: int
) -> None:
    assume(first and second)
    pieces = [
        builder.EncodedPiece(records, builder.NO_PICKS, records.count, records.bytes_max, 0)
        for records in (builder.Records.of(table_of(rows), 0) for rows in (first, second))
    ]
    with suppress(LocalProtocolError):
        views = builder._encode_batches(pieces, batch_bytes, builder.PLAIN, builder.Numbering.LOG, POOL)
        whole = builder.encode(table_of(first + second), batch_bytes=batch_bytes, pool=POOL)
        assert views == whole


@given(ROWS, st.integers(0, 1), st.sampled_from([1, 100, 1 << 20]), st.integers(0, 3))
def test_columns_into_messages(rows: list[Any], magic: int, batch_bytes: int, skipped: int) -> None:
    columns = table_of(rows)[skipped:].drop_columns("headers")
    for chosen in (columns, columns.select(["value"])):
        data = b"".join(builder.encode(chosen, magic=magic, batch_bytes=batch_bytes, pool=POOL))
        assert read(data) == chosen.num_rows


def test_bytes_behind_a_null_are_not_written() -> None:
    """Arrow allows a null to have a range of bytes."""
    ends, data = np.array([0, 2, 5, 5, 9], np.int32), np.frombuffer(b"aabbbdddd", np.uint8)
    valid = np.array([0b1101], np.uint8)
    column = pa.Array.from_buffers(pa.binary(), 4, [pa.py_buffer(array) for array in (valid, ends, data)])
    columns = pa.record_batch({"key": column, "value": column})
    for magic in (0, 1, 2):
        encoded = b"".join(builder.encode(columns, magic=magic, pool=POOL))
        assert b"bbb" not in encoded
        assert read(encoded) == 4


@pytest.mark.parametrize("bad", [1 << 61, -(1 << 61), (1 << 63) - 1])
def test_a_timestamp_that_is_no_time_stops_both_at_the_same_row(bad: int) -> None:
    rows: list[tuple[Any, ...]] = [(b"k", b"v" * 30, 1000 + n, []) for n in range(8)]
    rows[5] = (b"k", b"v", bad, [])
    for batch_bytes in (1, 150, 1 << 20):
        with pytest.raises(LocalProtocolError, match="record 5 "):
            builder.encode(table_of(rows), batch_bytes=batch_bytes, pool=POOL)


def encode_arguments(rows: list[Any], batch_bytes: int) -> list[Any]:
    columns = builder.Records.of(table_of(rows), 0)
    stamp = np.array([0, 0, -1, -1, -1])
    return [
        columns.count,
        builder.NO_PICKS,
        *columns.key,
        *columns.value,
        columns.timestamps,
        0,
        *columns.header_arrays,
        batch_bytes,
        stamp,
        VERIFY_LATER,
        True,
    ]


def new_state() -> npt.NDArray[np.int64]:
    return np.zeros(layout.ENCODER_STATE_SIZE, np.int64)


def test_too_little_room_is_noticed_at_the_same_row() -> None:
    rows = [(b"k" * n, b"v" * 30, 1000 * n, [(b"h", None)] * (n % 3)) for n in range(9)]
    statuses = set()
    for batch_bytes in (1, 200, 1 << 20):
        arguments = encode_arguments(rows, batch_bytes)
        for size in range(0, 1400, 25):
            for batches in (0, 1, 3, 20):
                table = np.empty((batches, layout.ENCODED_COLUMNS), np.int64)
                out = np.empty(size, np.uint8)
                statuses.add(encode_batches(*arguments, out, table, new_state()))
    assert statuses == {OK, FULL}


def test_room_is_reckoned_to_the_byte() -> None:
    arguments = encode_arguments([(b"k", b"v", 0, []), (b"k", b"v", 1, [])], 1 << 20)
    for size in range(61, 200):
        table, progress = np.empty((2, layout.ENCODED_COLUMNS), np.int64), new_state()
        encode_batches(*arguments, np.empty(size, np.uint8), table, progress)


def test_too_little_room_for_messages() -> None:
    rows: list[tuple[Any, ...]] = [(b"k" * n, b"v" * 30, 1000 * n, []) for n in range(5)]
    columns = builder.Records.of(table_of(rows), 0)
    for magic in (0, 1):
        for size in range(0, 450, 10):
            encode_messages(
                columns.count,
                *columns.key,
                *columns.value,
                columns.timestamps,
                magic,
                3,
                np.empty(size, np.uint8),
                np.zeros(2, np.int64),
            )


def test_a_record_beyond_two_gigabytes_is_refused_without_reading_it() -> None:
    """By its ends alone; the bytes are not there, and nobody looks for them."""
    ends = np.frombuffer(struct.pack("=3i", 0, 10, 0x7FFFFFFF), np.int32)
    data = entries.read_only(b"v" * 10)
    arguments = encode_arguments([(b"", b"", 0, [])] * 2, 1 << 20)
    arguments[6:10] = ends, data, data[:0], 0
    out, table, progress = np.empty(1000, np.uint8), np.empty((2, 2), np.int64), new_state()
    assert encode_batches(*arguments, out, table, progress) == BAD_FIELD
    assert progress[1] == 1


# ---- placement


@given(st.lists(st.none() | st.binary(max_size=9), max_size=20), st.integers(0, 9), st.integers(1, 50))
def test_keys_are_placed_one_by_one(keys: list[bytes | None], skipped: int, partitions: int) -> None:
    column = pa.array(keys, pa.binary())[skipped:]
    placed = hashes.key_partitions(binary_input(column, "key"), len(column), partitions)
    wanted = [-1 if key is None else (naive.murmur2(key) & 0x7FFFFFFF) % partitions for key in keys[skipped:]]
    assert placed.tolist() == wanted
    assert hashes.key_partition_column(column, partitions).fill_null(-1).to_pylist() == wanted


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1000)), max_size=40), st.integers(-5, 5))
def test_rows_of_a_partition_come_together_in_their_order(rows: list[tuple[int, int]], base: int) -> None:
    chosen = np.array([partition for partition, _ in rows], np.int32)
    reach = base + np.cumsum([0, *(size for _, size in rows)])
    order, placed, runs = by_partition(chosen, reach, 7)
    assert [partition for partition, _, _ in runs] == sorted(set(chosen.tolist()))
    for partition, first, last in runs:
        own = [row for row, (one, _) in enumerate(rows) if one == partition]
        assert order[first:last].tolist() == own
        assert placed[first:last].tolist() == np.cumsum([rows[row][1] for row in own]).tolist()


# ---- hashes

KEYS = st.lists(st.none() | st.binary(max_size=40), max_size=20)
TEXTS = st.lists(st.none() | st.text(max_size=20), max_size=20)
CUT_TEXTS = st.lists(
    st.tuples(st.text(alphabet="aé€😀", max_size=6), st.integers(0, 6), st.integers(0, 24)).map(
        lambda cut: cut[0].encode()[cut[1] : cut[2]]
    ),
    max_size=12,
)


@given(KEYS, st.integers(0, 2))
def test_murmur2(keys: list[bytes | None], skipped: int) -> None:
    murmur2_column(pa.array(keys, pa.binary())[skipped:])


def test_murmur2_of_one_very_long_key_among_short_ones() -> None:
    keys = [bytes(range(256)) * 9 + b"x" * n if n == 7 else b"k" * (n % 40) for n in range(100)]
    murmur2_column(pa.array(keys, pa.binary()))


@given(TEXTS, st.integers(0, 2))
def test_java_hash(texts: list[str | None], skipped: int) -> None:
    java_hash_column(pa.array(texts, pa.string())[skipped:])


@given(CUT_TEXTS | st.lists(st.binary(max_size=8), max_size=10))
def test_java_hash_of_bytes_that_are_no_text(texts: list[bytes]) -> None:
    ends = np.frombuffer(np.cumsum([0, *map(len, texts)]).astype(np.int32).tobytes(), np.int32)
    kernels.path().java_hash_column(ends, entries.read_only(b"".join(texts)), np.zeros(len(texts), np.int32))
