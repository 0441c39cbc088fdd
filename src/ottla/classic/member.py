"""One member of a group: what it has, what it does next. Decides; somebody else performs (`effects`).

Its owner is one thread, which between two effects tells it of events and asks for more work:

    while steps := member.work():           # nothing is due: wait for an event or until `next_due_ms`
        perform the effects that steps yields, one by one
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from ottla.classic.assignors import Assignor
from ottla.classic.attempt import Balance, attempt, confirm, drop, inspect, leave
from ottla.classic.effects import Steps
from ottla.classic.group_view import NotRegistered, ViewRules
from ottla.classic.ownership import Ownership, register, renew_registration
from ottla.classic.rebalancer import Action, Health, Rebalancer, RebalanceTimes
from ottla.model.errors import OttlaError
from ottla.zookeeper.errors import ConnectionLost, NoNode, SessionClosed, SessionLost
from ottla.zookeeper.session import SessionState


class Member:
    """`registration` are the bytes of its node, `now_ms` is its clock."""

    def __init__(
        self,
        rules: ViewRules,
        assignor: Assignor,
        registration: bytes,
        *,
        times: RebalanceTimes,
        chance: random.Random,
        now_ms: Callable[[], float],
    ) -> None:
        self.ownership = Ownership(rules.group_id, rules.consumer)
        self.balance: Balance | None = None
        self.last_error: OttlaError | None = None
        self._rules = rules
        self._assignor = assignor
        self._registration = registration
        self._rebalancer = Rebalancer(times, chance)
        self._now_ms = now_ms
        self._work: dict[Action, Callable[[], Steps[None]]] = {
            Action.REGISTER: self._register,
            Action.REBALANCE: self._rebalance,
            Action.RENEW: self._renew,
            Action.CONFIRM: self._confirm,
            Action.INSPECT: self._inspect,
        }

    @property
    def health(self) -> Health:
        """How it is."""
        return self._rebalancer.health

    @property
    def reason(self) -> str:
        """Why it is DEGRADED or FAILED."""
        return self._rebalancer.reason

    @property
    def next_due_ms(self) -> float:
        """When there will be work if nothing happens."""
        return self._rebalancer.next_due_ms()

    def work(self) -> Steps[None] | None:
        """What is to be done now, if anything. Raises nothing."""
        action = self._rebalancer.next_action(self._now_ms())
        return None if action is None else self._guarded(action, self._work[action])

    def group_changed(self) -> None:
        """A watch fired."""
        self._rebalancer.group_changed(self._now_ms())

    def session_changed(self, state: SessionState, session_id: int) -> Steps[None] | None:
        """The session's new state; what has to be done about it before anything else."""
        self._rebalancer.session_changed(state, self._now_ms())
        if state is SessionState.CONNECTED:
            self.ownership.session_id = session_id
        return drop(self.ownership) if state is SessionState.LOST else None

    def leave(self) -> Steps[None]:
        """Give everything back, in good order; there is no work any more."""
        self._rebalancer.close()
        return self._guarded(Action.REBALANCE, partial(leave, self.ownership))

    def _guarded(self, action: Action, work: Callable[[], Steps[None]]) -> Steps[None]:
        try:
            yield from work()
        except (ConnectionLost, SessionLost, SessionClosed) as error:
            self.last_error = error
            self._rebalancer.interrupted(action, self._now_ms())
        except (NotRegistered, NoNode) as error:
            self.last_error = error
            self._rebalancer.unregistered()
        except OttlaError as error:
            self.last_error = error
            self._rebalancer.failed(action, error, self._now_ms())

    def _register(self) -> Steps[None]:
        yield from register(self.ownership, self._registration)
        self._rebalancer.registered(self._now_ms())

    def _rebalance(self) -> Steps[None]:
        self.balance = yield from attempt(self._rules, self.ownership, self._assignor)
        self._rebalancer.balanced(self._now_ms())

    def _renew(self) -> Steps[None]:
        yield from renew_registration(self.ownership, self._registration)
        self._rebalancer.renewed()

    def _confirm(self) -> Steps[None]:
        yield from confirm(self.ownership)
        self._rebalancer.confirmed(self._now_ms())

    def _inspect(self) -> Steps[None]:
        if self.balance is not None:
            found = yield from inspect(self._rules, self.ownership, self.balance)
            self._rebalancer.inspected(found.missing, self._now_ms())
            if found.stolen or found.has_news:
                self.group_changed()  # at once: another may read what was stolen any moment
