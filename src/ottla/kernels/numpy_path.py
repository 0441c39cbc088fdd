"""The kernels without Numba: the same names, arguments, results and status codes, made of NumPy calls.

It serves until the compiled kernels are ready (`ottla.kernels.tiers`), and where Numba is missing.
Python walks what only a walk can find (where each record begins, since each says how long it is); all
else is done for thousands of records at a time:

    numpy_bytes     varints, big-endian numbers, and pieces of bytes, at many positions at once
    numpy_scan      entries of a record set
    numpy_columns   what the decode fills
    numpy_decode    records of format 2 into columns
    numpy_messages  messages of formats 0 and 1 into columns
    numpy_headers   record headers into columns
    numpy_inputs    what the encode reads
    numpy_encode    columns into batches and messages
    numpy_hashes    murmur2 and String.hashCode, partitions of keys, the rows of each partition

Work is cut into chunks of some thousand records, so that what it takes beside its input and output is
bounded whatever the bytes claim. Positions are checked before they are used, and NumPy checks them again.

CRC-32C is never computed here: `VERIFY` says so, and callers use the library. Nor is anything decompressed.
"""

from __future__ import annotations

from ottla.kernels.layout import VERIFY_LATER
from ottla.kernels.numpy_bytes import piece_column, varint_column
from ottla.kernels.numpy_decode import decode_batches
from ottla.kernels.numpy_encode import encode_batches, encode_messages
from ottla.kernels.numpy_hashes import (
    java_hash_column,
    key_partitions,
    murmur2_column,
    rows_by_partition,
)
from ottla.kernels.numpy_headers import decode_headers
from ottla.kernels.numpy_inputs import ends_ascend
from ottla.kernels.numpy_messages import decode_messages
from ottla.kernels.numpy_scan import expand_entries, scan_entries, summarize_entries

VERIFY = VERIFY_LATER

__all__ = [
    "VERIFY",
    "decode_batches",
    "decode_headers",
    "decode_messages",
    "encode_batches",
    "encode_messages",
    "ends_ascend",
    "expand_entries",
    "java_hash_column",
    "key_partitions",
    "murmur2_column",
    "piece_column",
    "rows_by_partition",
    "scan_entries",
    "summarize_entries",
    "varint_column",
]
