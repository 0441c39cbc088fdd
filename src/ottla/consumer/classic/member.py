"""One member of a classic group: its state and its next steps. It decides; its thread performs the `effects`.

One thread owns it. Between two effects that thread passes events to it and asks for more work:

    while steps := member.work():           # None: nothing is due before `next_due_ms`
        perform the effects that `steps` yields, one by one
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.consumer.classic.assignors import Assignor
from ottla.consumer.classic.attempt import Balance, attempt, confirm, drop, inspect, leave
from ottla.consumer.classic.effects import Steps
from ottla.consumer.classic.group_view import NotRegistered, ViewRules
from ottla.consumer.classic.ownership import Ownership, register, renew_registration
from ottla.consumer.classic.rebalancer import MemberAction, Rebalancer, RebalanceTimes
from ottla.consumer.reading.health import Health
from ottla.model.chance import Chance
from ottla.model.errors import ConsumerIdInUse, OttlaError
from ottla.zookeeper.session import SessionState
from ottla.zookeeper.zookeeper_errors import NoNode, SessionClosed, SessionLost, ZooKeeperConnectionLost


class ClassicMember:
    """`registration`: the bytes of its registration node. `now_ms`: its clock."""

    def __init__(
        self,
        rules: ViewRules,
        assignor: Assignor,
        registration: bytes,
        *,
        times: RebalanceTimes,
        chance: Chance,
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
        self._work: dict[MemberAction, Callable[[], Steps[None]]] = {
            MemberAction.REGISTER: self._register,
            MemberAction.REBALANCE: self._rebalance,
            MemberAction.RENEW: self._renew,
            MemberAction.CONFIRM: self._confirm,
            MemberAction.INSPECT: self._inspect,
        }

    @property
    def health(self) -> Health:
        """The member's health."""
        return self._rebalancer.health

    @property
    def reason(self) -> str:
        """Why the member is DEGRADED or FAILED."""
        return self._rebalancer.reason

    @property
    def next_due_ms(self) -> float:
        """When work is due if no event comes before."""
        return self._rebalancer.next_due_ms()

    def work(self) -> Steps[None] | None:
        """Return the steps to perform now, or None if nothing is due. The steps raise nothing."""
        action = self._rebalancer.next_action(self._now_ms())
        return None if action is None else self._guarded(action, self._work[action])

    def group_changed(self) -> None:
        """A watch fired."""
        self._rebalancer.group_changed(self._now_ms())

    def session_changed(self, state: SessionState, session_id: int) -> Steps[None] | None:
        """The session has a new state. Return the steps to perform before anything else, if any."""
        self._rebalancer.session_changed(state, self._now_ms())
        if state is SessionState.CONNECTED:
            self.ownership.session_id = session_id
        return drop(self.ownership) if state is SessionState.LOST else None

    def leave(self) -> Steps[None]:
        """Return the steps that commit, release everything and unregister. No work is due afterwards."""
        self._rebalancer.close()
        return self._guarded(MemberAction.REBALANCE, partial(leave, self.ownership))

    def _guarded(self, action: MemberAction, work: Callable[[], Steps[None]]) -> Steps[None]:
        began_ms = self._now_ms()
        try:
            yield from work()
        except (ZooKeeperConnectionLost, SessionLost, SessionClosed) as error:
            self.last_error = error
            self._rebalancer.interrupted(action, self._now_ms())
        except (NotRegistered, NoNode) as error:
            self.last_error = error
            self._rebalancer.unregistered()
        except ConsumerIdInUse as error:
            self.last_error = error
            self._rebalancer.id_refused(error, began_ms, self._now_ms())
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
            inspection = yield from inspect(self._rules, self.ownership, self.balance)
            self._rebalancer.inspected(inspection.missing, self._now_ms())
            if inspection.stolen or inspection.has_news:
                self.group_changed()  # at once: another member may read a stolen partition any moment
