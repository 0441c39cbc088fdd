"""Which leader epoch began at which offset, as in the file `leader-epoch-checkpoint` of a partition.

There is no replication here, so epochs only matter to clients: they ask where an epoch ended
(OffsetForLeaderEpoch) to find out that a log was cut behind their back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ottla.log import checkpoints
from ottla.log.batch_header import BatchHeader
from ottla.log.file_system import FileSystem
from ottla.model.errors import StorageError

NOT_KNOWN = (-1, -1)

EpochStarts = Sequence[tuple[int, int]]
"""(epoch, first offset), in order."""


class LeaderEpochs:
    """Ordered (epoch, first offset). The file is replaced whenever something changes. A new epoch comes with
    its first record, and is flushed with it: the first write to a partition need not wait for the disk.

    The batches know their epochs too: `check` takes them from there where the file is damaged.
    """

    def __init__(
        self, directory: Path, file_system: FileSystem, *, is_new: bool = False, last: int = -1
    ) -> None:
        """`last` is the epoch of the last batch after a clean stop: a file with that one epoch is right."""
        self._directory = directory
        self._file_system = file_system
        self._is_damaged = False
        self._is_unflushed = False
        self._confirmed = -1  # the last epoch that was found in a batch
        try:
            path = f"{directory}{os.sep}{checkpoints.LEADER_EPOCHS}"
            self.entries = [] if is_new else checkpoints.read_pairs(path)
        except StorageError:
            self.entries, self._is_damaged = [], True
        if len(self.entries) == 1 and self.latest == last:
            self._confirmed = last

    @property
    def _path(self) -> Path:
        return self._directory / checkpoints.LEADER_EPOCHS

    @property
    def latest(self) -> int:
        """The newest epoch, -1 before the first."""
        return self.entries[-1][0] if self.entries else -1

    def check(self, headers_from: Callable[[int], Iterator[BatchHeader]], epoch_max: int | None) -> bool:
        """Take the epochs from all batches of the log, if the file is damaged or contradicts the log.

        `headers_from` gives the batches from an offset on. An epoch above `epoch_max` is right only if a
        batch has it. Returns whether the file was written. Raises OSError.
        """
        if self.entries and self.latest != self._confirmed:
            latest, start = self.entries[-1]
            first = next(headers_from(start), None)
            if first is not None and first.magic > 1:
                self._is_damaged |= first.leader_epoch != latest
                self._confirmed = first.leader_epoch
            else:
                self._is_damaged |= epoch_max is not None and latest > epoch_max
        if not self._is_damaged:
            return False
        entries: list[tuple[int, int]] = []
        for header in headers_from(0):
            if header.leader_epoch > (entries[-1][0] if entries else -1):
                entries.append((header.leader_epoch, header.base_offset))
        checkpoints.write_pairs(self._path, entries, self._file_system)
        self.entries, self._is_damaged = entries, False
        return True

    def assign(self, epoch: int, offset: int) -> None:
        """Records from `offset` on are of `epoch`; ignored unless it is newer than the latest."""
        if epoch > self.latest:
            entries = [*(entry for entry in self.entries if entry[1] < offset), (epoch, offset)]
            checkpoints.write_pairs(self._path, entries, self._file_system, flush=False)
            self.entries, self._is_unflushed = entries, True

    def add_descriptor(self, descriptors: list[int]) -> bool:
        """Add the descriptor of the file if it has to be flushed; returns whether. Raises OSError."""
        if not self._is_unflushed:
            return False
        descriptors.append(self._file_system.open(self._path))
        self._is_unflushed = False
        return True

    def end_of_epoch(self, epoch: int, leader_epoch: int, log_end: int) -> tuple[int, int]:
        """Return the largest epoch not above `epoch` and the offset where it ended, or NOT_KNOWN."""
        return end_of(epoch, led_epochs(self.entries, leader_epoch, log_end), log_end)

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
            checkpoints.write_pairs(self._path, entries, self._file_system)
            self.entries = entries


def led_epochs(written: EpochStarts, leader_epoch: int, log_end: int) -> EpochStarts:
    """Return the epochs of the records, and the present leader's epoch if it has written nothing yet."""
    if written and written[-1][0] >= leader_epoch:
        return written
    return [*(entry for entry in written if entry[1] < log_end), (leader_epoch, log_end)]


def end_of(epoch: int, starts: EpochStarts, log_end: int) -> tuple[int, int]:
    """Return the largest epoch not above `epoch`, and the offset where it ended.

    starts (0, 0) (2, 70) (5, 90), end 100:    5 → (5, 100)   3 → (2, 90)   6 → NOT_KNOWN
    starts (2, 70) (5, 90), end 100:           1 → (1, 70), as its records are gone
    """
    if epoch < 0 or epoch > starts[-1][0]:
        return NOT_KNOWN
    end = log_end
    for start_epoch, start in reversed(starts):
        if start_epoch <= epoch:
            return start_epoch, end
        end = start
    return epoch, end
