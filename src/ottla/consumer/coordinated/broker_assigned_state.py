"""The states of a member of a consumer group (KIP-848), whose broker assigns, as one table.

Theory of operation. The member's heartbeats do everything: the first one joins, and any answer may bring
another assignment. Then the *application* gives partitions up and takes others (an `AssignmentChange`), and
the next heartbeat, which leaves at once, says what the member has now. The broker gives a partition to
another member only then. A member that is fenced loses all that it has, and joins again.

The table is drawn in docs/state-machines.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ottla.consumer.coordinated.member_state import MemberEvent, MemberState

_S, _E = MemberState, MemberEvent

_FROM_ANYWHERE = {_E.EVICTED: _S.REVOKING, _E.REFUSED: _S.FAILED, _E.LEAVE: _S.LEFT}

TRANSITIONS: Mapping[MemberState, Mapping[MemberEvent, MemberState]] = MappingProxyType(
    {
        _S.JOINING: {_E.JOINED: _S.STABLE, **_FROM_ANYWHERE},
        _S.STABLE: {_E.GIVEN: _S.ADOPTING, **_FROM_ANYWHERE},
        _S.ADOPTING: {_E.DONE: _S.STABLE, **_FROM_ANYWHERE},
        _S.REVOKING: {_E.DONE: _S.JOINING, **_FROM_ANYWHERE},
        _S.FAILED: {_E.LEAVE: _S.LEFT, _E.RETRIED: _S.JOINING},
        _S.LEFT: {},
    }
)
