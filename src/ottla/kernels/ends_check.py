"""Whether a variable column's offsets can be followed: Arrow believes what it was handed."""

from __future__ import annotations

from ottla.kernels.kernel import kernel
from ottla.kernels.memory import get_int32, pointer


@kernel
def ends_ascend(ends):
    """Whether no value ends before it begins. Without a branch in the loop, so that it is vectorised."""
    address = pointer(ends)
    descents = 0
    for index in range(ends.size - 1):
        descents += get_int32(address, index + 1) < get_int32(address, index)
    return descents == 0
