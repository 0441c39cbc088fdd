"""How much memory the answers of a connection hold until the peer takes them."""

from __future__ import annotations

from collections import deque

from ottla.broker.storage.memory import SMALL_BYTES


class UntakenAnswers:
    """The writes of one connection. Owned by the loop.

    A transport keeps a large write whole until its last byte was sent: one that waits for 1 KB may hold 8 MB.
    """

    __slots__ = ("_large", "_sent", "_written")

    def __init__(self) -> None:
        self._written = 0
        self._sent = 0
        self._large: deque[tuple[int, int]] = (
            deque()
        )  # where large writes that are not sent whole begin and end

    def wrote(self, size: int) -> None:
        """The transport got `size` bytes more."""
        self._written += size
        if size > SMALL_BYTES:
            self._large.append((self._written - size, self._written))

    def progressed(self, unsent: int) -> bool:
        """Note that `unsent` bytes wait, and return whether some were sent since the last call."""
        sent = self._written - unsent
        has_progressed = sent > self._sent
        self._sent = sent
        while self._large and self._large[0][1] <= sent:
            self._large.popleft()
        return has_progressed

    @property
    def held_bytes(self) -> int:
        """The memory behind the bytes that were not sent when `progressed` was last called."""
        begin = self._large[0][0] if self._large else self._sent
        return self._written - min(begin, self._sent)
