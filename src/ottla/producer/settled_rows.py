"""The outcome of rows, as the queues report it and a submission keeps it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ottla.model.errors import OttlaError

RowNumbers: TypeAlias = "range | npt.NDArray[np.int64]"
"""Numbers of rows of a submission, ascending."""

UNKNOWN_OFFSET = -1
NO_TIME = -1


class SettledRows(NamedTuple):
    """Rows that were stored in a partition with consecutive offsets, or failed together."""

    rows: RowNumbers
    partition: int
    base_offset: int = UNKNOWN_OFFSET
    append_time_ms: int = NO_TIME
    error: OttlaError | None = None


class Recipient(Protocol):
    """Gets the outcomes of its rows; `Submission` implements it."""

    @property
    def topic(self) -> str:
        """The topic of all its rows."""

    @property
    def has_failed(self) -> bool:
        """Whether a row has failed."""

    @property
    def is_done(self) -> bool:
        """Whether every row is settled."""

    def take_unseen_failure(self) -> OttlaError | None:
        """Return the first failure, and count it as looked at; None if a failure was looked at before."""

    def settle(self, runs: Sequence[SettledRows]) -> None:
        """Set the outcome of rows; each row once. Runs the application's callbacks."""
