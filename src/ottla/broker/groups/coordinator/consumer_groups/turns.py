"""Decisions of one group are made one after the other, even if a decision has to wait for the log."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.groups.coordinator.decision import CoordinatorStep

Work = Callable[[CoordinatorStep], None]


class GroupTurns:
    """The groups whose records are on their way into the log, and the work that waits for them."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Work]] = {}

    def begin(self, group_id: str) -> None:
        """Note that records of a group are on their way into the log: other work on the group waits."""
        self._waiting[group_id] = []

    def end(self, group_id: str, step: CoordinatorStep) -> None:
        """Do the waiting work, after records were stored or failed, until new records are on their way."""
        waiting = self._waiting.pop(group_id, [])
        for index, work in enumerate(waiting):
            if group_id in self._waiting:
                self._waiting[group_id] += waiting[index:]
                return
            work(step)

    def is_busy(self, group_id: str) -> bool:
        """Whether records of a group are on their way."""
        return group_id in self._waiting

    def run(self, group_id: str, work: Work, step: CoordinatorStep) -> None:
        """Do work on a group now, or when the work before it is done."""
        if group_id in self._waiting:
            self._waiting[group_id].append(work)
        else:
            work(step)
