"""Which leader epoch began at which offset, as in the file `leader-epoch-checkpoint` of a partition.

There is no replication here, so epochs only matter to clients: they ask where an epoch ended
(OffsetForLeaderEpoch) to find out that a log was cut behind their back.
"""

from __future__ import annotations

from pathlib import Path

from ottla.log import checkpoints
from ottla.log.file_system import FileSystem


class LeaderEpochs:
    """Ordered (epoch, first offset). The file is replaced when something changed, and only then."""

    def __init__(self, directory: Path, file_system: FileSystem) -> None:
        self._path = directory / checkpoints.LEADER_EPOCHS
        self._file_system = file_system
        self.entries = checkpoints.read_epochs(self._path)

    @property
    def latest(self) -> int:
        """The newest epoch, -1 before the first."""
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, offset: int) -> None:
        """Records from `offset` on are of `epoch`; one that is not newer than the latest changes nothing."""
        if epoch > self.latest:
            self._replace([*(entry for entry in self.entries if entry[1] < offset), (epoch, offset)])

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(the largest epoch not above `epoch`, the offset where it ended), (-1, -1) if nothing is known."""
        if epoch == self.latest and epoch >= 0:
            return epoch, log_end
        for (older, _), (newer, start) in zip(self.entries, self.entries[1:], strict=False):
            if older <= epoch < newer:
                return older, start
        return -1, -1

    def cut_end(self, offset: int) -> None:
        """The log now ends at `offset`."""
        self._replace([entry for entry in self.entries if entry[1] < offset])

    def forget_end(self, offset: int) -> None:
        """`cut_end` in memory alone, for a disk that takes nothing; the next opening corrects the file."""
        self.entries = [entry for entry in self.entries if entry[1] < offset]

    def cut_start(self, offset: int) -> None:
        """The log now starts at `offset`: the epoch of that offset starts there too."""
        older = [entry for entry in self.entries if entry[1] <= offset]
        newer = [entry for entry in self.entries if entry[1] > offset]
        self._replace(([(older[-1][0], offset)] if older else []) + newer)

    def _replace(self, entries: list[tuple[int, int]]) -> None:
        if entries != self.entries:
            checkpoints.write_epochs(self._path, entries, self._file_system)
            self.entries = entries
