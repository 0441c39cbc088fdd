"""Decisions of one group are made one after the other, also if one has to wait for the log."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.groups.coordinator.decision import CoordinatorStep

Work = Callable[[CoordinatorStep], None]


class GroupTurns:
    """The groups whose records are on their way into the log, and what waits for them."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Work]] = {}

    def begin(self, group_id: str) -> None:
        """Records of a group are on their way: everything else about it waits."""
        self._waiting[group_id] = []

    def end(self, group_id: str, step: CoordinatorStep) -> None:
        """They are stored, or not: go on, until the next records are on their way."""
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
        """Do something about a group now, or when its turn comes."""
        if group_id in self._waiting:
            self._waiting[group_id].append(work)
        else:
            work(step)
