"""The Numba kernels under the names that `ottla.kernels` offers; `numpy_path` has the same ones."""

from ottla.kernels.crc32c import IN_KERNEL
from ottla.kernels.entry_scan import scan_entries, summarize_entries
from ottla.kernels.expansion import expand_entries
from ottla.kernels.field_columns import piece_column, varint_column
from ottla.kernels.hashes import java_hash_column, murmur2_column
from ottla.kernels.header_decode import decode_headers
from ottla.kernels.layout import VERIFY_HERE, VERIFY_LATER
from ottla.kernels.message_encode import encode_messages
from ottla.kernels.placement import ends_ascend, key_partitions, rows_by_partition
from ottla.kernels.record_decode import decode_batches, decode_messages
from ottla.kernels.record_encode import encode_batches

VERIFY = VERIFY_HERE if IN_KERNEL else VERIFY_LATER

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
