"""Requests of the classic protocol, and offsets, that concern a consumer group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.coordination.effects import Caller, client_error
from ottla.broker.groups.coordinator import joining
from ottla.broker.groups.coordinator.consumer_groups import classic_members, migration
from ottla.broker.groups.coordinator.consumer_groups.consumer_groups import ConsumerGroups
from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup
from ottla.broker.groups.coordinator.consumer_groups.heartbeat import known_static
from ottla.broker.groups.coordinator.consumer_groups.rules import RequestRefused
from ottla.broker.groups.coordinator.decision import CoordinatorStep, TimerKey, TimerKind
from ottla.model.error_codes import Code
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeavingMemberResponse,
)
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.declared_class import replaced
from ottla.wire.schema import Request

_TWO_STEP_SINCE = 4
_BATCHED_LEAVE_SINCE = 3


class ClassicRequests:
    """Decides these requests. `decide_again` decides a request by the kind that its group has by then."""

    def __init__(
        self,
        consumer: ConsumerGroups,
        decide_again: Callable[[Request[Any], Caller, CoordinatorStep], None],
    ) -> None:
        self._consumer = consumer
        self._decide_again = decide_again

    def _group(self, request: Any) -> ConsumerGroup:
        return self._consumer.groups[request.group_id]

    def join(self, request: JoinGroupRequest, caller: Caller, step: CoordinatorStep) -> None:
        """Decide a join. If it makes the group classic, it is decided again as a join to a classic group."""
        group = self._group(request)
        error = joining.request_error(request, step)
        if error:
            step.reply(caller, joining.refused(error, request.member_id))
            return
        if not group.members or self._replaces_last(group, request, step):
            self._make_classic(group, request, caller, step)
            return
        try:
            rules = self._consumer.rules(group.group_id, step)
            classic_members.check_join(group, request, rules)
            if not request.member_id:
                given = step.new_member_id(caller, request.group_instance_id)
                request = replaced(request, member_id=given)
                if request.group_instance_id is None and caller.version >= _TWO_STEP_SINCE:
                    raise RequestRefused(Code.MEMBER_ID_REQUIRED, "")
            elif request.group_instance_id is not None:
                static = group.static_member(request.group_instance_id)
                known_static(static, request.member_id, request.group_instance_id)
            draft = group.draft()
            response = classic_members.join(draft, request, caller, rules)
        except RequestRefused as refused:
            step.reply(caller, joining.refused(refused.code, request.member_id))
            return

        def stored(step: CoordinatorStep, error: Code) -> None:
            if error:
                step.reply(caller, joining.refused(client_error(error), request.member_id))
                return
            group.seen_topics = draft.group.seen_topics
            self._consumer.settle(group, response.member_id, step)
            member = group.members[response.member_id]
            group.clear_deadline(TimerKey(TimerKind.JOIN, member.member_id))
            sync_key = TimerKey(TimerKind.SYNC, member.member_id)
            group.set_deadline(sync_key, member.rebalance_timeout_ms, step)
            step.reply(caller, response)

        self._consumer.store(group.group_id, draft.records, stored, step)

    def _replaces_last(self, group: ConsumerGroup, request: JoinGroupRequest, step: CoordinatorStep) -> bool:
        """Whether a static member comes back with the classic protocol, and all others are classic too."""
        static = group.static_member(request.group_instance_id)
        if static is None or static.classic is not None or request.member_id:
            return False
        is_alone = len(group.members) == 1
        rules = self._consumer.rules(group.group_id, step)
        return is_alone or migration.may_downgrade(group, static.member_id, rules)

    def _make_classic(
        self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, step: CoordinatorStep
    ) -> None:
        """Delete a group without members, or make it classic; then decide the join again."""

        def changed(step: CoordinatorStep, error: Code) -> None:
            if error:
                step.reply(caller, joining.refused(client_error(error), request.member_id))
            else:
                self._decide_again(request, caller, step)

        static = group.static_member(request.group_instance_id)
        if static is not None and len(group.members) > 1:
            self._consumer.remove(group, [static.member_id], changed, step)
            return
        draft = group.draft()
        draft.remove_group()
        self._consumer.store(group.group_id, draft.records, changed, step)

    def sync(self, request: SyncGroupRequest, caller: Caller, step: CoordinatorStep) -> None:
        """Answer with the member's assignment."""
        group = self._group(request)
        try:
            response = classic_members.sync(group, request, self._consumer.rules(group.group_id, step))
        except RequestRefused as refused:
            if refused.code is Code.REBALANCE_IN_PROGRESS:
                self._expect_join(group, request.member_id, step)
            step.reply(caller, SyncGroupResponse(error_code=refused.code))
            return
        group.clear_deadline(TimerKey(TimerKind.SYNC, request.member_id))
        self._consumer.settle(group, request.member_id, step)
        step.reply(caller, response)

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, step: CoordinatorStep) -> None:
        """Prolong a member's session, and answer whether it has to join again."""
        group = self._group(request)
        try:
            error = Code.REBALANCE_IN_PROGRESS if self._must_rejoin(group, request, step) else Code.NONE
        except RequestRefused as refused:
            error = refused.code
        step.reply(caller, HeartbeatResponse(error_code=error))

    def _must_rejoin(self, group: ConsumerGroup, request: HeartbeatRequest, step: CoordinatorStep) -> bool:
        rules = self._consumer.rules(group.group_id, step)
        must_rejoin = classic_members.must_rejoin(group, request, rules)
        self._consumer.settle(group, request.member_id, step)
        if must_rejoin:
            self._expect_join(group, request.member_id, step)
        return must_rejoin

    def _expect_join(self, group: ConsumerGroup, member_id: str, step: CoordinatorStep) -> None:
        """Start the rebalance timeout of a member that must join again, if it does not run yet."""
        key = TimerKey(TimerKind.JOIN, member_id)
        if key not in group.deadlines:
            group.set_deadline(key, group.members[member_id].rebalance_timeout_ms, step)

    def leave(self, request: LeaveGroupRequest, caller: Caller, step: CoordinatorStep) -> None:
        """Remove classic members; the answer has an error for each that is not one."""
        group = self._group(request)
        batched = caller.version >= _BATCHED_LEAVE_SINCE
        leaving = request.members if batched else [LeavingMember(member_id=request.member_id)]
        leaving_ids: list[str] = []
        results = []
        for item in leaving:
            code = Code.NONE
            try:
                leaving_ids.append(_leaving_id(group, item))
            except RequestRefused as refused:
                code = refused.code
            results.append(
                LeavingMemberResponse(
                    member_id=item.member_id, group_instance_id=item.group_instance_id, error_code=code
                )
            )

        def stored(step: CoordinatorStep, error: Code) -> None:
            if error:
                step.reply(caller, LeaveGroupResponse(error_code=client_error(error)))
            elif batched:
                step.reply(caller, LeaveGroupResponse(members=results))
            else:
                step.reply(caller, LeaveGroupResponse(error_code=results[0].error_code))

        if leaving_ids:
            self._consumer.remove(group, list(dict.fromkeys(leaving_ids)), stored, step)
        else:
            stored(step, Code.NONE)


def _leaving_id(group: ConsumerGroup, leaving: LeavingMember) -> str:
    """Return the id of a leaving member, which may be named by its instance only. Raises RequestRefused."""
    if leaving.group_instance_id is not None and not leaving.member_id:
        static = group.static_member(leaving.group_instance_id)
        if static is None or static.classic is None:
            raise RequestRefused(
                Code.UNKNOWN_MEMBER_ID, f"Instance id {leaving.group_instance_id} is unknown."
            )
        return static.member_id
    return classic_members.known(group, leaving.member_id, leaving.group_instance_id)[0].member_id
