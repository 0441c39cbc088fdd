"""The events of a run as one digest: two runs with the same digest were the same, byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable


class Trace:
    """All bytes that arrived, all faults and changes of files, in order. `lines` has them if kept."""

    def __init__(self, now: Callable[[], float], *, keep: bool = False) -> None:
        self._now = now
        self._sum = hashlib.blake2b(digest_size=16)
        self.count = 0
        self.lines: list[str] | None = [] if keep else None

    def arrived(self, link: int, data: bytes | None) -> None:
        """Add bytes that have arrived; None for the end of a connection."""
        self.count += 1
        self._sum.update(b"%r %d " % (self._now(), link))
        self._sum.update(data or b"")
        if self.lines is not None:
            self.lines.append(f"{self._now()!r} {link} {data!r}")

    def note(self, text: str) -> None:
        """Add another event."""
        self._sum.update(f"{self._now()!r} {text}\n".encode())
        if self.lines is not None:
            self.lines.append(f"{self._now()!r} {text}")

    @property
    def digest(self) -> str:
        """Return the digest of all events so far."""
        return self._sum.hexdigest()
