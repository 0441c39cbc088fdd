"""The NumPy path against the kernels: reading record sets, sound and damaged."""

from __future__ import annotations

import random
import struct
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernels import (
    compiled,
    kernel,
    layout,
    numpy_path,
)
from ottla.kernels.layout import BAD_FIELD, BAD_HEADER, OK, VERIFY_NOTHING
from ottla.model import record_layout
from ottla.records import builder, entries
from ottla.records.columns import HeaderColumns, HeaderSpans, RecordColumns
from ottla.records.compression import Codec
from ottla.wire.api.fetch import AbortedTransaction
from tests.kernels.two_paths import (
    BOTH,
    MUTATIONS,
    POOL,
    SEED,
    _both,
    _chunks,
    decode_headers,
    read,
    usual_chunks,
)
from tests.naive.record_set import batch, marker, message, record, varint, wrapper
from tests.naive.strategies import ABORTED, record_sets
from tests.scale import sized

pytestmark = pytest.mark.each_alone

__all__ = ["_both", "_chunks", "usual_chunks"]


def test_both_paths_offer_the_same_names() -> None:
    assert sorted(numpy_path.__all__) == sorted(compiled.__all__) == sorted([*BOTH, "VERIFY"])
    assert numpy_path.VERIFY == layout.VERIFY_LATER


# ---- sound record sets


@given(record_sets(), st.sampled_from([0, 0, 1, 4, 30]), ABORTED)
def test_record_sets_of_any_mixture(data: bytes, from_offset: int, aborted: list[tuple[int, int]]) -> None:
    read(
        data,
        from_offset=from_offset,
        aborted=[AbortedTransaction(first_offset=first, producer_id=producer) for first, producer in aborted],
    )


def test_an_empty_record_set() -> None:
    assert read(b"") == 0
    assert read(batch([])) == 0


def test_more_entries_than_a_table_holds() -> None:
    data = b"".join(message(0, n, None, b"v%d" % n) for n in range(100))
    assert read(data) == 100


def test_many_records_in_many_batches() -> None:
    rng = np.random.default_rng(SEED)
    count = 1000 if kernel.JIT else 300
    values = [rng.bytes(size) for size in rng.integers(0, 200, count)]
    columns = pa.record_batch(
        {
            "key": pa.array([None if n % 3 else b"%d" % n for n in range(count)], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array(rng.integers(0, 1 << 41, count)),
        }
    )
    for batch_bytes in (400, 16384, 1 << 20):
        data = b"".join(builder.encode(columns, batch_bytes=batch_bytes, pool=POOL))
        assert read(data) == count
        assert read(data, from_offset=count // 2) == count - count // 2


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_sources_that_alternate_between_raw_and_decompressed(codec: Codec) -> None:
    parts = []
    for n in range(6):
        records = [record(0, b"k", b"v" * n, headers=[(b"h", b"x" * n)]), record(1, None, None)]
        parts.append(batch(records, base_offset=4 * n, codec=codec if n % 2 else Codec.NONE))
        if codec is not Codec.ZSTD:
            inner = [message(1, 0, b"k", b"w" * n)]
            parts.append(wrapper(1, 4 * n + 2, inner, codec) if n % 2 else message(1, 4 * n + 2, None, b"w"))
    assert read(b"".join(parts)) == (12 if codec is Codec.ZSTD else 18)


# ---- damage


def small_set() -> bytes:
    """A little of everything, small enough to be cut at every byte."""
    records = [
        record(0, b"k", b"value" * 15, timestamp_delta=1000, headers=[(b"h", b"x"), (b"", None)]),
        record(1, None, b""),
        record(70, b"key" * 30, None, timestamp_delta=-(1 << 40)),
    ]
    parts = [
        message(0, 0, b"k", b"v"),
        batch(records, base_offset=1),
        message(1, 72, None, b"w", timestamp=5, attributes=record_layout.LOG_APPEND_TIME),
        message(1, 73, b"", None),
        marker(1, base_offset=74, kind=0),
        batch(
            [record(0, b"a", b"b")], base_offset=75, attributes=record_layout.LOG_APPEND_TIME, max_timestamp=9
        ),
    ]
    return b"".join(parts)


@pytest.mark.parametrize("verify_crc", [False, True])
def test_a_record_set_cut_at_every_byte(verify_crc: bool) -> None:
    data = small_set()
    for size in range(len(data)):
        read(data[:size], verify_crc=verify_crc)


def test_a_batch_that_ends_at_every_byte_by_its_own_account() -> None:
    good, data = batch([record(0, b"a", b"b")], base_offset=0), small_set()[27:]
    data = data[: struct.unpack_from(">i", data, 8)[0] + 12]
    for size in range(record_layout.BATCH_OVERHEAD, len(data)):
        cut = bytearray(data[:size])
        struct.pack_into(">i", cut, 8, size - record_layout.ENTRY_OVERHEAD)
        for count in sized((0, 3), (0, 1, 2, 3)):
            struct.pack_into(">i", cut, 57, count)
            read(good + bytes(cut) + good, verify_crc=False)


def test_messages_that_end_at_every_byte_by_their_own_account() -> None:
    for magic in (0, 1):
        good = message(magic, 5, b"key", b"value")
        for size in range(record_layout.ENTRY_OVERHEAD, len(good)):
            cut = bytearray(good[:size])
            struct.pack_into(">i", cut, 8, size - record_layout.ENTRY_OVERHEAD)
            read(good + bytes(cut) + good, verify_crc=False)


def test_sizes_that_messages_claim() -> None:
    for magic, body_at in ((0, record_layout.LEGACY_BODY_AT_V0), (1, record_layout.LEGACY_BODY_AT_V1)):
        good = message(magic, 5, b"key", b"value")
        for place in (body_at, body_at + 7):
            for claim in [*range(-3, 20), 1 << 30, (1 << 31) - 1, -(1 << 31)]:
                bad = bytearray(good)
                struct.pack_into(">i", bad, place, claim)
                read(bytes(bad), verify_crc=False)
                read(good + bytes(bad) + good, verify_crc=False)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_numbers_at_their_limits(sign: int, more: int) -> None:
    good = record(0, b"k", b"v")
    for attributes in (0, record_layout.LOG_APPEND_TIME):
        limit = sign * layout.TIMESTAMP_LIMIT + more
        read(batch([good], base_timestamp=limit, max_timestamp=limit, attributes=attributes))
    read(batch([good], base_offset=sign * layout.OFFSET_LIMIT + more))
    read(message(1, sign * layout.OFFSET_LIMIT + more, b"k", b"v", timestamp=(1 << 63) - 1))
    read(batch([good], last_delta=sign * 0x7FFFFFFF))
    read(batch([record((1 << 31) - 1 + more, b"k", b"v")]))


INTERESTING = [0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF]


def mutated(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(out))
        match rng.randrange(5):
            case 0:
                out[at] = rng.choice(INTERESTING)
            case 1:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                out[at : at + 4] = rng.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0" * 4])
            case 3:
                out[at : at + rng.randrange(10)] = b"\xff" * rng.randrange(1, 10)
            case _:
                del out[at : at + rng.randrange(1, 20)]
        if not out:
            return b""
    return bytes(out)


def test_mutations() -> None:
    rng = random.Random(SEED)
    data = small_set()
    for step in range(MUTATIONS):
        case = mutated(data, rng)
        try:
            read(case, verify_crc=False, from_offset=rng.choice([0, 0, 2, 72]))
        except BaseException:
            print(f"seed {SEED}, step {step}, {case.hex()}")  # noqa: T201
            raise


def test_mutations_inside_of_records() -> None:
    """Only the bytes behind the batch header change, so that the scan lets all of them through."""
    rng = random.Random(SEED + 1)
    good = batch([record(0, b"a", b"b")], base_offset=0)
    records = [record(n, b"k" * n, b"v" * (40 * n), headers=[(b"h%d" % n, b"x")] * (n % 3)) for n in range(5)]
    for step in range(MUTATIONS):
        body = mutated(b"".join(records), rng)
        case = batch([body], base_offset=1, count=rng.choice([5, 5, 5, 4, 6]))
        try:
            read(good + case + good)
        except BaseException:
            print(f"seed {SEED + 1}, step {step}, {case.hex()}")  # noqa: T201
            raise


MANY = 100_000
HUGE = [-1, -2, 2, 64, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 62) - 1, -(1 << 62)]


def hostile_record(length: int | None, offset: int, key: int, value: int, headers: int, tail: bytes) -> bytes:
    """A record whose sizes are claims; what is claimed is not there."""
    fields = (0, offset, key, value, headers)
    body = b"\0" + b"".join(map(varint, fields)) + tail
    return varint(len(body) if length is None else length) + body


def many_headers(count: int) -> bytes:
    """A record of nothing but headers of two bytes each."""
    body = b"\0\0\0\x01\x01" + varint(count) + b"\0\x01" * count
    return varint(len(body)) + body


@pytest.mark.parametrize("claim", HUGE)
def test_claims_that_the_bytes_do_not_hold(claim: int) -> None:
    honest: list[int | None] = [None, 0, 0, 0, 0]
    cases = [[*honest[:place], claim, *honest[place + 1 :]] for place in range(5)]
    for case in cases:
        for tail in (b"", b"abcdef"):
            body = hostile_record(*case, tail)  # type: ignore[arg-type, call-arg]
            for count in (1, 2, 7, (1 << 31) - 1):
                read(batch([record(0, b"k", b"v"), body], count=count))


def test_varints_of_every_length() -> None:
    good = record(0, b"k", b"v")
    endless = [b"\x80" * size for size in (8, 9, 10)]
    for longer in [*endless, *(b"\x80" * (size - 1) + b"\0" for size in range(1, 12))]:
        # Ahead of the record as its length, then as its time, offset and key size.
        read(batch([longer, good]))
        for before in (1, 2, 3):
            body = b"\0" + b"\0" * (before - 1) + longer + b"\0" * (5 - before)
            read(batch([varint(len(body)) + body, good], count=2))


def test_fields_of_many_values_at_a_time() -> None:
    """As Avro reads them: varints and pieces at positions of any bytes, also past their ends."""
    chance = np.random.default_rng(SEED)
    data = chance.integers(0, 256, 4_000).astype(np.uint8)
    data[chance.integers(0, data.size, 300)] = 0xFF
    data.setflags(write=False)
    stop = np.sort(chance.integers(0, data.size + 1, 2_000))
    at = np.minimum(stop + 1, chance.integers(0, data.size + 2, stop.size))
    BOTH["varint_column"](data, at, stop, np.empty_like(at), np.empty_like(at))
    starts = stop[:-1]
    sizes = np.minimum(chance.integers(0, 40, starts.size), np.diff(stop))
    BOTH["piece_column"](data, starts, sizes, np.empty(int(sizes.sum()), np.uint8))


def test_header_counts_and_sizes_that_lie() -> None:
    def with_headers(tail: bytes) -> bytes:
        body = b"\0\0\0\x01\x01" + tail
        return varint(len(body)) + body

    tails = [
        varint(count) + varint(key) + b"h" + varint(value) + b"x" + more
        for count in (-1, 0, 1, 2, 3, (1 << 62) - 1)
        for key in (-2, -1, 0, 1, 2, 1 << 40)
        for value in (-2, -1, 0, 1, 2, 1 << 40)
        for more in (b"", b"\0\x01")
    ]
    tails += [varint(count) + varint(0) + varint(value) for count in (1, 2) for value in (-3, -2, -1, 0, 1)]
    good = record(0, b"k", b"v", headers=[(b"good", None)])
    for tail in tails:
        read(batch([good, with_headers(tail), good]))


def test_the_header_walk_checks_what_the_decode_has_checked_before() -> None:
    """Called with spans that no decode would answer."""
    rng = random.Random(SEED)
    raw = entries.read_only(bytes(rng.choice([0, 1, 2, 3, 4, 0x80, 0xFF]) for _ in range(200)))
    statuses = set()
    for _ in range(MUTATIONS):
        rows = rng.randrange(4)
        starts = sorted(rng.sample(range(180), rows))
        spans = HeaderSpans.of(rows)
        spans.start[:rows] = starts
        spans.stop[:rows] = [start + rng.randrange(0, 20) for start in starts]
        if rng.randrange(2):
            spans.stop[:rows] = [*starts[1:], 200][:rows]
        capacity = rng.randrange(5)
        columns = HeaderColumns(POOL, rows, capacity, 400)
        statuses.add(
            decode_headers(
                raw, raw[:0], *spans, rows, capacity, columns.slab, columns.part_array, columns.state
            )
        )
    assert statuses == {OK, BAD_HEADER}


def test_damage_in_a_large_batch_leaves_nothing_behind() -> None:
    good = [record(n, b"k", b"v" * n) for n in range(10)]
    for place in range(10):
        bad = [*good[:place], b"\x0e\0\0\0\x09\x01\x01\0", *good[place + 1 :]]
        read(batch(good) + batch(bad, base_offset=10) + batch(good, base_offset=20))


@pytest.mark.parametrize(
    ("body", "count", "rows", "headers"),
    [
        (b"\x0c\0\0\0\x01\x01\0" * MANY, MANY, MANY, 0),
        (many_headers(MANY), 1, 1, MANY),
        (b"\0" * MANY, (1 << 31) - 1, 0, 0),
    ],
    ids=["smallest records", "smallest headers", "a count without records"],
)
def test_memory_is_a_small_multiple_of_hostile_input(
    body: bytes, count: int, rows: int, headers: int, usual_chunks: None
) -> None:
    """Most objects for the least bytes; what callers allocate is not counted."""
    data = entries.read_only(batch([body], count=count))
    table = np.empty((1, layout.ENTRY_COLUMNS), np.int64)
    room = np.empty(2, np.int64), np.zeros(6, np.int64)
    numpy_path.scan_entries(data, 0, data.size, 0, VERIFY_NOTHING, table, *room)
    columns, spans = RecordColumns(POOL, rows, data.size), HeaderSpans.of(rows)
    lists = HeaderColumns(POOL, rows, headers, data.size)
    tracemalloc.start()
    try:
        status = numpy_path.decode_batches(
            data, data[:0], table, 0, 1, 0, columns.slab, columns.part_array, *spans, columns.state
        )
        numpy_path.decode_headers(
            data, data[:0], *spans, columns.rows, headers, lists.slab, lists.part_array, lists.state
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert status == (OK if rows else BAD_FIELD)
    assert columns.rows == rows
    assert lists.state[layout.ROWS] == headers
    assert peak < 4_000_000 + 4 * data.size
