"""When a member registers, rebalances, waits and checks itself. Pure: the caller passes the time.

- A watch fired: a rebalance is due after a short random pause, so that many events become one rebalance and
  the members of a group do not all start at the same moment.
- An attempt failed: the next one is due after rebalance.backoff.ms, sooner if a watch fires.
- rebalance.max.retries attempts failed, over as many backoffs: DEGRADED. More attempts follow, less and less
  often.
- A partition has had no reader for rebalance.watchdog.ms: DEGRADED. The member rebalances and renews its
  registration, so that members that gave up look at the group again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf

from ottla.consumer.reading.health import Health
from ottla.model.chance import Chance
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper.session import SessionState

BACKOFFS_MAX = 8
"""A DEGRADED member waits for at most this many backoffs between two attempts."""


class HealthEvent(Enum):
    """What changes the health of a member."""

    CHANGED = "a rebalance is due"
    BALANCED = "an attempt succeeded"
    TROUBLE = "attempts failed, or a partition has no reader"
    REPAIRED = "every partition has a reader again"
    SESSION_LOST = "the ZooKeeper session expired"
    GAVE_UP = "failure policy raise, or the consumer.id is taken"
    CLOSED = "the connector was shut down"


_ENDS = (Health.FAILED, Health.CLOSED)
_LIVE = (Health.JOINING, Health.STABLE, Health.REBALANCING, Health.DEGRADED, Health.LOST)

HEALTH_TABLE: Mapping[tuple[Health, HealthEvent], Health] = {
    (Health.JOINING, HealthEvent.BALANCED): Health.STABLE,
    (Health.JOINING, HealthEvent.TROUBLE): Health.DEGRADED,
    (Health.STABLE, HealthEvent.CHANGED): Health.REBALANCING,
    (Health.STABLE, HealthEvent.TROUBLE): Health.DEGRADED,
    (Health.STABLE, HealthEvent.SESSION_LOST): Health.LOST,
    (Health.REBALANCING, HealthEvent.BALANCED): Health.STABLE,
    (Health.REBALANCING, HealthEvent.TROUBLE): Health.DEGRADED,
    (Health.REBALANCING, HealthEvent.SESSION_LOST): Health.LOST,
    (Health.DEGRADED, HealthEvent.REPAIRED): Health.STABLE,
    (Health.LOST, HealthEvent.CHANGED): Health.REBALANCING,
    (Health.LOST, HealthEvent.TROUBLE): Health.DEGRADED,
    **{(health, HealthEvent.GAVE_UP): Health.FAILED for health in _LIVE},
    **{(health, HealthEvent.CLOSED): Health.CLOSED for health in _LIVE},
}
"""(health, event) → the next health; an event that is not listed for a health changes nothing.

SUSPENDED is not in the table: it covers every state while the connection to ZooKeeper is in doubt, and the
state below it shows again when the connection is back.
"""


class MemberAction(Enum):
    """What a member does next."""

    REGISTER = "register"
    REBALANCE = "rebalance"
    RENEW = "renew the registration"
    CONFIRM = "confirm the session"
    INSPECT = "inspect the group"


POSSIBLE_ACTIONS: Mapping[bool, tuple[MemberAction, ...]] = {
    False: (MemberAction.REGISTER,),
    True: (MemberAction.REBALANCE, MemberAction.RENEW, MemberAction.INSPECT, MemberAction.CONFIRM),
}
"""Is the member registered? → the actions that it may do, most urgent first."""


class FailurePolicy(Enum):
    """What happens to a member whose attempts all fail."""

    KEEP_TRYING = "keep-trying"
    RAISE = "raise"


@dataclass(frozen=True, kw_only=True)
class RebalanceTimes:
    """The settings of this module."""

    max_retries: int = 4
    backoff_ms: float = 2000
    coalesce_ms: float = 50
    watchdog_ms: float = 10_000
    session_timeout_ms: float = 6000
    failure_policy: FailurePolicy = FailurePolicy.KEEP_TRYING

    @property
    def confirm_ms(self) -> float:
        """How often the member proves that its session lives: three times per session timeout."""
        return self.session_timeout_ms / 3


class Rebalancer:
    """The policy of one member. `now_ms` is always the current time in milliseconds."""

    def __init__(self, times: RebalanceTimes, chance: Chance) -> None:
        self._times = times
        self._chance = chance
        self._session = SessionState.LOST
        self._health = Health.JOINING
        self._is_registered = False
        self._was_registered = False
        self._due = {MemberAction.REGISTER: -inf, MemberAction.REBALANCE: -inf}
        self._failures = 0
        self._failing_since_ms = inf
        self._missing_since_ms: dict[TopicAndPartition, float] = {}
        self._renewals = 0
        self.reason = ""
        """Why the member is DEGRADED or FAILED."""

    @property
    def health(self) -> Health:
        """The member's health; `reason` says why it is DEGRADED or FAILED."""
        is_suspended = self._session is SessionState.SUSPENDED and self._health not in _ENDS
        return Health.SUSPENDED if is_suspended else self._health

    def _apply(self, event: HealthEvent) -> None:
        self._health = HEALTH_TABLE.get((self._health, event), self._health)

    # --- what to do

    def next_action(self, now_ms: float) -> MemberAction | None:
        """Return the most urgent action that is due, or None."""
        for action in self._possible():
            if self._due.get(action, inf) <= now_ms:
                return action
        return None

    def next_due_ms(self) -> float:
        """Return when the next action is due if no event comes before."""
        return min((self._due.get(action, inf) for action in self._possible()), default=inf)

    def _possible(self) -> tuple[MemberAction, ...]:
        if self._health in _ENDS or self._session is not SessionState.CONNECTED:
            return ()
        return POSSIBLE_ACTIONS[self._is_registered]

    # --- what happened

    def session_changed(self, state: SessionState, now_ms: float) -> None:
        """The session has a new state. A new session must register; a resumed one has lost its watches."""
        self._session = state
        if state is SessionState.LOST:
            self._is_registered = False
            self._due = {MemberAction.REGISTER: -inf, MemberAction.REBALANCE: -inf}
            self._missing_since_ms.clear()
            self._apply(HealthEvent.SESSION_LOST)
        elif state is SessionState.CONNECTED:
            self._due[MemberAction.CONFIRM] = now_ms
            self.group_changed(now_ms)
            self._apply(HealthEvent.CHANGED)

    def group_changed(self, now_ms: float) -> None:
        """A watch fired, or the subscription changed."""
        pause_ms = self._times.coalesce_ms * self._chance.uniform(0.5, 1.0)
        action = MemberAction.REBALANCE if self._is_registered else MemberAction.REGISTER
        self._due[action] = min(self._due.get(action, inf), now_ms + pause_ms)
        if self._is_registered:
            self._apply(HealthEvent.CHANGED)

    def confirmed(self, now_ms: float) -> None:
        """ZooKeeper answered: the session lives."""
        self._due[MemberAction.CONFIRM] = now_ms + self._times.confirm_ms

    def registered(self, now_ms: float) -> None:
        """The member is registered; the group may have changed meanwhile, so it rebalances at once."""
        self._is_registered = self._was_registered = True
        self._failing_since_ms = inf if not self._failures else self._failing_since_ms
        self._due.pop(MemberAction.REGISTER, None)
        self._due[MemberAction.REBALANCE] = now_ms
        self._apply(HealthEvent.CHANGED)

    def unregistered(self) -> None:
        """Somebody deleted our registration: the others do not count us as a member any more."""
        self._is_registered = False
        self._due[MemberAction.REGISTER] = -inf

    def id_refused(self, error: Exception, began_ms: float, now_ms: float) -> None:
        """Another session was registered with our consumer.id when an attempt began.

        It may be our own former session, which ends within the session timeout. If an attempt that begins
        after that is refused too, another member has the id, and this one ends. A process that was suspended
        may read an old refusal late; such a refusal does not count.
        """
        if self._was_registered:
            self.failed(MemberAction.REGISTER, error, now_ms)
            return
        self._failing_since_ms = min(self._failing_since_ms, began_ms)
        ends_ms = self._failing_since_ms + self._times.session_timeout_ms
        if began_ms >= ends_ms:
            self.reason = str(error)
            self._apply(HealthEvent.GAVE_UP)
        self._due[MemberAction.REGISTER] = min(now_ms + self._times.backoff_ms, ends_ms)

    def renewed(self) -> None:
        """Note that the registration was renewed.

        If partitions stay without a reader, it is renewed again, less and less often.
        """
        self._due.pop(MemberAction.RENEW, None)
        self._renewals += 1

    def balanced(self, now_ms: float) -> None:
        """An attempt succeeded."""
        self._due.pop(MemberAction.REBALANCE, None)
        self._failures = 0
        self._failing_since_ms = inf
        self._inspect_later(now_ms)
        self._apply(HealthEvent.BALANCED)
        if not self._missing_since_ms:
            self._apply(HealthEvent.REPAIRED)

    def failed(self, action: MemberAction, error: Exception, now_ms: float) -> None:
        """An action failed and is due again after a pause. Only REGISTER and REBALANCE count as attempts."""
        if action not in {MemberAction.REGISTER, MemberAction.REBALANCE}:
            self._due[action] = now_ms + self._times.backoff_ms
            return
        self._failures += 1
        self._failing_since_ms = min(self._failing_since_ms, now_ms)
        # Watches make attempts come sooner than backoffs; a dead member's session still has to expire first.
        patience_ms = (self._times.max_retries - 1) * self._times.backoff_ms
        was_patient = now_ms - self._failing_since_ms >= patience_ms * 0.75
        if self._failures >= self._times.max_retries and was_patient:
            self._trouble(f"{self._failures} attempts to rebalance failed; the last: {error}")
        beyond = max(0, self._failures - self._times.max_retries)
        pause_ms = self._times.backoff_ms * min(2.0**beyond, BACKOFFS_MAX) * self._chance.uniform(0.75, 1.0)
        self._due[action] = now_ms + pause_ms

    def interrupted(self, action: MemberAction, now_ms: float) -> None:
        """The session was cut during an action: not a failure. It is due again when the session is back."""
        self._due[action] = now_ms + self._times.coalesce_ms
        self.group_changed(now_ms)

    def inspected(self, missing: Iterable[TopicAndPartition], now_ms: float) -> None:
        """Note what the watchdog saw: the partitions in `missing` have no reader.

        If that lasts for rebalance.watchdog.ms, the member rebalances and renews its registration.
        """
        self._missing_since_ms = {
            topic_partition: self._missing_since_ms.get(topic_partition, now_ms)
            for topic_partition in sorted(missing)
        }
        self._inspect_later(now_ms)
        if not self._missing_since_ms:
            self._renewals = 0
            self._apply(HealthEvent.REPAIRED)
            if MemberAction.REBALANCE in self._due:
                self._apply(HealthEvent.CHANGED)
            return
        since_ms = min(self._missing_since_ms.values())
        if now_ms - since_ms < self._times.watchdog_ms * min(2.0**self._renewals, BACKOFFS_MAX):
            return
        listed = ", ".join(map(str, list(self._missing_since_ms)[:5]))
        count = len(self._missing_since_ms)
        self._trouble(f"nobody reads {count} partitions: {listed}{', …' if count > 5 else ''}")
        self._missing_since_ms = dict.fromkeys(self._missing_since_ms, now_ms)
        self._due[MemberAction.REBALANCE] = now_ms
        self._due[MemberAction.RENEW] = now_ms

    def close(self) -> None:
        """End all actions. A FAILED member stays FAILED."""
        self._apply(HealthEvent.CLOSED)

    def _inspect_later(self, now_ms: float) -> None:
        # At random, so that the members of a group do not all act on the same finding at once.
        self._due[MemberAction.INSPECT] = now_ms + self._times.watchdog_ms * self._chance.uniform(0.4, 0.6)

    def _trouble(self, reason: str) -> None:
        self.reason = reason
        raises = self._times.failure_policy is FailurePolicy.RAISE
        self._apply(HealthEvent.GAVE_UP if raises else HealthEvent.TROUBLE)
