"""When a member does what: registers, rebalances, waits, looks after itself. Pure; it is told the time.

- A watch fired: due after a short, random pause, so that many events are one rebalance and the members of a
  group do not come all at once.
- An attempt failed: due after rebalance.backoff.ms, sooner if a watch fires.
- rebalance.max.retries failed, over as many backoffs: DEGRADED. It goes on trying, less and less often.
- Nobody reads a partition for rebalance.watchdog.ms: DEGRADED. It rebalances, and renews its registration, so
  that members that gave up look again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import inf

from ottla.fetching.places import TopicAndPartition
from ottla.zookeeper.session import SessionState

BACKOFFS_MAX = 8
"""A member that is DEGRADED waits for at most so many backoffs between two attempts."""


class Health(Enum):
    """How a member is."""

    JOINING = "joining"
    STABLE = "stable"
    REBALANCING = "rebalancing"
    DEGRADED = "degraded"
    SUSPENDED = "suspended"
    LOST = "lost"
    FAILED = "failed"
    CLOSED = "closed"


class Action(Enum):
    """What to do now."""

    REGISTER = "register"
    REBALANCE = "rebalance"
    RENEW = "renew the registration"
    CONFIRM = "confirm the session"
    INSPECT = "inspect the group"


class FailurePolicy(Enum):
    """What becomes of a member whose attempts all fail."""

    KEEP_TRYING = "keep-trying"
    RAISE = "raise"


@dataclass(frozen=True, kw_only=True)
class RebalanceTimes:
    """The settings of this module."""

    max_retries: int = 4
    backoff_ms: float = 2000
    coalesce_ms: float = 50
    watchdog_ms: float = 10_000
    confirm_ms: float = 2000
    """How often a session is proven to live: a third of its timeout."""
    failure_policy: FailurePolicy = FailurePolicy.KEEP_TRYING


class Rebalancer:
    """The policy of one member. Every method takes the time in milliseconds."""

    def __init__(self, times: RebalanceTimes, chance: random.Random) -> None:
        self._times = times
        self._chance = chance
        self._session = SessionState.LOST
        self._is_registered = False
        self._has_balanced = False
        self._due = {Action.REGISTER: -inf, Action.REBALANCE: -inf}
        self._failures = 0
        self._failing_since_ms = inf
        self._missing_since_ms: dict[TopicAndPartition, float] = {}
        self._is_trouble_told = False
        self._renewals = 0
        self._end: Health | None = None
        self.reason = ""

    @property
    def health(self) -> Health:
        """How the member is, and `reason` says why it is DEGRADED or FAILED."""
        if self._end is not None:
            return self._end
        if self._session is SessionState.SUSPENDED:
            return Health.SUSPENDED
        if self._is_trouble_told:
            return Health.DEGRADED
        if self._session is SessionState.LOST and self._has_balanced:
            return Health.LOST
        if not self._has_balanced:
            return Health.JOINING
        return Health.REBALANCING if Action.REBALANCE in self._due else Health.STABLE

    # --- what to do

    def next_action(self, now_ms: float) -> Action | None:
        """What is due; None for nothing yet."""
        for action in self._possible():
            if self._due.get(action, inf) <= now_ms:
                return action
        return None

    def next_due_ms(self) -> float:
        """When something will be due if nothing happens."""
        return min((self._due.get(action, inf) for action in self._possible()), default=inf)

    def _possible(self) -> Iterable[Action]:
        if self._end is not None or self._session is not SessionState.CONNECTED:
            return ()
        if not self._is_registered:
            return (Action.REGISTER,)
        return (Action.REBALANCE, Action.RENEW, Action.INSPECT, Action.CONFIRM)

    # --- what happened

    def session_changed(self, state: SessionState, now_ms: float) -> None:
        """A new session has to register; one that came back has lost its watches and looks again."""
        self._session = state
        if state is SessionState.LOST:
            self._is_registered = False
            self._due = {Action.REGISTER: -inf, Action.REBALANCE: -inf}
            self._missing_since_ms.clear()
        elif state is SessionState.CONNECTED:
            self._due[Action.CONFIRM] = now_ms
            self.group_changed(now_ms)

    def group_changed(self, now_ms: float) -> None:
        """A watch fired, or the subscription changed."""
        pause_ms = self._times.coalesce_ms * self._chance.uniform(0.5, 1.0)
        for action in (Action.REBALANCE,) if self._is_registered else (Action.REGISTER,):
            self._due[action] = min(self._due.get(action, inf), now_ms + pause_ms)

    def confirmed(self, now_ms: float) -> None:
        """The session answered."""
        self._due[Action.CONFIRM] = now_ms + self._times.confirm_ms

    def registered(self, now_ms: float) -> None:
        """The member is in the group: others may change that, so it looks at once."""
        self._is_registered = True
        self._due.pop(Action.REGISTER, None)
        self._due[Action.REBALANCE] = now_ms

    def unregistered(self) -> None:
        """Somebody deleted our registration: the group does not count with us."""
        self._is_registered = False
        self._due[Action.REGISTER] = -inf

    def renewed(self) -> None:
        """Everybody looks again now; if that does not help, it is tried again less often."""
        self._due.pop(Action.RENEW, None)
        self._renewals += 1

    def balanced(self, now_ms: float) -> None:
        """An attempt ended well."""
        self._due.pop(Action.REBALANCE, None)
        self._has_balanced = True
        self._failures = 0
        self._failing_since_ms = inf
        self._inspect_later(now_ms)
        if not self._missing_since_ms:
            self._is_trouble_told = False

    def failed(self, action: Action, error: Exception, now_ms: float) -> None:
        """An action failed, and is due again after a pause. To register and to rebalance are what counts."""
        if action not in {Action.REGISTER, Action.REBALANCE}:
            self._due[action] = now_ms + self._times.backoff_ms
            return
        self._failures += 1
        self._failing_since_ms = min(self._failing_since_ms, now_ms)
        # Watches make attempts come sooner than backoffs; a dead member's session still has to expire first.
        patience_ms = (self._times.max_retries - 1) * self._times.backoff_ms
        was_patient = now_ms - self._failing_since_ms >= patience_ms * 0.75
        if self._failures >= self._times.max_retries and was_patient:
            self._give_up_hope(f"{self._failures} attempts to rebalance failed; the last: {error}")
        many = max(0, self._failures - self._times.max_retries)
        pause_ms = self._times.backoff_ms * min(2.0**many, BACKOFFS_MAX) * self._chance.uniform(0.75, 1.0)
        self._due[action] = now_ms + pause_ms

    def interrupted(self, action: Action, now_ms: float) -> None:
        """The session went away under an action: that is nobody's failure, and due again when it is back."""
        self._due[action] = now_ms + self._times.coalesce_ms
        self.group_changed(now_ms)

    def inspected(self, missing: Iterable[TopicAndPartition], now_ms: float) -> None:
        """What nobody reads. If that lasts, something is done about it."""
        self._missing_since_ms = {
            place: self._missing_since_ms.get(place, now_ms) for place in sorted(missing)
        }
        self._inspect_later(now_ms)
        if not self._missing_since_ms:
            self._is_trouble_told = False
            self._renewals = 0
            return
        since_ms = min(self._missing_since_ms.values())
        if now_ms - since_ms < self._times.watchdog_ms * min(2.0**self._renewals, BACKOFFS_MAX):
            return
        shown = ", ".join(str(place) for place in list(self._missing_since_ms)[:5])
        count = len(self._missing_since_ms)
        self._give_up_hope(f"nobody reads {count} partitions: {shown}{', …' if count > 5 else ''}")
        self._missing_since_ms = dict.fromkeys(self._missing_since_ms, now_ms)
        self._due[Action.REBALANCE] = now_ms
        self._due[Action.RENEW] = now_ms

    def close(self) -> None:
        """Nothing more is to be done."""
        self._end = self._end or Health.CLOSED

    def _inspect_later(self, now_ms: float) -> None:
        # At random, so that the members of a group do not all find the same at the same time.
        self._due[Action.INSPECT] = now_ms + self._times.watchdog_ms * self._chance.uniform(0.4, 0.6)

    def _give_up_hope(self, reason: str) -> None:
        self.reason = reason
        if self._times.failure_policy is FailurePolicy.RAISE:
            self._end = Health.FAILED
        self._is_trouble_told = True
