"""The last offset of each key: what compaction knows of the dirty part of a log.

Keys above 16 bytes are held as digests of 17 bytes, so that every entry is small. Digests do not collide, and
are longer than any key that is held unchanged. The number of keys is bounded: when it is reached, the pass
ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import repeat

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.records.messages import binary_values

KEY_BYTES_MAX = 16
DIGEST_BYTES = 17

Keys = list[bytes | None]


class KeyOffsets:
    """The last offset of each key. `mapped_to` is one past the last record that was added."""

    def __init__(self, keys_max: int, mapped_to: int) -> None:
        self._offsets: dict[bytes | None, int] = {}
        self._keys_max = keys_max
        self.mapped_to = mapped_to

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, keys: pa.Array, offsets: npt.NDArray[np.int64]) -> bool:
        """Note records in the order of offsets; False if there was no room for all of them.

        Records from the first without room on stay unknown, and `mapped_to` stays before it.
        """
        rows = list(zip(held_keys(keys), offsets.tolist(), strict=True))
        if len(self._offsets) + len(rows) > self._keys_max:
            return self._add_one_by_one(rows)
        self._offsets.update(rows)
        self._offsets.pop(None, None)
        if rows:
            self.mapped_to = rows[-1][1] + 1
        return True

    def _add_one_by_one(self, rows: Iterable[tuple[bytes | None, int]]) -> bool:
        for key, offset in rows:
            if key is not None:
                if key not in self._offsets and len(self._offsets) >= self._keys_max:
                    return False
                self._offsets[key] = offset
            self.mapped_to = offset + 1
        return True

    def last_offsets(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """The last known offset of each key; -1 for null and for keys that are not known."""
        return np.fromiter(map(self._offsets.get, held_keys(keys), repeat(-1)), np.int64, len(keys))


def held_keys(keys: pa.Array) -> Keys:
    """Keys in the form that is held: short keys unchanged, long keys as digests."""
    values = binary_values(keys)
    if (pc.max(pc.binary_length(keys)).as_py() or 0) <= KEY_BYTES_MAX:
        return values
    return [value if value is None or len(value) <= KEY_BYTES_MAX else _digest(value) for value in values]


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
