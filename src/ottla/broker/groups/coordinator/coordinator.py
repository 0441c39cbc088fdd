"""The group coordinator: all groups of the partitions of `__consumer_offsets` that this broker leads.

    loop ── decide(request) ──▶ GroupCoordinator ──▶ Decision: replies, appends, timers ──▶ loop
    loop ── on_append_result ─▶     │ replay(record), then the continuation
    loop ── on_timer, expire ─▶     │

There are two kinds of state. Durable state (`store`) changes only by the replay of stored records: a decision
that changes it writes records first, and continues when they are in the log. Volatile state (`group`) is
members, parked requests and deadlines; it changes as requests and timers come in. After a restart it is made
from the durable state: the members of the last stored generation are back, with sessions that start at the
time of loading; clients repeat what was parked.
Owner: the broker's loop. Nothing here blocks or reads a clock, and no client's request raises an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ottla.broker.groups.coordinator import joining, listing, membership, offsets, transactional_offsets
from ottla.broker.groups.coordinator.decision import (
    Caller,
    CoordinatorStep,
    Decision,
    Timer,
    TimerKind,
    offset_error,
)
from ottla.broker.groups.coordinator.expiry import expired_records, is_idle
from ottla.broker.groups.coordinator.group import CoordinatedGroup
from ottla.broker.groups.coordinator.in_flight import AppendsInFlight, offset_tombstones, unstable_partitions
from ottla.broker.groups.coordinator.partitions import OffsetsPartitions
from ottla.broker.groups.coordinator.rebalance import (
    join_phase_timed_out,
    session_timed_out,
    sync_phase_timed_out,
)
from ottla.broker.groups.coordinator.records import (
    Record,
    group_tombstone,
)
from ottla.broker.groups.coordinator.state import GroupEvent, GroupState
from ottla.broker.groups.coordinator.store import GroupStore
from ottla.broker.settings.group_config import GroupConfig
from ottla.model.error_codes import Code
from ottla.model.errors import LocalProtocolError
from ottla.wire.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.api.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.api.offset_fetch import OffsetFetchGroup, OffsetFetchGroupResponse, OffsetFetchRequest
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.schema import Request

# A client id may be as long as a string of the protocol can be; a member id has more after it.
MEMBER_NAME_LENGTH_MAX = 255


class GroupCoordinator:
    """All groups of one broker. See `decision` for what the caller owes."""

    def __init__(self, config: GroupConfig, new_uuid: Callable[[], str]) -> None:
        self._config = config
        self._new_uuid = new_uuid
        self._store = GroupStore()
        self._groups: dict[str, CoordinatedGroup] = {}
        self._partitions = OffsetsPartitions(config.offsets_partition_count)
        self._in_flight = AppendsInFlight(self._partitions.of_group)
        self._handlers: dict[type[Request[Any]], Callable[[Any, Caller, CoordinatorStep], None]] = {
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: self._heartbeat,
            LeaveGroupRequest: self._leave,
            OffsetCommitRequest: self._commit,
            TxnOffsetCommitRequest: self._commit_in_transaction,
            OffsetFetchRequest: self._fetch,
            OffsetDeleteRequest: self._delete_offsets,
            DescribeGroupsRequest: self._describe,
            ListGroupsRequest: self._list,
            DeleteGroupsRequest: self._delete_groups,
        }

    # --- partitions come and go -------------------------------------------------------------------------

    def begin_load(self, partition: int) -> None:
        """This broker leads `partition` now. Until `finish_load`, clients of its groups have to wait."""
        self._partitions.begin_load(partition)

    def replay(self, record: Record, producer_id: int | None = None) -> None:
        """Apply a record of a partition that is being loaded, in order. Raises RemoteProtocolError.

        With a producer's id it belongs to a transaction that is open.
        """
        self._store.replay(record, producer_id)

    def finish_load(self, partition: int, now_ms: int) -> Decision:
        """All records were replayed: serve the partition's groups, with sessions that start now."""
        self._partitions.finish_load(partition)
        step = self._step(now_ms)
        for group_id in self._stored_in(partition):
            group = self._group(group_id)
            for member in group.members.values() if group else ():
                assert group is not None
                group.start_session(member, step)
        return self._decision(step)

    def unload(self, partition: int, now_ms: int) -> Decision:
        """Another broker leads `partition` now: forget its groups, and answer their parked requests."""
        self._partitions.unload(partition)
        step = self._step(now_ms)
        for group_id in [name for name in self._groups if self._partitions.of_group(name) == partition]:
            membership.dismiss(self._groups.pop(group_id), step)
        for pending in self._in_flight.take_all(partition):
            pending.then(step, Code.NOT_LEADER_OR_FOLLOWER)
        for group_id in self._stored_in(partition):
            self._store.forget_group(group_id)
        return self._decision(step)

    def _stored_in(self, partition: int) -> list[str]:
        """Return the stored groups of a partition."""
        group_ids = self._store.group_ids()
        return [group_id for group_id in group_ids if self._partitions.of_group(group_id) == partition]

    # --- events -----------------------------------------------------------------------------------------

    def decide(self, request: Request[Any], caller: Caller, now_ms: int) -> Decision:
        """Decide a request. If the decision has no reply to it, the request is parked.

        Raises LocalProtocolError for a request of another API.
        """
        handler = self._handlers.get(type(request))
        if handler is None:
            known = ", ".join(sorted(kind.__name__ for kind in self._handlers))
            raise LocalProtocolError(
                f"{type(request).__name__} is not for the group coordinator, but {known}"
            )
        step = self._step(now_ms)
        handler(request, caller, step)
        return self._decision(step)

    def on_append_result(self, append_id: int, error: Code, now_ms: int) -> Decision:
        """An append was written (error NONE) or not at all. Ids of unloaded partitions are ignored."""
        step = self._step(now_ms)
        pending = self._in_flight.take(append_id)
        if pending is not None:
            producer_id = pending.producer[0] if pending.producer else None
            for record in () if error else pending.records:
                self._store.replay(record, producer_id)
            pending.then(step, error)
        return self._decision(step)

    def end_transaction(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """A marker was written to a partition: its groups' offsets in that transaction count, or are gone."""
        of_group = self._partitions.of_group
        self._store.end_transaction(
            producer_id, lambda name: of_group(name) == partition, is_commit=is_commit
        )

    def on_timer(self, timer: Timer, now_ms: int) -> Decision:
        """A timer of an earlier decision has fired. A late or repeated call does no harm."""
        step = self._step(now_ms)
        group = self._groups.get(timer.group_id)
        if group is not None and group.due(timer, step):
            match timer.key.kind:
                case TimerKind.SESSION:
                    session_timed_out(group, timer.key.member_id, step)
                case TimerKind.JOIN:
                    join_phase_timed_out(group, step)
                case TimerKind.SYNC:
                    sync_phase_timed_out(group, step)
        return self._decision(step)

    def expire(self, now_ms: int) -> Decision:
        """Delete expired offsets and groups. Called every offsets.retention.check.interval.ms.

        Groups whose records are on the way into the log are left for the next call.
        """
        step = self._step(now_ms)
        busy = {*self._in_flight.group_ids(), *self._store.pending.group_ids()}
        for group in [group for group in self._active_groups() if group.group_id not in busy]:
            records = expired_records(group, self._store, now_ms, self._config.offsets_retention_ms)
            if records:
                step.append(group.group_id, records, self._burial(group.group_id))
        return self._decision(step)

    def forget_topic(self, topic: str, now_ms: int) -> Decision:
        """A topic was deleted: delete its offsets in all groups, even if they still subscribe to it."""
        step = self._step(now_ms)
        for group_id in dict.fromkeys([*self._store.group_ids(), *self._in_flight.group_ids()]):
            if self._partitions.availability(group_id):
                continue
            records = offset_tombstones(self._store, self._in_flight, group_id, topic)
            if records:
                step.append(group_id, records, self._burial(group_id))
        return self._decision(step)

    def metadata_bytes(self) -> int:
        """Return how many bytes of metadata and assignments the members of all groups have."""
        return sum(group.metadata_bytes for group in self._groups.values())

    def group_states(self) -> Counter[str]:
        """Return the number of groups in each state."""
        return Counter(str(group.state) for group in self._active_groups())

    # --- requests of members ----------------------------------------------------------------------------

    def _join(self, request: JoinGroupRequest, caller: Caller, step: CoordinatorStep) -> None:
        error = self._partitions.group_error(request.group_id) or joining.request_error(request, step)
        group = self._group(request.group_id)
        if not error and group is None and request.member_id:
            error = Code.UNKNOWN_MEMBER_ID
        if error:
            step.reply(caller, joining.refused(error, request.member_id))
            return
        group = group or CoordinatedGroup(request.group_id)
        joining.join(group, request, caller, step)
        if not is_idle(group):
            self._groups[request.group_id] = group

    def _sync(self, request: SyncGroupRequest, caller: Caller, step: CoordinatorStep) -> None:
        error, group = self._members_group(request.group_id)
        if error is Code.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance did not survive the restart, and old clients do not expect the true error here.
            error = Code.REBALANCE_IN_PROGRESS
        if group is None:
            step.reply(caller, SyncGroupResponse(error_code=error))
        else:
            membership.sync(group, request, caller, step)

    def _heartbeat(self, request: HeartbeatRequest, caller: Caller, step: CoordinatorStep) -> None:
        error, group = self._members_group(request.group_id)
        if error is Code.COORDINATOR_LOAD_IN_PROGRESS:
            # Nothing is known against the member, and its session will start anew anyway.
            error = Code.NONE
        if group is None:
            step.reply(caller, HeartbeatResponse(error_code=error))
        else:
            membership.heartbeat(group, request, caller, step)

    def _leave(self, request: LeaveGroupRequest, caller: Caller, step: CoordinatorStep) -> None:
        error = self._partitions.group_error(request.group_id)
        if error:
            step.reply(caller, LeaveGroupResponse(error_code=error))
        else:
            membership.leave(self._group(request.group_id), request, caller, step)

    def _commit(self, request: OffsetCommitRequest, caller: Caller, step: CoordinatorStep) -> None:
        error = self._partitions.availability(request.group_id)
        if error:
            step.reply(caller, offsets.commit_refused(request, error))
        else:
            offsets.commit(self._group(request.group_id), request, caller, step)

    def _commit_in_transaction(
        self, request: TxnOffsetCommitRequest, caller: Caller, step: CoordinatorStep
    ) -> None:
        error = self._partitions.group_error(request.group_id)
        if error:
            step.reply(caller, transactional_offsets.refused(request, error))
        else:
            transactional_offsets.commit(self._group(request.group_id), request, caller, step)

    def _fetch(self, request: OffsetFetchRequest, caller: Caller, step: CoordinatorStep) -> None:
        wanted = offsets.requested_groups(request, caller.version)
        groups = [self._fetched(group, request, caller.version) for group in wanted]
        step.reply(caller, offsets.fetch_response(groups, caller.version))

    def _fetched(
        self, wanted: OffsetFetchGroup, request: OffsetFetchRequest, version: int
    ) -> OffsetFetchGroupResponse:
        error = self._partitions.availability(wanted.group_id)
        if error:
            return offsets.fetch_refused(wanted, error, version)
        unstable = []
        if request.require_stable:
            unstable = unstable_partitions(self._store, self._in_flight, wanted.group_id)
        return offsets.fetched(wanted, self._store, unstable)

    def _delete_offsets(self, request: OffsetDeleteRequest, caller: Caller, step: CoordinatorStep) -> None:
        error = self._partitions.group_error(request.group_id)
        if error:
            step.reply(caller, OffsetDeleteResponse(error_code=error))
        else:
            offsets.delete(self._group(request.group_id), request, caller, step)

    # --- requests of tools ------------------------------------------------------------------------------

    def _describe(self, request: DescribeGroupsRequest, caller: Caller, step: CoordinatorStep) -> None:
        groups = [self._described(group_id, caller.version) for group_id in request.groups]
        if request.include_authorized_operations:
            listing.add_permissions(groups)
        step.reply(caller, DescribeGroupsResponse(groups=groups))

    def _described(self, group_id: str, version: int) -> DescribedGroup:
        error = self._partitions.group_error(group_id)
        if error:
            return listing.refused(group_id, error)
        group = self._group(group_id)
        return listing.unknown(group_id, version) if group is None else listing.described(group)

    def _list(self, request: ListGroupsRequest, caller: Caller, step: CoordinatorStep) -> None:
        error = Code.COORDINATOR_LOAD_IN_PROGRESS if self._partitions.is_loading else Code.NONE
        groups = listing.listed(self._active_groups(), request)
        step.reply(caller, ListGroupsResponse(error_code=error, groups=groups))

    def _delete_groups(self, request: DeleteGroupsRequest, caller: Caller, step: CoordinatorStep) -> None:
        """Delete groups that are empty, with one append each; answer when all are decided."""
        names = list(dict.fromkeys(request.groups_names))
        results = {group_id: self._delete_error(group_id) for group_id in names}
        waiting = {group_id for group_id, error in results.items() if not error}

        def finish(step: CoordinatorStep) -> None:
            if not waiting:
                deleted = [listing.deleted(name, error) for name, error in results.items()]
                step.reply(caller, DeleteGroupsResponse(results=deleted))

        for group_id in list(waiting):
            bury = self._burial(group_id)

            def stored(
                step: CoordinatorStep, error: Code, group_id: str = group_id, bury: Burial = bury
            ) -> None:
                bury(step, error)
                results[group_id] = offset_error(error)
                waiting.discard(group_id)
                finish(step)

            records = [*offset_tombstones(self._store, self._in_flight, group_id), group_tombstone(group_id)]
            step.append(group_id, records, stored)
        finish(step)

    def _delete_error(self, group_id: str) -> Code:
        error = self._partitions.group_error(group_id)
        if error:
            return error
        group = self._group(group_id)
        if group is None:
            return Code.GROUP_ID_NOT_FOUND
        return Code.NONE if group.state is GroupState.EMPTY else Code.NON_EMPTY_GROUP

    # --- groups -----------------------------------------------------------------------------------------

    def _members_group(self, group_id: str) -> tuple[Code, CoordinatedGroup | None]:
        """Return the group of a member's request, or the error to answer if there is none."""
        error = self._partitions.group_error(group_id)
        group = None if error else self._group(group_id)
        return error or Code.UNKNOWN_MEMBER_ID, group

    def _group(self, group_id: str) -> CoordinatedGroup | None:
        """Return the group in memory, made from what is stored if necessary; None if it does not exist."""
        group = self._groups.get(group_id)
        if group is None and self._store.knows(group_id) and not self._partitions.availability(group_id):
            stored = self._store.generation(group_id)
            group = self._groups[group_id] = CoordinatedGroup.restored(group_id, stored)
        return group

    def _active_groups(self) -> Iterator[CoordinatedGroup]:
        """Yield every group of the partitions that are loaded."""
        for group_id in dict.fromkeys([*self._groups, *self._store.group_ids()]):
            group = self._group(group_id)
            if group is not None:
                yield group

    def _burial(self, group_id: str) -> Burial:
        """Return the continuation of tombstones: it removes the group unless a member joined meanwhile."""

        def bury(_step: CoordinatorStep, _error: Code) -> None:
            group = self._groups.get(group_id)
            if group is not None and is_idle(group) and not self._store.knows(group_id):
                group.move(GroupEvent.REMOVED, group.state_since_ms)
                del self._groups[group_id]

        return bury

    # --- turns ------------------------------------------------------------------------------------------

    def _step(self, now_ms: int) -> CoordinatorStep:
        return CoordinatorStep(now_ms, self._config, self._new_member_id)

    def _new_member_id(self, caller: Caller, instance_id: str | None) -> str:
        """Return an id that begins with the client's name and is never given twice."""
        owner = caller.client_id if instance_id is None else instance_id
        return f"{owner[:MEMBER_NAME_LENGTH_MAX]}-{self._new_uuid()}"

    def _decision(self, step: CoordinatorStep) -> Decision:
        appends = self._in_flight.number(step.pending_appends)
        return Decision(tuple(step.replies), tuple(appends), tuple(step.timers))


Burial = Callable[[CoordinatorStep, Code], None]
