"""Hot loops over bytes and arrays: the Numba kernels, or their NumPy stand-ins where Numba does not work."""

from __future__ import annotations

import warnings

from ottla.kernels import kernel

if kernel.AVAILABLE:
    from ottla.kernels.crc32c import IN_KERNEL as CRC32C_IN_KERNEL
    from ottla.kernels.entry_scan import scan_entries, summarize_entries
    from ottla.kernels.hashes import java_hash_column, murmur2_column
    from ottla.kernels.header_decode import decode_headers
    from ottla.kernels.record_decode import decode_batches, decode_messages
    from ottla.kernels.record_encode import encode_batches, encode_messages
else:
    from ottla.kernels.numpy_path import (
        CRC32C_IN_KERNEL,
        decode_batches,
        decode_headers,
        decode_messages,
        encode_batches,
        encode_messages,
        java_hash_column,
        murmur2_column,
        scan_entries,
        summarize_entries,
    )

    if kernel.REQUESTED != "numpy":
        warnings.warn(
            f"ottla runs without Numba ({kernel.UNAVAILABLE_BECAUSE}): decoding is 3 to 27 times slower",
            RuntimeWarning,
            stacklevel=2,
        )

__all__ = [
    "CRC32C_IN_KERNEL",
    "decode_batches",
    "decode_headers",
    "decode_messages",
    "encode_batches",
    "encode_messages",
    "java_hash_column",
    "murmur2_column",
    "scan_entries",
    "summarize_entries",
]
