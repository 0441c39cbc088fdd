"""One payload through the kernel that expands entries, in memory that ends at a guard page."""

from __future__ import annotations

import numpy as np

from ottla.kernels import compiled, layout
from ottla.records.compression import Codec
from tests.fuzz.guarded import Region

ROOM_MAX = 1 << 18
PACKED, ROOM = Region(1 << 18), Region(ROOM_MAX)
SCRATCH = np.zeros(layout.SCRATCH_SIZE, np.int32)


def by_kernel(codec: Codec, packed: bytes, room: int) -> bytes | None:
    """What a batch of these bytes becomes within `room` bytes; None if it is left to the library."""
    if not packed:  # such a batch is empty, and not compressed
        return None
    data = PACKED.holding(b"\xaa" * 8 + packed)  # something stands before it, as a batch's header does
    data = np.frombuffer(data.data.toreadonly(), np.uint8)
    table = np.zeros((1, layout.ENTRY_COLUMNS), np.int64)
    table[0, [layout.START, layout.END, layout.MAGIC, layout.ATTRIBUTES]] = 8, data.size, 2, codec
    expanded, state, summary = np.zeros_like(table), np.zeros(3, np.int64), np.zeros(6, np.int64)
    arena = ROOM.tail(room)
    status = compiled.expand_entries(data, table, 0, 1 << 20, arena, SCRATCH, expanded, state, summary)
    if status == layout.LEFT:
        assert state.tolist() == [0, 0, 0], "an entry that is left has not begun"
        return None
    assert status == layout.OK
    assert state[layout.EXPANDED_ENTRIES] == state[layout.EXPANDED_ROWS] == 1
    start, end, source = expanded[0, [layout.START, layout.END, layout.SOURCE]].tolist()
    assert (start, end, source) == (0, state[layout.EXPANDED_BYTES], 1)
    return arena[:end].tobytes()
