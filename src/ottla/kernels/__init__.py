"""Hot loops over bytes and arrays: the Numba kernels, or their NumPy stand-ins where Numba does not work.

Both have the same names, arguments and results; each kernel's own file tells what it does.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.kernels import kernel

Kernel: TypeAlias = Callable[..., int]

_path: Any = importlib.import_module(f"ottla.kernels.{'compiled' if kernel.AVAILABLE else 'numpy_path'}")

CRC32C_IN_KERNEL: bool = _path.CRC32C_IN_KERNEL
scan_entries: Kernel = _path.scan_entries
summarize_entries: Kernel = _path.summarize_entries
decode_batches: Kernel = _path.decode_batches
decode_messages: Kernel = _path.decode_messages
decode_headers: Kernel = _path.decode_headers
encode_batches: Kernel = _path.encode_batches
encode_messages: Kernel = _path.encode_messages
ends_ascend: Kernel = _path.ends_ascend
murmur2_column: Kernel = _path.murmur2_column
java_hash_column: Kernel = _path.java_hash_column
key_partitions: Kernel = _path.key_partitions
rows_by_partition: Kernel = _path.rows_by_partition

if not kernel.AVAILABLE and kernel.REQUESTED != "numpy":
    warnings.warn(
        f"ottla runs without Numba ({kernel.UNAVAILABLE_BECAUSE}): decoding is 3 to 27 times slower;"
        f" `pip install numba` mends it, OTTLA_KERNELS=numpy silences this",
        RuntimeWarning,
        stacklevel=2,
    )
