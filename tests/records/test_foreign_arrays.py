"""Arrow arrays that pyarrow lets through and a kernel must not follow; arguments of other kinds."""

from __future__ import annotations

import gc
import struct
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from ottla import ConfigError
from ottla.records.builder import encode
from ottla.records.compression import Codec
from ottla.records.hashes import java_hash_column, murmur2_column
from ottla.records.reader import decode
from ottla.wire.api.fetch import AbortedTransaction


def binary_of(ends: list[int], data: bytes, kind: pa.DataType | None = None) -> pa.Array:
    """An array with these offsets: pyarrow looks at the first and the last only."""
    buffers = [None, pa.py_buffer(struct.pack(f"<{len(ends)}i", *ends)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind or pa.binary(), len(ends) - 1, buffers)


DAMAGED = {
    "beyond the data": [0, 2_000_000_000, 3],
    "backwards": [3, 0, 3],
    "negative": [0, -5, 3],
}


@pytest.mark.parametrize("ends", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("column", ["key", "value"])
def test_offsets_out_of_the_data_are_refused_by_name(ends: list[int], column: str) -> None:
    sound = pa.array([b"a", b"b"], pa.binary())
    columns = {"key": sound, "value": sound} | {column: binary_of(ends, b"abc")}
    for magic in (0, 1, 2):
        with pytest.raises(ConfigError, match=f"column '{column}' is damaged"):
            encode(pa.RecordBatch.from_pydict(columns), magic=magic)


@pytest.mark.parametrize("ends", DAMAGED.values(), ids=DAMAGED.keys())
def test_hashes_do_not_follow_offsets_out_of_the_data(ends: list[int]) -> None:
    with pytest.raises(ConfigError, match="is damaged"):
        murmur2_column(binary_of(ends, b"abc"))
    with pytest.raises(ConfigError, match="is damaged"):
        java_hash_column(binary_of(ends, b"abc", pa.string()))


def test_header_lists_out_of_the_headers_are_refused() -> None:
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    headers = pa.array([{"key": "a", "value": b"1"}], header)
    lists = pa.ListArray.from_arrays(pa.array([0, 500, 1], pa.int32()), headers)
    with pytest.raises(ConfigError, match="headers"):
        encode(pa.RecordBatch.from_pydict({"value": pa.array([b"v", b"w"]), "headers": lists}))


def test_header_keys_that_are_no_text_do_not_cost_many_times_their_size() -> None:
    count = 300_000
    header = b"\x04\xff\xfe\x01"  # a key of two bytes that is not UTF-8, a null value
    body = b"\x00\x00\x00\x01\x01" + _varint(count) + header * count
    records = _varint(len(body)) + body
    data = _batch(records)
    tracemalloc.start()
    decoded = decode(data, headers=True, verify_crc=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert decoded.batch.column("headers")[0][0]["key"].as_py() == "\ufffd\ufffd"
    assert peak < 32 * len(data)  # of slabs, mostly; as Python objects it was 57 times


def _varint(value: int) -> bytes:
    zigzag, out = value << 1, bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def _batch(records: bytes) -> bytes:
    size = 49 + len(records)
    return struct.pack(">qiibIhiqqqhii", 0, size, -1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1) + records


def test_a_reader_gets_past_a_limit_by_the_bytes_that_were_covered() -> None:
    """Also where all that used it up stands below the offset that was asked for."""
    rows = pa.table({"value": [b"v" * 1000] * 2000})
    data = memoryview(b"".join(encode(rows, codec=Codec.ZSTD, batch_bytes=100_000)))
    found: list[int] = []
    while data:
        decoded = decode(data, from_offset=1990, decompressed_bytes_max=200_000)
        assert decoded.valid_bytes > 0
        found += decoded.batch.column("offset").to_pylist()
        data = data[decoded.valid_bytes :]
    assert found == list(range(1990, 2000))


def test_a_fetch_responses_own_list_of_aborted_transactions_is_taken() -> None:
    data = b"".join(encode(pa.table({"value": [b"v"]}), codec="lz4"))
    listed = [
        AbortedTransaction(producer_id=1, first_offset=5),
        AbortedTransaction(producer_id=2, first_offset=3),
    ]
    for aborted in (None, [], listed):
        assert decode(data, aborted=aborted).batch.num_rows == 1


def test_a_decode_inside_a_decode_has_its_own_arena() -> None:
    """A finalizer may run at any allocation; what it decodes must not overwrite what is being decoded."""
    data = b"".join(encode(pa.table({"value": [b"outer" * 50] * 3000}), codec=Codec.LZ4, batch_bytes=20_000))
    other = b"".join(encode(pa.table({"value": [b"inner" * 50] * 3000}), codec=Codec.LZ4, batch_bytes=20_000))

    class Finalizer:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            decode(other)

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(5):
            Finalizer()
            found = decode(data).batch.column("value").to_pylist()
            assert found == [b"outer" * 50] * 3000
    finally:
        gc.set_threshold(*threshold)


@pytest.mark.parametrize("offset", [None, 1.5, 1 << 70])
def test_an_offset_that_is_none_is_refused(offset: object) -> None:
    with pytest.raises(ConfigError, match="from_offset"):
        decode(b"", from_offset=offset)  # type: ignore[arg-type]


def test_other_kinds_of_input_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="RecordBatch or Table, not as dict"):
        encode({"value": [b"v"]})
    with pytest.raises(ConfigError, match="contiguous"):
        decode(np.zeros(100, np.uint8)[::2])
    with pytest.raises(ConfigError, match="unknown compression 'brotli'"):
        encode(pa.table({"value": [b"v"]}), codec="brotli")


def test_offsets_do_not_run_out_of_what_a_record_set_can_say() -> None:
    from ottla.records.builder import Stamp

    with pytest.raises(ConfigError, match="base_offset"):
        encode(pa.table({"value": [b"v"] * 5}), stamp=Stamp(base_offset=(1 << 62) - 2))
