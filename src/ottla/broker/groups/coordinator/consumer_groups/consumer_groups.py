"""All consumer groups of a coordinator: their decisions, when they are stored, and what follows.

Decisions of one group are made one after the other: while records of a group are on their way into the log,
its requests and timers wait (`GroupTurns`), no longer than the rest of a turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.broker.coordination.effects import Caller, Record, client_error
from ottla.broker.groups.coordinator.consumer_groups import heartbeat as heartbeats
from ottla.broker.groups.coordinator.consumer_groups import migration, records
from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup, GroupDraft
from ottla.broker.groups.coordinator.consumer_groups.member import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ReconcilingState,
)
from ottla.broker.groups.coordinator.consumer_groups.rules import GroupRules, RequestRefused
from ottla.broker.groups.coordinator.consumer_groups.subscribing import refresh
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicsView
from ottla.broker.groups.coordinator.consumer_groups.turns import GroupTurns
from ottla.broker.groups.coordinator.deadlines import session_key
from ottla.broker.groups.coordinator.decision import (
    Continuation,
    CoordinatorStep,
    Timer,
    TimerKey,
    TimerKind,
)
from ottla.broker.groups.coordinator.group import CoordinatedGroup
from ottla.model.error_codes import Code
from ottla.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.declared_class import replaced


class ClassicGroups(Protocol):
    """What consumer groups need to know about classic groups."""

    def classic_group(self, group_id: str) -> CoordinatedGroup | None:
        """Return a classic group, or None."""

    def upgraded(self, group_id: str, step: CoordinatorStep) -> None:
        """Forget a classic group that is a consumer group now, and let waiting members join again."""

    def downgraded(self, group_id: str, step: CoordinatorStep) -> None:
        """Let the members of a consumer group that is classic now join again."""


class ConsumerGroups:
    """The groups by id. `topics` are those of the cluster, `overrides` the settings of single groups."""

    def __init__(
        self, topics: TopicsView, overrides: Callable[[str], GroupOverrides], classic: ClassicGroups
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.turns = GroupTurns()
        self._topics = topics
        self._overrides = overrides
        self._classic = classic

    def rules(self, group_id: str, step: CoordinatorStep) -> GroupRules:
        """Return the settings and topics of a group at the time of the step."""
        own = self._overrides(group_id)
        session_ms = own.get("consumer.session.timeout.ms", step.config.consumer_session_timeout_ms)
        interval_ms = own.get("consumer.heartbeat.interval.ms", step.config.consumer_heartbeat_interval_ms)
        assignment_ms = own.get(
            "consumer.assignment.interval.ms", step.config.consumer_assignment_interval_ms
        )
        return GroupRules(step.config, self._topics, step.now_ms, session_ms, interval_ms, assignment_ms)

    # --- replay

    def replay(self, record: Record) -> bool:
        """Apply one record; return whether it is one of a consumer group. Raises RemoteProtocolError."""
        entry = records.read(record)
        if entry is None:
            return False
        kind, group_id, part, stored = entry
        if kind == records.GROUP and stored is None:
            self.groups.pop(group_id, None)
        elif stored is not None or group_id in self.groups:
            self.groups.setdefault(group_id, ConsumerGroup(group_id)).apply(kind, part, stored)
        return True

    def start_sessions(self, group_id: str, step: CoordinatorStep) -> None:
        """Start the sessions of all members of a group that was loaded."""
        group = self.groups[group_id]
        for member_id in group.members:
            self.settle(group, member_id, step)

    # --- heartbeats

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, step: CoordinatorStep
    ) -> None:
        """Decide a heartbeat, and answer it when its changes are stored."""
        try:
            heartbeats.check(request, caller.version)
            if request.member_epoch < JOINING_EPOCH:
                self._leave(request, caller, step)
                return
            if not request.member_id:
                request = replaced(request, member_id=step.new_uuid())
            rules = self.rules(request.group_id, step)
            draft, is_upgrade = self._draft(request, rules)
            response = heartbeats.heartbeat(draft, request, caller, rules)
        except RequestRefused as refused:
            step.reply(caller, refusal(refused.code, refused.text))
            return

        def stored(step: CoordinatorStep, error: Code) -> None:
            if error:
                step.reply(caller, refusal(client_error(error)))
                return
            if is_upgrade:
                self._classic.upgraded(request.group_id, step)
                self.start_sessions(request.group_id, step)
            group = self.groups[request.group_id]
            group.seen_topics, group.unconfirmed = draft.group.seen_topics, draft.group.unconfirmed
            self.settle(group, response.member_id or "", step)
            step.reply(caller, response)

        self.store(draft.group.group_id, draft.records, stored, step)

    def _draft(self, request: ConsumerGroupHeartbeatRequest, rules: GroupRules) -> tuple[GroupDraft, bool]:
        """Return the copy of a group to decide on, and whether it was classic. Raises RequestRefused."""
        group = self.groups.get(request.group_id)
        if group is not None:
            return group.draft(), False
        if request.member_epoch != JOINING_EPOCH:
            raise RequestRefused(Code.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        classic = self._classic.classic_group(request.group_id)
        if classic is None:
            return GroupDraft(ConsumerGroup(request.group_id)), False
        return migration.upgraded(classic, rules), True

    def _leave(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, step: CoordinatorStep) -> None:
        """Remove a member, or note that a static member will be back. Raises RequestRefused."""
        group = self.groups.get(request.group_id)
        if group is None:
            raise RequestRefused(Code.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        member = heartbeats.leaving_member(group, request)

        def stored(step: CoordinatorStep, error: Code) -> None:
            refused = refusal(client_error(error)) if error else None
            step.reply(caller, refused or heartbeats.left(request))

        if request.member_epoch == STATIC_LEAVING_EPOCH:
            draft = group.draft()
            heartbeats.pause(draft, member)
            self.store(group.group_id, draft.records, stored, step)
        else:
            self.remove(group, [member.member_id], stored, step)

    # --- members leave

    def remove(
        self, group: ConsumerGroup, member_ids: list[str], then: Continuation, step: CoordinatorStep
    ) -> None:
        """Remove members. If only classic ones stay, the group becomes classic."""
        rules = self.rules(group.group_id, step)
        if len(member_ids) == 1 and migration.may_downgrade(group, member_ids[0], rules):
            self._make_classic(group.group_id, migration.downgraded(group, member_ids[0], rules), then, step)
            return
        draft = group.draft()
        for member_id in member_ids:
            draft.remove_member(member_id)
        refresh(draft, rules, must_bump=True)
        if not draft.group.members:
            draft.put_targets({}, draft.group.epoch, 0)  # nobody waits for another one

        def removed(step: CoordinatorStep, error: Code) -> None:
            if not error:
                for member_id in member_ids:
                    _clear_deadlines(group, member_id)
            then(step, error)

        self.store(group.group_id, draft.records, removed, step)

    def _make_classic(
        self, group_id: str, written: list[Record], then: Continuation, step: CoordinatorStep
    ) -> None:
        def changed(step: CoordinatorStep, error: Code) -> None:
            if not error:
                self._classic.downgraded(group_id, step)
            then(step, error)

        self.store(group_id, written, changed, step)

    def on_timer(self, timer: Timer, step: CoordinatorStep) -> None:
        """Remove the member of a deadline that has passed."""
        group = self.groups.get(timer.group_id)
        if group is None or not group.due(timer, step) or timer.key.member_id not in group.members:
            return
        self.remove(group, [timer.key.member_id], lambda _step, _error: None, step)

    def settle(self, group: ConsumerGroup, member_id: str, step: CoordinatorStep) -> None:
        """Start a member's session again, and its rebalance timeout if it has to give partitions up."""
        member = group.members.get(member_id)
        if member is None:
            return
        session_ms = self.rules(group.group_id, step).session_timeout_ms
        classic = member.classic
        group.set_deadline(
            session_key(member_id), classic.session_timeout_ms if classic else session_ms, step
        )
        key = TimerKey(TimerKind.REVOCATION, member_id)
        if classic is not None or member.state is not ReconcilingState.UNREVOKED_PARTITIONS:
            group.clear_deadline(key)
        elif key not in group.deadlines:
            group.set_deadline(key, member.rebalance_timeout_ms, step)

    def store(self, group_id: str, written: list[Record], then: Continuation, step: CoordinatorStep) -> None:
        """Store records of a group, then call `then`; requests of the group wait until then."""
        if not written:
            then(step, Code.NONE)
            return
        self.turns.begin(group_id)

        def stored(step: CoordinatorStep, error: Code) -> None:
            then(step, error)
            self.turns.end(group_id, step)

        step.append(group_id, written, stored)


GroupOverrides = dict[str, int]
"""Settings of one group, by their names in Kafka (resource type GROUP)."""


def refusal(code: Code, text: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """Return the answer to a heartbeat that is refused."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=text or code.text)


def _clear_deadlines(group: ConsumerGroup, member_id: str) -> None:
    for kind in TimerKind:
        group.clear_deadline(TimerKey(kind, member_id))
