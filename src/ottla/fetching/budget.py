"""Memory for chunks that wait for their readers, shared fairly.

Every partition has an equal share, whether it uses it or not. A budget that goes to whoever comes first could
be eaten up by partitions that nobody reads, and the reader of another one would wait for ever.
"""

from __future__ import annotations


class Budget:
    """One number that fetchers read and the engine sets."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self.share_bytes = total_bytes

    def divide(self, partitions: int) -> None:
        """Among so many."""
        self.share_bytes = self._total_bytes // max(1, partitions)
