"""Faults in what a coordinator answers to a member."""

from __future__ import annotations

from typing import Any

from ottla import Code, EmbeddedBroker
from ottla.client.reactions import Call
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from ottla.wire.schema import Request
from tests.blocking_client import BlockingClient


class MemberFault:
    """One such answer. After UNKNOWN_MEMBER_ID, `forget` makes the coordinator really forget the member.

    Otherwise the group would wait for it until its session ends, and the member would wait for the group.
    """

    def __init__(self, broker: EmbeddedBroker, call: Call, code: Code) -> None:
        self._broker, self._code = broker, code
        self._members: list[tuple[str, str]] = []
        self._rule = broker.fail(call.value, code, when=self._notes)

    def _notes(self, request: Request[Any]) -> bool:
        self._members.append((getattr(request, "group_id", ""), getattr(request, "member_id", "")))
        return True

    @property
    def has_struck(self) -> bool:
        """Whether the answer was given."""
        return bool(self._rule.struck)

    def forget(self) -> None:
        """Let the member that got the answer leave, if the answer says that it is unknown; once."""
        if self._code is not Code.UNKNOWN_MEMBER_ID or not self.has_struck:
            return
        while self._members:
            group, member = self._members.pop()
            if member:
                host, _, port = self._broker.bootstrap.partition(":")
                with BlockingClient(host, int(port)) as client:
                    client.call(LeaveGroupRequest(group_id=group, members=[LeavingMember(member_id=member)]))
