"""Where a leader epoch ended: how a client finds out that a log was cut behind its back (KIP-320). Pure."""

from __future__ import annotations

from collections.abc import Sequence

NOT_KNOWN = (-1, -1)

EpochStarts = Sequence[tuple[int, int]]
"""(epoch, first offset), in order."""


def led_epochs(written: EpochStarts, leader_epoch: int, log_end: int) -> EpochStarts:
    """(epoch, first offset) of the records, and the present leader's epoch if it has written nothing yet."""
    if written and written[-1][0] >= leader_epoch:
        return written
    return [*(entry for entry in written if entry[1] < log_end), (leader_epoch, log_end)]


def end_of(epoch: int, starts: EpochStarts, log_end: int) -> tuple[int, int]:
    """(the largest epoch not above `epoch`, the offset where it ended).

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
