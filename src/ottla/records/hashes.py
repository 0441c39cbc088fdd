"""Hashes that must equal Java's, of one value and of whole Arrow columns.

`murmur2` places a key in a partition, `java_hash` (String.hashCode) places a group in the offsets topic
and, by `fetcher_id`, a partition in a fetcher. All are signed 32-bit numbers, and wrap like Java's.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla import kernels
from ottla.kernels.layout import MURMUR_MULTIPLIER, MURMUR_SEED
from ottla.model.errors import ConfigError
from ottla.model.java_hashes import MASK, java_abs, java_hash, signed_32
from ottla.records.inputs import BinaryInput, binary_input

__all__ = [
    "murmur2",
    "murmur2_column",
    "key_partition",
    "key_partition_column",
    "key_partitions",
    "java_hash",
    "java_hash_column",
    "java_abs",
    "signed_32",
    "fetcher_id",
    "fetcher_id_column",
]

Column: TypeAlias = pa.Array | pa.ChunkedArray


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 of a key."""
    size = len(data)
    h = MURMUR_SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * MURMUR_MULTIPLIER & MASK
        k = (k ^ k >> 24) * MURMUR_MULTIPLIER & MASK
        h = h * MURMUR_MULTIPLIER & MASK ^ k
    if whole < size:
        h = (h ^ int.from_bytes(data[whole:], "little")) * MURMUR_MULTIPLIER & MASK
    h = (h ^ h >> 13) * MURMUR_MULTIPLIER & MASK
    return signed_32(h ^ h >> 15)


def murmur2_column(keys: Column) -> pa.Array:
    """`murmur2` of every key, null for null."""
    return _hash_column(keys, "key", kernels.path().murmur2_column)


def key_partition(key: bytes, partition_count: int) -> int:
    """Where Java's default partitioner puts a key."""
    return (murmur2(key) & 0x7FFFFFFF) % _positive(partition_count)


def key_partition_column(keys: Column, partition_count: int) -> pa.Array:
    """`key_partition` of every key, null for null."""
    partitions = key_partitions(binary_input(keys, "key"), len(keys), partition_count)
    nulls = keys.is_null().to_numpy(zero_copy_only=False) if keys.null_count else None
    return pa.array(partitions, pa.int32(), mask=nulls)


def key_partitions(keys: BinaryInput, count: int, partition_count: int) -> npt.NDArray[np.int32]:
    """`key_partition` of every key, -1 for null."""
    _positive(partition_count)
    if not keys.ends.size:
        return np.full(count, -1, np.int32)
    out: npt.NDArray[np.int32] = np.empty(count, np.int32)
    kernels.path().key_partitions(*keys, partition_count, out)
    return out


def java_hash_column(texts: Column) -> pa.Array:
    """`java_hash` of every string, null for null."""
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if not pa.types.is_string(texts.type):
        texts = texts.cast(pa.string())
    return _hash_column(texts, "text", kernels.path().java_hash_column)


def fetcher_id(topic: str, partition: int, fetcher_count: int) -> int:
    """Which of a broker's `num.consumer.fetchers` fetchers the classic consumer gives a partition to."""
    return java_abs(signed_32(31 * java_hash(topic) + partition)) % _positive(fetcher_count)


def fetcher_id_column(topics: Column, partitions: Column, fetcher_count: int) -> pa.Array:
    """`fetcher_id` of every (topic, partition)."""
    hashes = java_hash_column(topics).to_numpy().astype(np.int64)
    sums = (31 * hashes + partitions.to_numpy().astype(np.int64)).astype(np.int32).astype(np.int64)
    magnitudes = np.where(sums == -0x80000000, 0, np.abs(sums))
    return pa.array(magnitudes % _positive(fetcher_count), pa.int32())


def _positive(count: int) -> int:
    if count < 1:
        raise ConfigError(f"a count of {count} leaves nowhere to go: it must be 1 or more")
    return count


def _hash_column(column: Column, name: str, hash_values: object) -> pa.Array:
    values = binary_input(column, name)
    out: npt.NDArray[np.int32] = np.zeros(len(column), np.int32)
    if values.ends.size:
        hash_values(values.ends, values.data, out)  # type: ignore[operator]
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(out, pa.int32(), mask=nulls)
