"""How long what was decoded lives, and what threads share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from ottla.kernels import kernel
from ottla.records.compression import Codec
from ottla.records.reader import decode
from ottla.records.slabs import SlabPool
from tests.naive.comparison import expected, read, records_of
from tests.naive.record_set import (
    batch,
    record,
)
from tests.records.set_samples import records


def test_a_held_slice_stays_as_it_is_while_slabs_are_used_again() -> None:
    pool = SlabPool(reserve_bytes=1 << 20)
    data = batch(records(50), base_offset=3)
    held = decode(data, headers=True, pool=pool).batch.slice(20, 1)
    copy = pa.RecordBatch.from_pylist(held.to_pylist(), schema=held.schema)
    for n in range(100):
        other = batch([record(i, b"\xee" * 40, b"\xdd" * 90) for i in range(50)], base_offset=n)
        assert decode(other, headers=True, pool=pool).batch.num_rows == 50
    assert held.equals(copy)
    held.validate(full=True)


def test_a_held_column_keeps_what_a_dropped_batch_had() -> None:
    pool = SlabPool(reserve_bytes=1 << 20)
    values = decode(batch(records(50, size=30)), pool=pool).batch.column("value")
    for _ in range(20):
        decode(batch([record(i, b"\xee" * 40, b"\xdd" * 90) for i in range(50)]), pool=pool)
    assert values.to_pylist() == [None if n % 4 == 3 else b"v" * 30 for n in range(50)]


def test_decompressed_records_do_not_refer_to_the_arena() -> None:
    first = decode(batch([record(0, b"a" * 50, b"b" * 50)], codec=Codec.ZSTD)).batch
    decode(batch([record(0, b"c" * 50, b"d" * 50)], codec=Codec.ZSTD))
    assert first.column("value").to_pylist() == [b"b" * 50]


def test_the_record_set_may_be_overwritten_after_the_decode() -> None:
    data = bytearray(batch(records(5)))
    found = decode(data, headers=True).batch
    wanted = expected(bytes(data), headers=True).records
    data[:] = bytes(len(data))
    assert records_of(found) == wanted


def test_threads_do_not_disturb_each_other() -> None:
    rounds = 40 if kernel.JIT else 3
    sets = [
        b"".join(
            batch(records(30, size=n + 1), base_offset=30 * i, codec=list(Codec)[(n + i) % 5])
            for i in range(4)
        )
        for n in range(8)
    ]
    wanted = [expected(data, headers=True) for data in sets]

    def work(n: int) -> bool:
        return all(read(sets[n], headers=True) == wanted[n] for _ in range(rounds))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [True] * 8
