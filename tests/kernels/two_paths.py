"""Both paths at once: the same arguments, then everything that a caller reads is compared.

Every call that `records` makes while a test runs goes to both, each with its own outputs, so that arguments
are the real ones. The kernels run compiled, or as plain Python under NUMBA_DISABLE_JIT=1 and
OTTLA_KERNELS=numpy; checksums are left to the caller in all cases, as the NumPy path does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

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
from ottla.kernels.layout import FULL, OK, VERIFY_LATER
from ottla.kernels.tiers import TIERS
from ottla.model.errors import CorruptRecord
from ottla.records.reader import decode
from ottla.records.slabs import SlabPool
from tests.scale import sized

Array = npt.NDArray[Any]

SEED = 20240817
MUTATIONS = 600 if kernel.JIT else 100
POOL = SlabPool(reserve_bytes=1 << 20)


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
    same(bits[0], bits[1], f"validity {index}")


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


def expand_entries(*arguments: Any) -> int:
    """NumPy leaves every compressed entry to its caller; up to the first one, both do the same."""
    *inputs, expanded, state, summary = arguments
    mine = [expanded.copy(), state.copy(), summary.copy()]
    status = compiled.expand_entries(*arguments)
    numpy_path.expand_entries(*inputs, *mine)
    rows = int(mine[1][layout.EXPANDED_ROWS])
    same(expanded[:rows], mine[0][:rows], "rows up to what is compressed")
    return int(status)


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
    same(status, numpy_path.decode_headers(*inputs, rows, capacity, *mine), "status")  # type: ignore[call-arg]
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
    compiled.key_partitions(*inputs, out)  # type: ignore[call-arg]
    numpy_path.key_partitions(*inputs, mine)  # type: ignore[call-arg]
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


def varint_column(data: Array, at: Array, stop: Array, values: Array, after: Array) -> None:
    compiled.varint_column(data, at, stop, values, after)
    others, others_after = np.empty_like(values), np.empty_like(after)
    numpy_path.varint_column(data, at, stop, others, others_after)
    failed = after > stop
    same(failed, others_after > stop, "failures")
    same(values[~failed], others[~failed], "values")
    same(after[~failed], others_after[~failed], "positions")


def piece_column(data: Array, starts: Array, sizes: Array, out: Array) -> None:
    compiled.piece_column(data, starts, sizes, out)
    other = np.empty_like(out)
    numpy_path.piece_column(data, starts, sizes, other)
    same(out, other, "pieces")


BOTH: dict[str, Callable[..., Any]] = {
    "ends_ascend": ends_ascend,
    "scan_entries": scan_entries,
    "summarize_entries": summarize_entries,
    "expand_entries": expand_entries,
    "decode_batches": decoding("decode_batches"),
    "decode_messages": decoding("decode_messages"),
    "decode_headers": decode_headers,
    "encode_batches": encode_batches,
    "encode_messages": encode_messages,
    "murmur2_column": hashing("murmur2_column"),
    "java_hash_column": hashing("java_hash_column"),
    "key_partitions": key_partitions,
    "rows_by_partition": rows_by_partition,
    "varint_column": varint_column,
    "piece_column": piece_column,
}


@pytest.fixture(autouse=True, scope="module")
def _both() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TIERS, "path", SimpleNamespace(VERIFY=VERIFY_LATER, **BOTH))
        yield


@pytest.fixture(params=sized(["tiny chunks"], ["usual chunks", "tiny chunks"]), autouse=True)
def _chunks(request: pytest.FixtureRequest) -> Iterator[str]:
    """With tiny chunks, small inputs meet every way of copying, and every boundary."""
    if request.param == "usual chunks" or "usual_chunks" in request.fixturenames:
        yield "usual chunks"
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
def usual_chunks() -> None:
    """For tests that are about size: `_chunks` looks for this name."""


def read(data: bytes, **options: Any) -> int:
    """Decode with and without headers, and ignore what the answer is; tells how many records there were."""
    rows = 0
    for headers in (False, True):
        with suppress(CorruptRecord):
            rows = decode(data, headers=headers, pool=POOL, **options).batch.num_rows
    return rows
