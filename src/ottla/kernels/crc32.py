"""CRC-32 (zlib's) of message formats 0 and 1, eight bytes a step."""

from __future__ import annotations

import numpy as np

from ottla.kernels.crc_tables import CRC32_SLICES
from ottla.kernels.kernel import inlined
from ottla.kernels.memory import get_byte


@inlined
def _word(slice_, byte):  # type: ignore[no-untyped-def]
    return int(CRC32_SLICES[np.uint64(slice_), np.uint64(byte)]) & 0xFFFFFFFF


@inlined
def crc32(data, start, end):  # type: ignore[no-untyped-def]
    """CRC-32 of data[start:end], `data` being an address; the caller has checked the range."""
    crc = 0xFFFFFFFF
    while start + 8 <= end:
        low = crc ^ (
            get_byte(data, start)
            | (get_byte(data, start + 1) << 8)
            | (get_byte(data, start + 2) << 16)
            | (get_byte(data, start + 3) << 24)
        )
        crc = (
            _word(7, low & 0xFF)
            ^ _word(6, (low >> 8) & 0xFF)
            ^ _word(5, (low >> 16) & 0xFF)
            ^ _word(4, low >> 24)
            ^ _word(3, get_byte(data, start + 4))
            ^ _word(2, get_byte(data, start + 5))
            ^ _word(1, get_byte(data, start + 6))
            ^ _word(0, get_byte(data, start + 7))
        )
        start += 8
    while start < end:
        crc = _word(0, (crc ^ get_byte(data, start)) & 0xFF) ^ (crc >> 8)
        start += 1
    return crc ^ 0xFFFFFFFF
