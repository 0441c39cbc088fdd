"""CRC-32 (zlib's) of message formats 0 and 1, eight bytes a step."""

from __future__ import annotations

from ottla.kernels.crc_tables import CRC32_SLICES
from ottla.kernels.kernel import inlined
from ottla.kernels.memory import get_byte, get_uint32, pointer

# Where the table of each distance to the end of the eight bytes begins.
SLICE = 256


@inlined
def crc32(data, start, end):
    """CRC-32 of data[start:end], `data` being an address; the caller has checked the range."""
    table = pointer(CRC32_SLICES)
    crc = 0xFFFFFFFF
    while start + 8 <= end:
        crc = (
            get_uint32(table, 7 * SLICE + ((crc & 0xFF) ^ get_byte(data, start)))
            ^ get_uint32(table, 6 * SLICE + (((crc >> 8) & 0xFF) ^ get_byte(data, start + 1)))
            ^ get_uint32(table, 5 * SLICE + (((crc >> 16) & 0xFF) ^ get_byte(data, start + 2)))
            ^ get_uint32(table, 4 * SLICE + ((crc >> 24) ^ get_byte(data, start + 3)))
            ^ get_uint32(table, 3 * SLICE + get_byte(data, start + 4))
            ^ get_uint32(table, 2 * SLICE + get_byte(data, start + 5))
            ^ get_uint32(table, SLICE + get_byte(data, start + 6))
            ^ get_uint32(table, get_byte(data, start + 7))
        )
        start += 8
    while start < end:
        crc = get_uint32(table, (crc ^ get_byte(data, start)) & 0xFF) ^ (crc >> 8)
        start += 1
    return crc ^ 0xFFFFFFFF
