"""Java's strings and numbers, where Kafka's answers depend on them: a group's partition, a map's order.

Plain integers, so that a broker need not load the kernels to find a group; `ottla.records.hashes` has the
same for columns.
"""

from __future__ import annotations

import sys
from array import array
from functools import lru_cache

MASK = 0xFFFFFFFF


def signed_32(value: int) -> int:
    """Return the int that Java would have after a computation that overflows."""
    return ((value & MASK) ^ 0x80000000) - 0x80000000


def java_abs(value: int) -> int:
    """Kafka's `Utils.abs`: the only number without a positive counterpart becomes 0."""
    return 0 if value == -0x80000000 else abs(value)


def utf16_units(text: str) -> array[int]:
    """The chars of a Java `String`: its `length()` is their number."""
    units = array("H")
    units.frombytes(text.encode("utf-16-le" if sys.byteorder == "little" else "utf-16-be", "surrogatepass"))
    return units


@lru_cache(maxsize=256)  # of the topic of each of ten thousand partitions
def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: a polynomial with base 31 over UTF-16 units."""
    h = 0
    for unit in utf16_units(text):
        h = 31 * h + unit & MASK
    return signed_32(h)
