"""Which batches a reader of committed data sees, against the oracle and by hand."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.compression import Codec
from ottla.records.entries import read_only, scan
from ottla.records.transactions import visible
from ottla.wire.api.fetch import AbortedTransaction
from tests.naive.comparison import assert_agreement
from tests.naive.record_set import batch, marker, message, record

ABORT, COMMIT = 0, 1


def data_of(
    producer_id: int, base_offset: int, *, transactional: bool = True, codec: Codec = Codec.NONE
) -> bytes:
    rows = [record(n, b"p%d" % producer_id, b"v") for n in range(2)]
    attributes = 0x10 if transactional else 0
    return batch(rows, base_offset=base_offset, attributes=attributes, producer_id=producer_id, codec=codec)


def delivered(data: bytes, *aborted: tuple[int, int]) -> list[int]:
    outcome = assert_agreement(data, aborted=aborted)
    assert outcome.damage is None
    return [one.offset for one in outcome.records]


def test_markers_are_never_delivered_but_take_their_offset() -> None:
    data = data_of(1, 0) + marker(1, base_offset=2, kind=COMMIT)
    assert delivered(data) == [0, 1]
    assert assert_agreement(data).next_offset == 3
    assert assert_agreement(marker(1, base_offset=7, kind=ABORT)).next_offset == 8


def test_an_aborted_transaction_is_hidden_up_to_its_marker() -> None:
    data = data_of(1, 0) + data_of(1, 2) + marker(1, base_offset=4, kind=ABORT) + data_of(1, 5)
    assert delivered(data, (0, 1)) == [5, 6]
    assert assert_agreement(data, aborted=[(0, 1)]).next_offset == 7
    assert delivered(data) == [0, 1, 2, 3, 5, 6]


def test_a_transaction_is_hidden_from_its_first_offset_on() -> None:
    data = (
        data_of(1, 0)
        + marker(1, base_offset=2, kind=COMMIT)
        + data_of(1, 3)
        + marker(1, base_offset=5, kind=ABORT)
    )
    assert delivered(data, (3, 1)) == [0, 1]


def test_producers_do_not_hide_each_other() -> None:
    data = (
        data_of(1, 0) + data_of(2, 2) + data_of(1, 4) + marker(1, base_offset=6, kind=ABORT) + data_of(2, 7)
    )
    assert delivered(data, (0, 1)) == [2, 3, 7, 8]


def test_a_producer_may_abort_several_times() -> None:
    data = b"".join(data_of(1, 3 * n) + marker(1, base_offset=3 * n + 2, kind=n % 2) for n in range(4))
    assert delivered(data, (0, 1), (6, 1)) == [3, 4, 9, 10]


def test_what_is_not_transactional_is_never_hidden() -> None:
    data = data_of(1, 0, transactional=False) + data_of(1, 2) + message(1, 4, b"k", b"v", attributes=0x30)
    assert delivered(data, (0, 1)) == [0, 1, 4]


def test_a_commit_marker_ends_nothing_that_was_aborted() -> None:
    data = data_of(1, 0) + marker(1, base_offset=2, kind=COMMIT) + data_of(1, 3)
    assert delivered(data, (0, 1)) == []


def test_the_order_of_the_list_does_not_matter() -> None:
    data = (
        data_of(1, 0)
        + data_of(2, 2)
        + marker(2, base_offset=4, kind=ABORT)
        + marker(1, base_offset=5, kind=ABORT)
    )
    assert delivered(data, (2, 2), (0, 1)) == delivered(data, (0, 1), (2, 2)) == []


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_a_hidden_batch_is_not_even_decompressed(codec: Codec) -> None:
    data = bytearray(data_of(1, 0, codec=codec))
    body = data[61:]
    broken = batch([bytes(len(body))], attributes=0x10 | codec, producer_id=1, count=9)
    assert delivered(broken + data_of(2, 9), (0, 1)) == [9, 10]
    assert assert_agreement(broken + data_of(2, 9)).raised


@pytest.mark.parametrize(
    "key",
    [None, b"", b"\0\0\0", struct.pack(">hh", 0, 2), struct.pack(">hh", 0, -1), struct.pack(">hh", 5, 1)],
    ids=repr,
)
def test_a_control_record_that_is_no_abort_marker_ends_no_transaction(key: bytes | None) -> None:
    control = batch([record(0, key, b"")], base_offset=2, attributes=0x30, producer_id=1)
    assert delivered(data_of(1, 0) + control + data_of(1, 3), (0, 1)) == []


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"\xff" * 20, b"\0" * 3, b"\x0c\0\0\0\x08\0\0"], ids=bytes.hex
)
def test_a_control_batch_of_any_bytes_is_passed(body: bytes) -> None:
    control = batch([body], base_offset=2, attributes=0x30, producer_id=1)
    assert delivered(data_of(1, 0) + control + data_of(1, 3), (0, 1)) == []
    assert delivered(control + data_of(1, 3)) == [3, 4]


def test_visibility_is_told_for_each_entry() -> None:
    data = data_of(1, 0) + marker(1, base_offset=2, kind=ABORT) + message(0, 3, b"k", b"v")
    entries = scan(read_only(data), verify_crc=True)
    assert visible(entries.table, entries.data, []).tolist() == [True, False, True]
    hidden = visible(entries.table, entries.data, [AbortedTransaction(first_offset=0, producer_id=1)])
    assert hidden.dtype == np.bool_
    assert hidden.tolist() == [False, False, True]


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["data", "plain", "abort", "commit"]), st.integers(0, 2)), max_size=12
    ),
    aborted=st.lists(st.tuples(st.integers(0, 25), st.integers(0, 2)), max_size=4),
)
def test_any_history_is_seen_as_the_oracle_sees_it(
    steps: list[tuple[str, int]], aborted: list[tuple[int, int]]
) -> None:
    parts, offset = [], 0
    for kind, producer_id in steps:
        if kind in ("abort", "commit"):
            parts.append(marker(producer_id, base_offset=offset, kind=ABORT if kind == "abort" else COMMIT))
            offset += 1
        else:
            parts.append(data_of(producer_id, offset, transactional=kind == "data"))
            offset += 2
    outcome = assert_agreement(b"".join(parts), aborted=aborted)
    assert outcome.next_offset == offset
