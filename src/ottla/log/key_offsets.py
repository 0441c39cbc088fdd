"""The last offset of each key: what compaction knows of the dirty part of a log.

Long keys are held as digests, so that an entry is small whatever the key is; 16 bytes do not collide.
The number of keys is bounded: when it is reached, `add` refuses, and the pass ends there.
"""

from __future__ import annotations

from hashlib import blake2b

DIGEST_BYTES = 16


class KeyOffsets:
    """`mapped_to` is one past the last offset that was looked at, key or not."""

    def __init__(self, keys_max: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._keys_max = keys_max
        self.mapped_to = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, key: bytes | None, offset: int) -> bool:
        """Note a record, in the order of offsets; False if there is no room for another key."""
        if key is not None:
            short = _short(key)
            if short not in self._offsets and len(self._offsets) >= self._keys_max:
                return False
            self._offsets[short] = offset
        self.mapped_to = offset + 1
        return True

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether a later record of the key is known."""
        return self._offsets.get(_short(key), -1) > offset


def _short(key: bytes) -> bytes:
    # The leading byte keeps short keys and digests apart.
    if len(key) < DIGEST_BYTES:
        return b"k" + key
    return b"d" + blake2b(key, digest_size=DIGEST_BYTES).digest()
