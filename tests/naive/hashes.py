"""Java's and Kafka's hashes, a step a line, from their definitions."""

from __future__ import annotations


def int32(number: int) -> int:
    """What Java keeps of a result in an int."""
    number %= 1 << 32
    return number - (1 << 32) if number >= 1 << 31 else number


def java_hash(text: str) -> int:
    """String.hashCode: h = 31 * h + unit over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    h = 0
    for at in range(0, len(units), 2):
        h = int32(31 * h + int.from_bytes(units[at : at + 2], "big"))
    return h


def java_abs(number: int) -> int:
    """Kafka's Utils.abs: the smallest int, which has no positive twin, becomes 0."""
    return 0 if number == -(1 << 31) else abs(number)


def offsets_partition(group: str, count: int = 50) -> int:
    """Where __consumer_offsets keeps a group."""
    return java_abs(java_hash(group)) % count


def fetcher_id(topic: str, partition: int, fetchers: int) -> int:
    """Which fetcher thread of a broker reads a partition."""
    return java_abs(int32(31 * java_hash(topic) + partition)) % fetchers


def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2 with the seed of Kafka's partitioner, as a signed 32-bit number."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little")
        k = k * m & mask
        k ^= k >> 24
        k = k * m & mask
        h = h * m & mask
        h ^= k
    if whole < len(data):
        h ^= int.from_bytes(data[whole:], "little")
        h = h * m & mask
    h ^= h >> 13
    h = h * m & mask
    h ^= h >> 15
    return int32(h)
