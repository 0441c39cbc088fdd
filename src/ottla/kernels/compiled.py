"""The Numba kernels under the names that `ottla.kernels` offers; `numpy_path` has the same ones."""

from ottla.kernels.crc32c import IN_KERNEL as CRC32C_IN_KERNEL
from ottla.kernels.ends_check import ends_ascend
from ottla.kernels.entry_scan import scan_entries, summarize_entries
from ottla.kernels.hashes import java_hash_column, murmur2_column
from ottla.kernels.header_decode import decode_headers
from ottla.kernels.placement import key_partitions, rows_by_partition
from ottla.kernels.record_decode import decode_batches, decode_messages
from ottla.kernels.record_encode import encode_batches, encode_messages

__all__ = [
    "CRC32C_IN_KERNEL",
    "decode_batches",
    "decode_headers",
    "decode_messages",
    "encode_batches",
    "encode_messages",
    "ends_ascend",
    "java_hash_column",
    "key_partitions",
    "murmur2_column",
    "rows_by_partition",
    "scan_entries",
    "summarize_entries",
]
