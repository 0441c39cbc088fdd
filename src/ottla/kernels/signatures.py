"""The argument types that each kernel is compiled for, and a program that compiles all of them.

`python -m ottla.kernels.signatures [KERNEL ...]` fills the cache, in this order. `ottla.kernels.tiers` runs
it and loads each kernel when it is there. A call with other types would be compiled while its caller waits,
so a test compares this list with what `records` and `producer` call.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from numba.core.types import Array, boolean, int32, int64, none, uint8

from ottla.kernels import compiled, kernel
from ottla.kernels.cache import progress_file, ready_kernels

_BYTES = Array(uint8, 1, "C", readonly=True)
_ENDS = Array(int32, 1, "C", readonly=True)
_TIMES = Array(int64, 1, "C", readonly=True)
_OUT_BYTES = Array(uint8, 1, "C")
_OUT_32 = Array(int32, 1, "C")
_OUT_64 = Array(int64, 1, "C")
_TABLE = Array(int64, 2, "C")

_COLUMN = (_ENDS, _BYTES, _BYTES, int64)
_DECODE = (_BYTES, _BYTES, _TABLE, int64, int64, int64, _OUT_BYTES, _OUT_64)
_ENCODE = (int64, _OUT_64, *_COLUMN, *_COLUMN, _TIMES, int64)
_ENCODED = (int64, _OUT_64, int64, boolean, _OUT_BYTES, _TABLE, _OUT_64)
_HEADERS = (_ENDS, _ENDS, _BYTES, _ENDS, _BYTES, _BYTES, int64)

SIGNATURES: dict[str, list[tuple[Any, ...]]] = {
    "scan_entries": [(_BYTES, int64, int64, int64, int64, _TABLE, _OUT_64, _OUT_64)],
    "summarize_entries": [(_TABLE, _OUT_64)],
    "expand_entries": [
        (_BYTES, _TABLE, int64, int64, _OUT_BYTES, _OUT_32, _TABLE, _OUT_64, _OUT_64),
    ],
    "decode_batches": [(*_DECODE, none, none, _OUT_64), (*_DECODE, _OUT_64, _OUT_64, _OUT_64)],
    "decode_messages": [(*_DECODE, none, none, _OUT_64), (*_DECODE, _OUT_64, _OUT_64, _OUT_64)],
    "decode_headers": [(_BYTES, _BYTES, _OUT_64, _OUT_64, int64, int64, _OUT_BYTES, _OUT_64, _OUT_64)],
    "encode_batches": [
        (*_ENCODE, *[none] * len(_HEADERS), *_ENCODED),
        (*_ENCODE, *_HEADERS, *_ENCODED),
    ],
    "encode_messages": [(int64, *_COLUMN, *_COLUMN, _TIMES, int64, int64, _OUT_BYTES, _OUT_64)],
    "ends_ascend": [(_ENDS,)],
    "varint_column": [(_BYTES, _OUT_64, _OUT_64, _OUT_64, _OUT_64)],
    "piece_column": [(_BYTES, _OUT_64, _OUT_64, _OUT_BYTES)],
    "murmur2_column": [(_ENDS, _BYTES, _OUT_32)],
    "java_hash_column": [(_ENDS, _BYTES, _OUT_32)],
    "key_partitions": [(*_COLUMN, int64, _OUT_32)],
    "rows_by_partition": [(_ENDS, _OUT_64, _OUT_64, _OUT_64, _OUT_64)],
}


def load(name: str) -> Callable[..., Any]:
    """Return a kernel that is ready for all its types: from the cache, or compiled if they are not there."""
    dispatcher = getattr(compiled, name)
    for signature in SIGNATURES[name]:
        dispatcher.compile(signature)
    return dispatcher  # type: ignore[no-any-return]


def compile_all(directory: Path, first: Sequence[str] = ()) -> None:
    """Fill the cache, those named first at first; returns when all are in it, whoever compiled them."""
    with (directory / "compiling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        order = dict.fromkeys([*first, *SIGNATURES])
        with progress_file(directory).open("a") as progress:
            for name in [name for name in order if name not in ready_kernels(directory)]:
                load(name)
                progress.write(f"\n{name}\n")
                progress.flush()


if __name__ == "__main__":
    if kernel.CACHE_DIRECTORY is None:
        sys.exit(f"there is no cache to fill: {kernel.UNAVAILABLE_BECAUSE or 'no directory is writable'}")
    compile_all(kernel.CACHE_DIRECTORY, sys.argv[1:])
