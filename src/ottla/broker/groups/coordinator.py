"""The group coordinator: every group of the partitions of `__consumer_offsets` that this broker leads.

    loop ── decide(request) ──▶ Coordinator ──▶ Decision: replies, appends, timers ──▶ loop
    loop ── on_append_result ─▶     │ replay(record), then what waited for it
    loop ── on_timer, expire ─▶     │

Two kinds of state, changed in two ways. What survives a restart (`store`) is changed by the replay of
stored records and by nothing else: a decision that needs it writes records first, and continues when they
are in the log. Who is in a group right now, who waits and until when (`group`) is volatile, and changes as
requests and timers come in. After a restart it is made anew from what was stored: the members of the last
stored generation are back, their sessions start at the time of loading, and who waited asks again.

Owner: the broker's loop. Nothing here blocks, reads a clock or raises on a client's account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

from ottla.broker.groups import joining, listing, membership, offsets
from ottla.broker.groups.config import GroupConfig
from ottla.broker.groups.decision import Append, Caller, Decision, Draft, Timer, TimerKind, Turn, offset_error
from ottla.broker.groups.expiry import expired_records, is_idle
from ottla.broker.groups.group import Group
from ottla.broker.groups.rebalance import join_phase_timed_out, session_timed_out, sync_phase_timed_out
from ottla.broker.groups.records import (
    OffsetKey,
    Record,
    group_tombstone,
    offset_tombstone,
    partition_for,
    read_key,
)
from ottla.broker.groups.state import GroupEvent, GroupState
from ottla.broker.groups.store import GroupStore
from ottla.model.error_codes import Code
from ottla.model.errors import LocalProtocolError
from ottla.wire.api.delete_groups import DeletedGroup, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.api.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.api.offset_fetch import OffsetFetchGroup, OffsetFetchGroupResponse, OffsetFetchRequest
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.schema import Request

# A client id may fill a whole string of the protocol; with something behind it, it would be too long for one.
MEMBER_NAME_LENGTH_MAX = 255


class PartitionState(StrEnum):
    """A partition of the offsets topic that this broker leads; others are absent."""

    LOADING = "loading"
    ACTIVE = "active"


class Coordinator:
    """All groups of one broker. See `decision` for what the caller owes."""

    def __init__(self, config: GroupConfig, new_uuid: Callable[[], str]) -> None:
        self._config = config
        self._new_uuid = new_uuid
        self._store = GroupStore()
        self._groups: dict[str, Group] = {}
        self._partitions: dict[int, PartitionState] = {}
        self._in_flight: dict[int, tuple[int, Draft]] = {}
        self._append_count = 0
        self._handlers: dict[type[Request[Any]], Callable[[Any, Caller, Turn], None]] = {
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: self._heartbeat,
            LeaveGroupRequest: self._leave,
            OffsetCommitRequest: self._commit,
            OffsetFetchRequest: self._fetch,
            OffsetDeleteRequest: self._delete_offsets,
            DescribeGroupsRequest: self._describe,
            ListGroupsRequest: self._list,
            DeleteGroupsRequest: self._delete_groups,
        }

    # --- partitions come and go -------------------------------------------------------------------------

    def begin_load(self, partition: int) -> None:
        """This broker leads `partition` now; until `finish_load` its groups are asked to wait."""
        self._partitions[partition] = PartitionState.LOADING

    def replay(self, record: Record) -> None:
        """Take over one record of a partition that is being loaded, in the order of the log.

        Raises RemoteProtocolError when it is damaged; nothing has changed then.
        """
        self._store.replay(record)

    def finish_load(self, partition: int, now_ms: int) -> Decision:
        """All records were replayed: the partition's groups go on, with sessions that start now."""
        self._partitions[partition] = PartitionState.ACTIVE
        turn = self._turn(now_ms)
        for group_id in [one for one in self._store.group_ids() if self._partition(one) == partition]:
            group = self._group(group_id)
            for member in group.members.values() if group else ():
                assert group is not None
                group.start_session(member, turn)
        return self._decision(turn)

    def unload(self, partition: int, now_ms: int) -> Decision:
        """Another broker leads `partition` now: forget its groups, and send all who wait there."""
        self._partitions.pop(partition, None)
        turn = self._turn(now_ms)
        for group_id in [one for one in self._groups if self._partition(one) == partition]:
            membership.dismiss(self._groups.pop(group_id), turn)
        for append_id in [one for one, (where, _) in self._in_flight.items() if where == partition]:
            _, draft = self._in_flight.pop(append_id)
            draft.then(turn, Code.NOT_LEADER_OR_FOLLOWER)
        for group_id in [one for one in self._store.group_ids() if self._partition(one) == partition]:
            self._store.forget_group(group_id)
        return self._decision(turn)

    # --- events -----------------------------------------------------------------------------------------

    def decide(self, request: Request[Any], caller: Caller, now_ms: int) -> Decision:
        """Decide a request; without a reply in the decision it is parked.

        Raises LocalProtocolError for a request that is not the coordinator's.
        """
        handler = self._handlers.get(type(request))
        if handler is None:
            known = ", ".join(sorted(kind.__name__ for kind in self._handlers))
            raise LocalProtocolError(
                f"{type(request).__name__} is not for the group coordinator, but {known}"
            )
        turn = self._turn(now_ms)
        handler(request, caller, turn)
        return self._decision(turn)

    def on_append_result(self, append_id: int, error: Code, now_ms: int) -> Decision:
        """An append was written (error NONE) or not at all. Unknown ids are of unloaded partitions."""
        turn = self._turn(now_ms)
        found = self._in_flight.pop(append_id, None)
        if found is not None:
            _, draft = found
            if not error:
                for record in draft.records:
                    self._store.replay(record)
            draft.then(turn, error)
        return self._decision(turn)

    def on_timer(self, timer: Timer, now_ms: int) -> Decision:
        """A timer of an earlier decision has fired; late or twice does no harm."""
        turn = self._turn(now_ms)
        group = self._groups.get(timer.group_id)
        if group is not None and group.due(timer, turn):
            match timer.key.kind:
                case TimerKind.SESSION:
                    session_timed_out(group, timer.key.member_id, turn)
                case TimerKind.JOIN:
                    join_phase_timed_out(group, turn)
                case TimerKind.SYNC:
                    sync_phase_timed_out(group, turn)
        return self._decision(turn)

    def expire(self, now_ms: int) -> Decision:
        """Drop what is out of date; to be called every offsets.retention.check.interval.ms. Groups whose
        records are on the way into the log are left for the next time."""
        turn = self._turn(now_ms)
        busy = {draft.group_id for _, draft in self._in_flight.values()}
        for group in [one for one in self._active_groups() if one.group_id not in busy]:
            records = expired_records(group, self._store, now_ms, self._config.offsets_retention_ms)
            if records:
                turn.append(group.group_id, records, self._burial(group.group_id))
        return self._decision(turn)

    def forget_topic(self, topic: str, now_ms: int) -> Decision:
        """A topic was deleted: what groups have committed of it goes, whether or not they read it."""
        turn = self._turn(now_ms)
        committing = [draft.group_id for _, draft in self._in_flight.values()]
        for group_id in dict.fromkeys([*self._store.group_ids(), *committing]):
            records = [] if self._availability(group_id) else self._offset_tombstones(group_id, topic)
            if records:
                turn.append(group_id, records, self._burial(group_id))
        return self._decision(turn)

    def group_states(self) -> Counter[str]:
        """How many groups there are, by state."""
        return Counter(str(group.state) for group in self._active_groups())

    # --- requests of members ----------------------------------------------------------------------------

    def _join(self, request: JoinGroupRequest, caller: Caller, turn: Turn) -> None:
        error = self._group_error(request.group_id) or joining.request_error(request, turn)
        group = self._group(request.group_id)
        if not error and group is None and request.member_id:
            error = Code.UNKNOWN_MEMBER_ID
        if error:
            turn.reply(caller, joining.refused(error, request.member_id))
            return
        group = group or Group(request.group_id)
        joining.join(group, request, caller, turn)
        if not is_idle(group):
            self._groups[request.group_id] = group

    def _sync(self, request: SyncGroupRequest, caller: Caller, turn: Turn) -> None:
        error, group = self._members_group(request.group_id)
        if error is Code.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance did not survive the restart, and old clients do not expect the true reason here.
            error = Code.REBALANCE_IN_PROGRESS
        if group is None:
            turn.reply(caller, SyncGroupResponse(error_code=error))
        else:
            membership.sync(group, request, caller, turn)

    def _heartbeat(self, request: HeartbeatRequest, caller: Caller, turn: Turn) -> None:
        error, group = self._members_group(request.group_id)
        if error is Code.COORDINATOR_LOAD_IN_PROGRESS:
            # Nothing is known against the member, and its session will start anew anyway.
            error = Code.NONE
        if group is None:
            turn.reply(caller, HeartbeatResponse(error_code=error))
        else:
            membership.heartbeat(group, request, caller, turn)

    def _leave(self, request: LeaveGroupRequest, caller: Caller, turn: Turn) -> None:
        error = self._group_error(request.group_id)
        if error:
            turn.reply(caller, LeaveGroupResponse(error_code=error))
        else:
            membership.leave(self._group(request.group_id), request, caller, turn)

    def _commit(self, request: OffsetCommitRequest, caller: Caller, turn: Turn) -> None:
        error = self._availability(request.group_id)
        if error:
            turn.reply(caller, offsets.commit_refused(request, error))
        else:
            offsets.commit(self._group(request.group_id), request, caller, turn)

    def _fetch(self, request: OffsetFetchRequest, caller: Caller, turn: Turn) -> None:
        asked = offsets.asked_groups(request, caller.version)
        groups = [self._fetched(one, caller.version) for one in asked]
        turn.reply(caller, offsets.fetch_response(groups, caller.version))

    def _fetched(self, asked: OffsetFetchGroup, version: int) -> OffsetFetchGroupResponse:
        error = self._availability(asked.group_id)
        if error:
            return offsets.fetch_refused(asked, error, version)
        return offsets.fetched(asked, self._store)

    def _delete_offsets(self, request: OffsetDeleteRequest, caller: Caller, turn: Turn) -> None:
        error = self._group_error(request.group_id)
        if error:
            turn.reply(caller, OffsetDeleteResponse(error_code=error))
        else:
            offsets.delete(self._group(request.group_id), request, caller, turn)

    # --- requests of tools ------------------------------------------------------------------------------

    def _describe(self, request: DescribeGroupsRequest, caller: Caller, turn: Turn) -> None:
        groups = [self._described(group_id, caller.version) for group_id in request.groups]
        turn.reply(caller, DescribeGroupsResponse(groups=groups))

    def _described(self, group_id: str, version: int) -> DescribedGroup:
        error = self._group_error(group_id)
        if error:
            return listing.refused(group_id, error)
        group = self._group(group_id)
        return listing.unknown(group_id, version) if group is None else listing.described(group)

    def _list(self, request: ListGroupsRequest, caller: Caller, turn: Turn) -> None:
        loading = PartitionState.LOADING in self._partitions.values()
        error = Code.COORDINATOR_LOAD_IN_PROGRESS if loading else Code.NONE
        groups = listing.listed(self._active_groups(), request)
        turn.reply(caller, ListGroupsResponse(error_code=error, groups=groups))

    def _delete_groups(self, request: DeleteGroupsRequest, caller: Caller, turn: Turn) -> None:
        """Delete groups that are empty, one append each; answer when all are decided."""
        names = list(dict.fromkeys(request.groups_names))
        results = {group_id: self._delete_error(group_id) for group_id in names}
        waiting = {group_id for group_id, error in results.items() if not error}

        def finish(turn: Turn) -> None:
            if not waiting:
                deleted = [DeletedGroup(group_id=one, error_code=error) for one, error in results.items()]
                turn.reply(caller, DeleteGroupsResponse(results=deleted))

        for group_id in list(waiting):
            bury = self._burial(group_id)

            def stored(turn: Turn, error: Code, group_id: str = group_id, bury: Burial = bury) -> None:
                bury(turn, error)
                results[group_id] = offset_error(error)
                waiting.discard(group_id)
                finish(turn)

            records = [*self._offset_tombstones(group_id), group_tombstone(group_id)]
            turn.append(group_id, records, stored)
        finish(turn)

    def _delete_error(self, group_id: str) -> Code:
        error = self._group_error(group_id)
        if error:
            return error
        group = self._group(group_id)
        if group is None:
            return Code.GROUP_ID_NOT_FOUND
        return Code.NONE if group.state is GroupState.EMPTY else Code.NON_EMPTY_GROUP

    def _offset_tombstones(self, group_id: str, topic: str | None = None) -> list[Record]:
        """What deletes a group's offsets, or those of a topic: also those on their way into the log."""
        stored = [
            OffsetKey(group=group_id, topic=place.topic, partition=place.partition)
            for place in self._store.offsets(group_id)
            if topic in (None, place.topic)
        ]
        drafts = [draft for _, draft in self._in_flight.values() if draft.group_id == group_id]
        keys = [read_key(record.key) for draft in drafts for record in draft.records]
        coming = [key for key in keys if isinstance(key, OffsetKey) and topic in (None, key.topic)]
        return list(dict.fromkeys(offset_tombstone(key) for key in [*stored, *coming]))

    # --- groups -----------------------------------------------------------------------------------------

    def _partition(self, group_id: str) -> int:
        return partition_for(group_id, self._config.offsets_partition_count)

    def _availability(self, group_id: str) -> Code:
        state = self._partitions.get(self._partition(group_id))
        if state is None:
            return Code.NOT_COORDINATOR
        return Code.COORDINATOR_LOAD_IN_PROGRESS if state is PartitionState.LOADING else Code.NONE

    def _group_error(self, group_id: str) -> Code:
        """Offsets may be stored under the empty name, as very old consumers do; membership needs a name."""
        return self._availability(group_id) if group_id else Code.INVALID_GROUP_ID

    def _members_group(self, group_id: str) -> tuple[Code, Group | None]:
        """The group that a member speaks to, or the error if there is none."""
        error = self._group_error(group_id)
        group = None if error else self._group(group_id)
        return error or Code.UNKNOWN_MEMBER_ID, group

    def _group(self, group_id: str) -> Group | None:
        """The living group; made from what is stored where only that is known."""
        group = self._groups.get(group_id)
        if group is None and self._store.knows(group_id) and not self._availability(group_id):
            group = self._groups[group_id] = Group.restored(group_id, self._store.generation(group_id))
        return group

    def _active_groups(self) -> Iterator[Group]:
        """Every group of the partitions that are loaded."""
        known = dict.fromkeys([*self._groups, *self._store.group_ids()])
        for group_id in known:
            group = self._group(group_id)
            if group is not None:
                yield group

    def _burial(self, group_id: str) -> Burial:
        """What follows tombstones: nothing stored and nobody there means that the group is over. Somebody may
        have joined while they were written; then it lives on, without its past."""

        def bury(_turn: Turn, _error: Code) -> None:
            group = self._groups.get(group_id)
            if group is not None and is_idle(group) and not self._store.knows(group_id):
                group.move(GroupEvent.REMOVED, group.state_since_ms)
                del self._groups[group_id]

        return bury

    # --- turns ------------------------------------------------------------------------------------------

    def _turn(self, now_ms: int) -> Turn:
        return Turn(now_ms, self._config, self._new_member_id)

    def _new_member_id(self, caller: Caller, instance_id: str | None) -> str:
        """An id that tells people whose it is, and is never given twice."""
        owner = caller.client_id if instance_id is None else instance_id
        return f"{owner[:MEMBER_NAME_LENGTH_MAX]}-{self._new_uuid()}"

    def _decision(self, turn: Turn) -> Decision:
        appends = []
        for draft in turn.drafts:
            self._append_count += 1
            partition = self._partition(draft.group_id)
            self._in_flight[self._append_count] = partition, draft
            appends.append(Append(self._append_count, partition, draft.records))
        return Decision(tuple(turn.replies), tuple(appends), tuple(turn.timers))


Burial = Callable[[Turn, Code], None]
