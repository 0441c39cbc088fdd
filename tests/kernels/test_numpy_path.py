"""The NumPy path against the kernels: the same arguments, then everything that a caller reads is compared.

Every call that `records` makes while a test runs goes to both, each with its own outputs, so that arguments
are the real ones. The kernels run compiled, or as plain Python under NUMBA_DISABLE_JIT=1 and
OTTLA_KERNELS=numpy; checksums are left to the caller in all cases, as the NumPy path does it.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable, Iterator
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
    compiled,
    kernel,
    layout,
    numpy_bytes,
    numpy_decode,
    numpy_encode,
    numpy_hashes,
    numpy_headers,
    numpy_messages,
    numpy_path,
)
from ottla.kernels.layout import (
    BAD_FIELD,
    BAD_HEADER,
    FULL,
    OK,
    VERIFY_LATER,
    VERIFY_NOTHING,
)
from ottla.model.errors import CorruptRecord, LocalProtocolError
from ottla.producer.partitioners import by_partition
from ottla.records import builder, entries, hashes
from ottla.records.columns import HeaderColumns, HeaderSpans, RecordColumns
from ottla.records.compression import Codec
from ottla.records.hashes import java_hash_column, murmur2_column
from ottla.records.inputs import binary_input
from ottla.records.reader import decode
from ottla.records.slabs import SlabPool
from ottla.wire.api.fetch import AbortedTransaction
from tests.naive import hashes as naive
from tests.naive.record_set import batch, marker, message, record, varint, wrapper
from tests.naive.strategies import ABORTED, HEADERS, TIMESTAMPS, VALUES, record_sets

Array = npt.NDArray[Any]

SEED = 20240817
MUTATIONS = 600 if kernel.JIT else 100
POOL = SlabPool(reserve_bytes=1 << 20)


# ---- both at once


def same(one: Any, other: Any, what: str) -> None:
    assert np.array_equal(one, other), f"{what}: {one} by the kernel, {other} by NumPy"


def copied(array: Array | None) -> Array | None:
    return None if array is None else array.copy()


def part(slab: Array, parts: Array, index: int, count: int, kind: str) -> Array:
    start = int(parts[index])
    return slab[start : start + count * np.dtype(kind).itemsize].view(kind)


def same_binary(one: Array, other: Array, parts: Array, first: int, rows: int, data_bytes: int) -> None:
    for index, count, kind in ((first, rows + 1, "i4"), (first + 2, data_bytes, "u1")):
        same(part(one, parts, index, count, kind), part(other, parts, index, count, kind), f"part {index}")


def same_validity(one: Array, other: Array, parts: Array, index: int, rows: int) -> None:
    bits = [
        np.unpackbits(part(slab, parts, index, (rows + 7) // 8, "u1"), bitorder="little")[:rows]
        for slab in (one, other)
    ]
    same(*bits, f"validity {index}")


def scan_entries(
    data: Array, at: int, end: int, source: int, verify: int, table: Array, progress: Array, summary: Array
) -> int:
    mine = [table.copy(), progress.copy(), summary.copy()]
    status = compiled.scan_entries(data, at, end, source, verify, table, progress, summary)
    same(status, numpy_path.scan_entries(data, at, end, source, verify, *mine), "status")
    same(progress, mine[1], "progress")
    same(summary, mine[2], "summary")
    rows = int(progress[0])
    same(table[:rows], mine[0][:rows], "table")
    if status not in (OK, FULL):
        place = [layout.ENTRY, layout.BASE_OFFSET, layout.LAST_OFFSET]
        same(table[rows, place], mine[0][rows, place], "damaged entry")
    return int(status)


def summarize_entries(table: Array, summary: Array) -> None:
    mine = summary.copy()
    compiled.summarize_entries(table, summary)
    numpy_path.summarize_entries(table, mine)
    same(summary, mine, "summary")


def decoding(name: str) -> Callable[..., int]:
    def both(*arguments: Any) -> int:
        *inputs, slab, parts, header_at, header_stop, state = arguments
        mine = [slab.copy(), parts, copied(header_at), copied(header_stop), state.copy()]
        status = getattr(compiled, name)(*arguments)
        same(status, getattr(numpy_path, name)(*inputs, *mine), "status")
        same(state, mine[4], "state")
        rows, key_bytes, value_bytes, *_ = state.tolist()
        for index, kind in enumerate(("i8", "i8", "i1")):
            same(
                part(slab, parts, index, rows, kind), part(mine[0], parts, index, rows, kind), f"part {index}"
            )
        if rows:
            same_binary(slab, mine[0], parts, layout.KEY_ENDS_AT, rows, key_bytes)
            same_binary(slab, mine[0], parts, layout.VALUE_ENDS_AT, rows, value_bytes)
            same_validity(slab, mine[0], parts, layout.KEY_VALID_AT, rows)
            same_validity(slab, mine[0], parts, layout.VALUE_VALID_AT, rows)
        if header_at is not None:
            same(header_at[:rows], mine[2][:rows], "header_at")
            same(header_stop[:rows], mine[3][:rows], "header_stop")
        return int(status)

    return both


def decode_headers(*arguments: Any) -> int:
    *inputs, rows, capacity, slab, parts, state = arguments
    mine = [slab.copy(), parts, state.copy()]
    status = compiled.decode_headers(*arguments)
    same(status, numpy_path.decode_headers(*inputs, rows, capacity, *mine), "status")
    same(state, mine[2], "state")
    headers, key_bytes, value_bytes, *_ = state.tolist()
    records = rows if status == OK else int(state[layout.FAILED_ROW])
    same(part(slab, parts, 0, records + 1, "i4"), part(mine[0], parts, 0, records + 1, "i4"), "lists")
    same_binary(slab, mine[0], parts, layout.HEADER_KEY_ENDS_AT, headers, key_bytes)
    same_binary(slab, mine[0], parts, layout.HEADER_VALUE_ENDS_AT, headers, value_bytes)
    same_validity(slab, mine[0], parts, layout.HEADER_VALUE_VALID_AT, headers)
    return int(status)


def encode_batches(*arguments: Any) -> int:
    *inputs, out, table, progress = arguments
    mine = [out.copy(), table.copy(), progress.copy()]
    status = compiled.encode_batches(*arguments)
    same(status, numpy_path.encode_batches(*inputs, *mine), "status")
    same(progress, mine[2], "progress")
    if status == OK:
        count = int(progress[0])
        same(table[:count], mine[1][:count], "table")
        end = int(table[count - 1, layout.ENCODED_END]) if count else 0
        same(out[:end], mine[0][:end], "out")
    return int(status)


def encode_messages(*arguments: Any) -> int:
    *inputs, out, progress = arguments
    mine = [out.copy(), progress.copy()]
    status = compiled.encode_messages(*arguments)
    same(status, numpy_path.encode_messages(*inputs, *mine), "status")
    same(progress, mine[1], "progress")
    if status == OK:
        same(out[: progress[0]], mine[0][: progress[0]], "out")
    return int(status)


def hashing(name: str) -> Callable[..., None]:
    def both(ends: Array, data: Array, out: Array) -> None:
        mine = out.copy()
        getattr(compiled, name)(ends, data, out)
        getattr(numpy_path, name)(ends, data, mine)
        same(out, mine, name)

    return both


def key_partitions(*arguments: Any) -> None:
    *inputs, out = arguments
    mine = out.copy()
    compiled.key_partitions(*inputs, out)
    numpy_path.key_partitions(*inputs, mine)
    same(out, mine, "key_partitions")


def rows_by_partition(chosen: Array, reach: Array, *outputs: Array) -> None:
    mine = [array.copy() for array in outputs]
    compiled.rows_by_partition(chosen, reach, *outputs)
    numpy_path.rows_by_partition(chosen, reach, *mine)
    for name, own, other in zip(("starts", "order", "reach_placed"), outputs, mine, strict=True):
        same(own, other, name)


def ends_ascend(ends: npt.NDArray[np.int32]) -> bool:
    answer = bool(compiled.ends_ascend(ends))
    assert bool(numpy_path.ends_ascend(ends)) == answer
    return answer


BOTH: dict[str, Callable[..., Any]] = {
    "ends_ascend": ends_ascend,
    "scan_entries": scan_entries,
    "summarize_entries": summarize_entries,
    "decode_batches": decoding("decode_batches"),
    "decode_messages": decoding("decode_messages"),
    "decode_headers": decode_headers,
    "encode_batches": encode_batches,
    "encode_messages": encode_messages,
    "murmur2_column": hashing("murmur2_column"),
    "java_hash_column": hashing("java_hash_column"),
    "key_partitions": key_partitions,
    "rows_by_partition": rows_by_partition,
}


@pytest.fixture(autouse=True, scope="module")
def _both() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, function in BOTH.items():
            patch.setattr(kernels, name, function)
        patch.setattr(entries, "VERIFY", VERIFY_LATER)
        patch.setattr(builder, "VERIFY", VERIFY_LATER)
        yield


@pytest.fixture(scope="module", params=["usual chunks", "tiny chunks"], autouse=True)
def _chunks(request: pytest.FixtureRequest) -> Iterator[str]:
    """With tiny chunks, small inputs meet every way of copying, and every boundary."""
    if request.param == "usual chunks":
        yield request.param
        return
    with pytest.MonkeyPatch.context() as patch:
        for module in (numpy_decode, numpy_messages, numpy_headers, numpy_encode):
            patch.setattr(module, "CHUNK_RECORDS", 3)
        patch.setattr(numpy_bytes, "BLOCK_BYTES", 64)
        patch.setattr(numpy_bytes, "LARGE_PIECE_BYTES", 48)
        patch.setattr(numpy_hashes, "FEW_KEYS", 2)
        patch.setattr(numpy_hashes, "CHUNK_BYTES", 16)
        yield request.param


@pytest.fixture
def usual_chunks(_chunks: str) -> None:
    """For tests that are about size."""
    if _chunks != "usual chunks":
        pytest.skip("with usual chunks only")


def read(data: bytes, **options: Any) -> int:
    """Decode with and without headers, and ignore what the answer is; tells how many records there were."""
    rows = 0
    for headers in (False, True):
        with suppress(CorruptRecord):
            rows = decode(data, headers=headers, pool=POOL, **options).batch.num_rows
    return rows


def test_both_paths_offer_the_same_names() -> None:
    assert sorted(numpy_path.__all__) == sorted(compiled.__all__) == sorted([*BOTH, "CRC32C_IN_KERNEL"])
    assert numpy_path.CRC32C_IN_KERNEL is False


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
        message(1, 72, None, b"w", timestamp=5, attributes=layout.LOG_APPEND_TIME),
        message(1, 73, b"", None),
        marker(1, base_offset=74, kind=0),
        batch([record(0, b"a", b"b")], base_offset=75, attributes=layout.LOG_APPEND_TIME, max_timestamp=9),
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
    for size in range(layout.BATCH_OVERHEAD, len(data)):
        cut = bytearray(data[:size])
        struct.pack_into(">i", cut, 8, size - layout.ENTRY_OVERHEAD)
        for count in (0, 1, 2, 3):
            struct.pack_into(">i", cut, 57, count)
            read(good + bytes(cut) + good, verify_crc=False)


def test_messages_that_end_at_every_byte_by_their_own_account() -> None:
    for magic in (0, 1):
        good = message(magic, 5, b"key", b"value")
        for size in range(layout.ENTRY_OVERHEAD, len(good)):
            cut = bytearray(good[:size])
            struct.pack_into(">i", cut, 8, size - layout.ENTRY_OVERHEAD)
            read(good + bytes(cut) + good, verify_crc=False)


def test_sizes_that_messages_claim() -> None:
    for magic, body_at in ((0, layout.LEGACY_BODY_AT_V0), (1, layout.LEGACY_BODY_AT_V1)):
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
    for attributes in (0, layout.LOG_APPEND_TIME):
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
            body = hostile_record(*case, tail)  # type: ignore[arg-type]
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
    room = np.empty(2, np.int64), np.empty(6, np.int64)
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


# ---- the encode


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
        pieces.append(builder.Piece(records, picks, count, records.bytes_max, 7))
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
        builder.Piece(records, builder.NO_PICKS, records.count, records.bytes_max, 0)
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
    rows = [(b"k", b"v" * 30, 1000 + n, []) for n in range(8)]
    rows[5] = (b"k", b"v", bad, [])
    for batch_bytes in (1, 150, 1 << 20):
        with pytest.raises(LocalProtocolError, match="record 5 "):
            builder.encode(table_of(rows), batch_bytes=batch_bytes, pool=POOL)  # type: ignore[arg-type]


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
    rows = [(b"k" * n, b"v" * 30, 1000 * n, []) for n in range(5)]
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
    kernels.java_hash_column(ends, entries.read_only(b"".join(texts)), np.zeros(len(texts), np.int32))
