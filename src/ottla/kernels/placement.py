"""Before rows are encoded: checks of their columns, the partition of each key, the rows of each partition."""

from __future__ import annotations

from ottla.kernels.hashes import murmur2_of
from ottla.kernels.kernel import kernel
from ottla.kernels.memory import get_byte, get_int32, get_int64, pointer, put_int32, put_int64


@kernel
def key_partitions(ends, data, valid, valid_at, partition_count, out):
    """Where Java's default partitioner puts each key, -1 for null; `valid` is empty if there are no nulls."""
    ends_at, data_at, bits, out_at = pointer(ends), pointer(data), pointer(valid), pointer(out)
    for row in range(out.size):
        bit = valid_at + row
        if valid.size > 0 and not (get_byte(bits, bit >> 3) >> (bit & 7)) & 1:
            put_int32(out_at, row, -1)
            continue
        h = murmur2_of(data_at, get_int32(ends_at, row), get_int32(ends_at, row + 1))
        put_int32(out_at, row, (h & 0x7FFFFFFF) % partition_count)


@kernel
def rows_by_partition(chosen, reach, starts, order, reach_placed):
    """Sort rows by partition, keeping their order within one, and sum up what those of a partition take.

    `chosen`: the partition of each row. `reach`: bytes before each row, and of all.
    `starts`: zeros, one more than there are partitions; gets where the rows of each begin in `order`.
    `reach_placed`: at each place of `order`, the bytes of that partition's rows up to and with this one.
    """
    chosen_at, reach_at, starts_at = pointer(chosen), pointer(reach), pointer(starts)
    order_at, placed_at = pointer(order), pointer(reach_placed)
    partitions = starts.size - 1
    for row in range(chosen.size):
        partition = get_int32(chosen_at, row)
        put_int64(starts_at, partition, get_int64(starts_at, partition) + 1)
    end = 0
    for partition in range(partitions):
        end += get_int64(starts_at, partition)
        put_int64(starts_at, partition, end)
    put_int64(starts_at, partitions, end)
    # From the last row down each partition's end moves to its beginning.
    for step in range(chosen.size):
        row = chosen.size - 1 - step
        partition = get_int32(chosen_at, row)
        place = get_int64(starts_at, partition) - 1
        put_int64(starts_at, partition, place)
        put_int64(order_at, place, row)
    for partition in range(partitions):
        total = 0
        for place in range(get_int64(starts_at, partition), get_int64(starts_at, partition + 1)):
            row = get_int64(order_at, place)
            total += get_int64(reach_at, row + 1) - get_int64(reach_at, row)
            put_int64(placed_at, place, total)


@kernel
def ends_ascend(ends):
    """Whether no value ends before it begins. Without a branch in the loop, so that it is vectorised."""
    address = pointer(ends)
    descents = 0
    for index in range(ends.size - 1):
        descents += get_int32(address, index + 1) < get_int32(address, index)
    return descents == 0
