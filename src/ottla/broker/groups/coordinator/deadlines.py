"""The deadlines of a group. Heartbeats move a deadline many times for each timer that fires."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.broker.groups.coordinator.decision import CoordinatorStep, Timer, TimerKey, TimerKind


@dataclass(slots=True, eq=False)
class TimedGroup:
    """A group with deadlines, of single members or of the whole group. `armed` are timers that will fire."""

    group_id: str
    deadlines: dict[TimerKey, int] = field(default_factory=dict, kw_only=True)
    armed: dict[TimerKey, int] = field(default_factory=dict, kw_only=True)

    def set_deadline(self, key: TimerKey, delay_ms: int, step: CoordinatorStep) -> None:
        """Set a deadline in `delay_ms`. If a timer is armed that fires earlier, it will arm the next one."""
        deadline_ms = step.now_ms + delay_ms
        self.deadlines[key] = deadline_ms
        armed_ms = self.armed.get(key)
        if armed_ms is None or deadline_ms < armed_ms:
            self.armed[key] = deadline_ms
            step.timers.append(Timer(self.group_id, key, deadline_ms))

    def clear_deadline(self, key: TimerKey) -> None:
        """Remove a deadline; its timer will do nothing."""
        self.deadlines.pop(key, None)

    def due(self, timer: Timer, step: CoordinatorStep) -> bool:
        """Whether the deadline of a fired timer has passed; if it was moved, a new timer is armed."""
        if self.armed.get(timer.key) != timer.at_ms:
            return False
        del self.armed[timer.key]
        deadline_ms = self.deadlines.pop(timer.key, None)
        if deadline_ms is None:
            return False
        if deadline_ms > step.now_ms:
            self.set_deadline(timer.key, deadline_ms - step.now_ms, step)
            return False
        return True


def session_key(member_id: str) -> TimerKey:
    """Return the key of the deadline of a member's session."""
    return TimerKey(TimerKind.SESSION, member_id)
