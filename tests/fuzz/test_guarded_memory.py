"""Kernels on memory that ends at a guard page: one byte too far, and the process would be gone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import kernels
from ottla.records.builder import encode
from ottla.records.compression import Codec
from ottla.records.reader import decode
from tests.fuzz.guarded import SUPPORTED, GuardedPool, Region
from tests.naive import hashes
from tests.naive.strategies import VALUES, record_sets

MIB = 1 << 20
POOL = GuardedPool(slab_bytes=MIB)
REGIONS = [Region(MIB) for _ in range(4)]

READ_TOO_FAR = """
import ctypes
from tests.fuzz.guarded import Region
place = Region(100).tail(8)
ctypes.string_at(place.ctypes.data, {size})
print("alive")
"""


@pytest.mark.skipif(not SUPPORTED, reason="needs mprotect")
@pytest.mark.parametrize(("size", "survives"), [(8, True), (9, False)])
def test_one_byte_too_far_kills_the_process(size: int, survives: bool) -> None:
    """Else the other tests here would prove nothing."""
    command = [sys.executable, "-c", READ_TOO_FAR.format(size=size)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode == 0) is survives
    assert ("alive" in done.stdout) is survives


def guarded(values: list[bytes | None], ends: Region, data: Region) -> pa.Array:
    """A binary column whose offsets and bytes end at guard pages."""
    array = pa.array(values, pa.binary())
    valid, offsets, content = array.buffers()
    placed = [
        pa.py_buffer(region.holding(b"" if buffer is None else buffer.to_pybytes()[:size]))
        for region, buffer, size in (
            (ends, offsets, 4 * (len(values) + 1)),
            (data, content, sum(len(value or b"") for value in values)),
        )
    ]
    return pa.Array.from_buffers(pa.binary(), len(values), [valid, *placed], array.null_count)


@given(
    rows=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=20),
    batch_bytes=st.sampled_from([1, 100, 300, MIB]),
    codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
)
def test_encoding_stays_inside_its_arrays(
    rows: list[tuple[bytes | None, bytes | None]], batch_bytes: int, codec: Codec
) -> None:
    keys, values = ([row[place] for row in rows] for place in (0, 1))
    columns = pa.table({"key": guarded(keys, *REGIONS[:2]), "value": guarded(values, *REGIONS[2:])})
    for magic in (0, 1, 2):
        views = encode(columns, magic=magic, codec=codec, batch_bytes=batch_bytes, pool=POOL)
        found = decode(b"".join(views), pool=POOL).batch
        assert found.column("key").to_pylist() == keys
        assert found.column("value").to_pylist() == values


@given(data=record_sets(), headers=st.booleans())
def test_decoding_stays_inside_its_arrays(data: bytes, headers: bool) -> None:
    assert decode(REGIONS[0].holding(data), headers=headers, pool=POOL).valid_bytes == len(data)


@given(keys=st.lists(st.binary(max_size=20), min_size=1, max_size=9))
def test_hashing_stays_inside_its_arrays(keys: list[bytes]) -> None:
    ends = REGIONS[0].holding(np.cumsum([0, *map(len, keys)]).astype(np.int32).tobytes()).view(np.int32)
    data = REGIONS[1].holding(b"".join(keys))
    out = REGIONS[2].tail(4 * len(keys)).view(np.int32)
    arrays = [np.frombuffer(array.data.toreadonly(), array.dtype) for array in (ends, data)]
    kernels.path().murmur2_column(*arrays, out)
    assert out.tolist() == [hashes.murmur2(key) for key in keys]
    kernels.path().java_hash_column(*arrays, out)  # keys are not UTF-8: whatever the hash, it stays inside
