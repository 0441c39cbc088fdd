"""RebalanceListener: what an application does when partitions come and go."""

from __future__ import annotations

from ottla.grouped.demands import Places


class RebalanceListener:
    """Called within `poll` and `close`, by the thread that polls. Override what you need.

    An error that a method raises comes out of `poll`, after the rebalance went on.
    """

    def on_revoked(self, partitions: Places) -> None:
        """These are about to go to others. They are still this consumer's: `commit` works, and is the last
        chance to do so. With auto commit, it is done already."""

    def on_assigned(self, partitions: Places) -> None:
        """These are new. `seek` before the first record of them is read."""

    def on_lost(self, partitions: Places) -> None:
        """These are gone, and others may read them already; nothing can be committed. Without a method of
        your own it is as if they were revoked."""
        self.on_revoked(partitions)
