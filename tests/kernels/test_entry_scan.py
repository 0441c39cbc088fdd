"""The scan: what it finds, where it stops, what it leaves to its caller."""

from __future__ import annotations

from typing import NamedTuple

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import kernels
from ottla.kernels import layout
from ottla.model import record_layout
from ottla.records.compression import Codec
from ottla.records.entries import Summary, read_only, scan, summarize
from tests.naive.record_set import batch, marker, message, record, wrapper
from tests.naive.strategies import record_sets
from tests.records.set_samples import mixed_set


class Scan(NamedTuple):
    status: int
    rows: int
    at: int
    table: np.ndarray
    summary: Summary


def scanned(
    data: bytes, *, at: int = 0, capacity: int = 64, verify: int | None = None, source: int = 0
) -> Scan:
    table = np.full((capacity, layout.ENTRY_COLUMNS), -99, np.int64)
    progress = np.full(2, -1, np.int64)
    summary = np.zeros(len(Summary._fields), np.int64)
    array = read_only(data)
    if verify is None:
        verify = kernels.path().VERIFY
    status = kernels.path().scan_entries(array, at, array.size, source, verify, table, progress, summary)
    return Scan(int(status), *progress.tolist(), table, Summary(*summary.tolist()))  # type: ignore[call-arg, arg-type]


def test_every_column_of_a_batch_is_filled() -> None:
    rows = [record(0, b"k", b"v"), record(4, b"k", b"v")]
    data = bytes(7) + batch(
        rows, base_offset=9, last_delta=5, base_timestamp=3, max_timestamp=8, attributes=0x18, producer_id=6
    )
    found = scanned(data, at=7, source=1)
    assert (found.status, found.rows, found.at) == (layout.OK, 1, len(data))
    row = dict(enumerate(found.table[0].tolist()))
    assert row == {
        layout.ENTRY: 7,
        layout.START: 7 + 61,
        layout.END: len(data),
        layout.SOURCE: 1,
        layout.MAGIC: 2,
        layout.ATTRIBUTES: 0x18,
        layout.BASE_OFFSET: 9,
        layout.LAST_OFFSET: 14,
        layout.BASE_TIMESTAMP: 3,
        layout.MAX_TIMESTAMP: 8,
        layout.COUNT: 2,
        layout.PRODUCER_ID: 6,
        layout.CRC: crc32c.crc32c(data[7 + 21 :]) if kernels.path().VERIFY == layout.VERIFY_LATER else -1,
    }


@pytest.mark.parametrize(("magic", "start", "timestamp"), [(0, 18, -1), (1, 26, 77)])
def test_every_column_of_a_message_is_filled(magic: int, start: int, timestamp: int) -> None:
    data = message(magic, 9, b"k", b"v", timestamp=77, attributes=0x08)
    row = scanned(data).table[0].tolist()
    assert row == [0, start, len(data), 0, magic, 8, 9, 9, timestamp, timestamp, 1, -1, -1]


def test_a_partial_entry_ends_the_scan_without_damage() -> None:
    first, second = message(0, 0, b"k", b"v"), batch([record(0)], base_offset=1)
    for length in range(len(second)):
        found = scanned(first + second[:length])
        assert (found.status, found.rows, found.at) == (layout.OK, 1, len(first))


def test_a_full_table_is_gone_on_from() -> None:
    data = b"".join(message(1, n, b"k", b"v") for n in range(7))
    at, offsets = 0, []
    while True:
        found = scanned(data, at=at, capacity=3)
        offsets += found.table[: found.rows, layout.BASE_OFFSET].tolist()
        at = found.at
        if found.status != layout.FULL:
            break
        assert found.rows == 3
    assert (offsets, at) == ([*range(7)], len(data))


def test_a_table_that_is_just_large_enough_is_not_full() -> None:
    data = b"".join(message(1, n, b"k", b"v") for n in range(3))
    assert scanned(data, capacity=3).status == layout.OK


def test_damage_leaves_its_place_behind_the_last_sound_row() -> None:
    sound, broken = message(0, 4, b"k", b"v"), bytearray(message(0, 5, b"k", b"v"))
    broken[-1] ^= 1
    found = scanned(sound + bytes(broken))
    assert (found.status, found.rows, found.at) == (layout.BAD_CRC, 1, len(sound))
    assert found.table[1, layout.ENTRY] == len(sound)
    assert found.table[1, [layout.BASE_OFFSET, layout.LAST_OFFSET]].tolist() == [5, 5]


def test_checksums_can_be_left_to_the_caller() -> None:
    broken = bytearray(batch([record(0, b"k")]))
    broken[-1] ^= 1
    found = scanned(bytes(broken), verify=layout.VERIFY_LATER)
    assert (found.status, found.summary.unverified) == (layout.OK, 1)
    assert found.table[0, layout.CRC] == int.from_bytes(broken[17:21], "big")
    ignored = scanned(bytes(broken), verify=layout.VERIFY_NOTHING)
    assert (ignored.status, ignored.summary.unverified, ignored.table[0, layout.CRC]) == (layout.OK, 0, -1)


@pytest.mark.skipif(kernels.path().VERIFY != layout.VERIFY_HERE, reason="CRC-32C is left to the library here")
def test_checksums_are_verified_inside_where_the_cpu_can() -> None:
    broken = bytearray(batch([record(0, b"k")]))
    broken[-1] ^= 1
    assert scanned(bytes(broken), verify=layout.VERIFY_HERE).status == layout.BAD_CRC
    assert scanned(batch([record(0, b"k")]), verify=layout.VERIFY_HERE).status == layout.OK


def test_the_summary_says_what_all_entries_say_together() -> None:
    inner = [message(1, n, b"k", b"v") for n in range(2)]
    data = (
        message(0, 0, b"k", b"v")
        + wrapper(1, 2, inner, Codec.GZIP)
        + batch([record(0), record(1)], base_offset=3, last_delta=6)
        + marker(1, base_offset=10, kind=0)
    )
    summary = scanned(data, verify=layout.VERIFY_NOTHING).summary
    assert (summary.next_offset, summary.formats, summary.attributes) == (11, 0b111, 0x31)
    assert summary.records == 1 + 1 + 2 + 1


def test_a_count_is_believed_as_far_as_the_bytes_can_hold_it() -> None:
    data = batch([record(0, b"k", b"v" * 20)], count=0x7FFFFFFF)
    assert scanned(data).summary.records == (len(data) - 61) // record_layout.RECORD_SIZE_MIN


def test_nothing_is_found_in_nothing() -> None:
    for length in range(12):
        found = scanned(bytes(length))
        assert (found.status, found.rows, found.at) == (layout.OK, 0, 0)
        assert found.summary == Summary(0, 0, 0, 0, 0, 0)


@given(data=record_sets(), verify=st.booleans())
def test_entries_lie_one_behind_the_other(data: bytes, verify: bool) -> None:
    entries = scan(read_only(data), verify_crc=verify)
    ends = entries.table[:, layout.END].tolist()
    assert entries.table[:, layout.ENTRY].tolist() == [0, *ends[:-1]][: len(ends)]
    assert entries.valid_bytes == len(data) == (ends[-1] if ends else 0)
    assert summarize(entries.table) == entries.summary


def test_the_table_grows_with_the_number_of_entries() -> None:
    data = mixed_set() * 20
    one = len(scan(read_only(mixed_set()), verify_crc=True).table)
    entries = scan(read_only(data), verify_crc=True)
    assert len(entries.table) == 20 * one
    assert summarize(entries.table) == entries.summary
