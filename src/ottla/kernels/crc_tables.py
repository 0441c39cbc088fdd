"""Tables of the two CRCs, made at import: a few thousand integer steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

CRC32 = 0xEDB88320
CRC32C = 0x82F63B78


def _byte_table(polynomial: int) -> npt.NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(polynomial), table >> 1).astype(np.uint32)
    return table


def _slices(polynomial: int, count: int) -> npt.NDArray[np.uint32]:
    """256 entries for each k: the CRC of a byte followed by k zero bytes."""
    tables = [_byte_table(polynomial)]
    for _ in range(count - 1):
        tables.append((tables[-1] >> 8) ^ tables[0][tables[-1] & 0xFF])
    return np.concatenate(tables)


def _shift_tables(byte_table: npt.NDArray[np.uint32], zeros: int) -> npt.NDArray[np.uint32]:
    """256 entries for each k: what byte k of a CRC contributes to the CRC after `zeros` more zero bytes."""
    shifted = np.array([[byte << (8 * k) for byte in range(256)] for k in range(4)], np.uint32)
    for _ in range(zeros):
        shifted = (shifted >> 8) ^ byte_table[shifted & 0xFF]
    return shifted.reshape(-1)


CRC32_SLICES = _slices(CRC32, 8)
CRC32C_BYTES = _byte_table(CRC32C)
# The distance between the streams that `crc32c` runs side by side.
CRC32C_STRIDE = 256
CRC32C_SHIFT = _shift_tables(CRC32C_BYTES, CRC32C_STRIDE)
