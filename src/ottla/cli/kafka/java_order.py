"""The order in which Java's hash maps hand out what is in them: some of Kafka's tools print in it."""

from __future__ import annotations

from collections.abc import Iterable

_SMALLEST_TABLE, _LOAD = 16, 0.75


def java_hash(text: str) -> int:
    """String.hashCode, as 32 bits without a sign."""
    units = text.encode("utf-16-be")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value


def java_order(names: Iterable[str]) -> list[str]:
    """Names as java.util.HashMap hands them out."""
    listed = list(dict.fromkeys(names))
    table = _SMALLEST_TABLE
    while len(listed) > table * _LOAD:
        table *= 2

    def bucket(name: str) -> int:
        value = java_hash(name)
        return (value ^ value >> 16) & (table - 1)

    return sorted(listed, key=bucket)
