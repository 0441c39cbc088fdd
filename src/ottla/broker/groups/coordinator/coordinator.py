"""The group coordinator: all groups of the partitions of `__consumer_offsets` that this broker leads.

    loop ── decide(request) ──▶ GroupCoordinator ──▶ Decision: replies, appends, timers ──▶ loop
    loop ── on_append_result ─▶     │ replay(record), then the continuation
    loop ── on_timer, expire ─▶     │

There are two kinds of state. Durable state (`store`, `consumer_groups`) changes only by the replay of stored
records: a decision that changes it writes records first, and continues when they are in the log. Volatile
state (`group`) is members of classic groups, parked requests and deadlines; it changes as requests and timers
come in. After a restart it is made from the durable state: the members are back, with sessions that start at
the time of loading; clients repeat the requests that were parked.

A group is classic or a consumer group (KIP-848), and may change its kind; a request is decided by the kind
that its group has when its turn comes.
Owner: the broker's loop. Nothing here blocks or reads a clock, and no client's request raises an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ottla.broker.coordination.effects import Caller, Record
from ottla.broker.groups.coordinator import joining, membership, offsets, transactional_offsets
from ottla.broker.groups.coordinator.consumer_groups import offsets as consumer_offsets
from ottla.broker.groups.coordinator.consumer_groups.classic_requests import ClassicRequests
from ottla.broker.groups.coordinator.consumer_groups.consumer_groups import GroupOverrides, refusal
from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicsView
from ottla.broker.groups.coordinator.decision import CoordinatorStep, GroupDecision, Timer, TimerKind
from ottla.broker.groups.coordinator.expiry import expired_consumer_records, expired_records, is_idle
from ottla.broker.groups.coordinator.group import CoordinatedGroup
from ottla.broker.groups.coordinator.in_flight import offset_tombstones, unstable_partitions
from ottla.broker.groups.coordinator.rebalance import (
    join_phase_timed_out,
    session_timed_out,
    sync_phase_timed_out,
)
from ottla.broker.groups.coordinator.registry import GroupRegistry
from ottla.broker.groups.coordinator.tool_requests import ToolRequests
from ottla.broker.settings.group_config import GroupConfig
from ottla.model.error_codes import Code
from ottla.model.errors import LocalProtocolError
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.api.offset_fetch import OffsetFetchGroup, OffsetFetchGroupResponse, OffsetFetchRequest
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.schema import Request

# A member id begins with the client id, which may be as long as a string of the protocol: it is cut to this.
MEMBER_NAME_LENGTH_MAX = 255

Handle = Callable[[Any, Caller, CoordinatorStep], None]


class GroupCoordinator:
    """All groups of one broker. `decision` says what the caller must do with each decision.

    `overrides` returns the settings of a single consumer group.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        topics: TopicsView,
        overrides: Callable[[str], GroupOverrides] = lambda _: {},
    ) -> None:
        self._config = config
        self._new_uuid = new_uuid
        self._topics = topics
        self._registry = GroupRegistry(config, topics, overrides)
        self._store, self._partitions = self._registry.store, self._registry.partitions
        self._in_flight, self._consumer = self._registry.in_flight, self._registry.consumer
        tools = ToolRequests(self._registry, topics)
        classic = ClassicRequests(self._consumer, self._handle)
        self._handlers: dict[type[Request[Any]], Handle] = {
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: self._heartbeat,
            LeaveGroupRequest: self._leave,
            ConsumerGroupHeartbeatRequest: self._consumer_heartbeat,
            OffsetCommitRequest: self._commit,
            TxnOffsetCommitRequest: self._commit_in_transaction,
            OffsetFetchRequest: self._fetch,
            OffsetDeleteRequest: self._delete_offsets,
            DescribeGroupsRequest: tools.describe,
            ConsumerGroupDescribeRequest: tools.describe_consumer,
            ListGroupsRequest: tools.list_groups,
            DeleteGroupsRequest: tools.delete,
        }
        self._to_consumer_groups: dict[type[Request[Any]], Handle] = {
            JoinGroupRequest: classic.join,
            SyncGroupRequest: classic.sync,
            HeartbeatRequest: classic.heartbeat,
            LeaveGroupRequest: classic.leave,
        }

    # --- partitions come and go -------------------------------------------------------------------------

    def begin_load(self, partition: int) -> None:
        """Begin to load a partition that this broker leads now. Clients of its groups have to wait."""
        self._partitions.begin_load(partition)

    def replay(self, record: Record, producer_id: int | None = None) -> None:
        """Apply a record of a partition that is being loaded, in order. Raises RemoteProtocolError.

        With a producer's id it belongs to a transaction that is open.
        """
        self._registry.replay(record, producer_id)

    def finish_load(self, partition: int, now_ms: int) -> GroupDecision:
        """Serve the groups of a partition whose records were all replayed; sessions of members start now."""
        self._partitions.finish_load(partition)
        step = self._step(now_ms)
        self._registry.start_sessions(partition, step)
        return self._decision(step)

    def unload(self, partition: int, now_ms: int) -> GroupDecision:
        """Forget the groups of a partition that another broker leads now; answer their parked requests."""
        self._partitions.unload(partition)
        step = self._step(now_ms)
        self._registry.unload(partition, step)
        return self._decision(step)

    # --- events -----------------------------------------------------------------------------------------

    def decide(self, request: Request[Any], caller: Caller, now_ms: int) -> GroupDecision:
        """Decide a request. If the decision has no reply, the request is parked.

        Raises LocalProtocolError for a request of another API.
        """
        if type(request) not in self._handlers:
            known = ", ".join(sorted(kind.__name__ for kind in self._handlers))
            raise LocalProtocolError(
                f"{type(request).__name__} is not for the group coordinator, but {known}"
            )
        step = self._step(now_ms)
        # Requests about several groups have no group id, or an empty one, and need no turn.
        group_id = getattr(request, "group_id", "")
        self._consumer.turns.run(group_id, lambda step: self._handle(request, caller, step), step)
        return self._decision(step)

    def _handle(self, request: Request[Any], caller: Caller, step: CoordinatorStep) -> None:
        """Decide a request by the present kind of its group."""
        kind = type(request)
        handler = self._to_consumer_groups.get(kind)
        if handler is None or self._registry.consumer_group(getattr(request, "group_id", "")) is None:
            handler = self._handlers[kind]
        handler(request, caller, step)

    def on_append_result(self, append_id: int, error: Code, now_ms: int) -> GroupDecision:
        """Continue after an append was written (NONE) or failed. Ids of unloaded partitions are ignored."""
        step = self._step(now_ms)
        pending = self._in_flight.take(append_id)
        if pending is not None:
            producer_id = pending.producer[0] if pending.producer else None
            for record in () if error else pending.records:
                self._registry.replay(record, producer_id)
            pending.then(step, error)
        return self._decision(step)

    def end_transaction(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """Apply the end of a transaction, whose marker was written to a partition.

        A commit makes its offsets the committed ones of their groups; an abort drops them.
        """
        of = self._partitions.of
        self._store.end_transaction(producer_id, lambda name: of(name) == partition, is_commit=is_commit)

    def on_timer(self, timer: Timer, now_ms: int) -> GroupDecision:
        """Act on a fired timer of an earlier decision. Late or repeated calls do no harm."""
        step = self._step(now_ms)
        self._consumer.turns.run(timer.group_id, lambda step: self._timed_out(timer, step), step)
        return self._decision(step)

    def _timed_out(self, timer: Timer, step: CoordinatorStep) -> None:
        group = self._registry.groups.get(timer.group_id)
        if group is None:
            self._consumer.on_timer(timer, step)
        elif group.due(timer, step):
            match timer.key.kind:
                case TimerKind.SESSION:
                    session_timed_out(group, timer.key.member_id, step)
                case TimerKind.JOIN:
                    join_phase_timed_out(group, step)
                case TimerKind.SYNC:
                    sync_phase_timed_out(group, step)

    def expire(self, now_ms: int) -> GroupDecision:
        """Delete expired offsets and groups. Called every offsets.retention.check.interval.ms.

        Groups whose records are on the way into the log are left for the next call.
        """
        step = self._step(now_ms)
        busy = {*self._in_flight.group_ids(), *self._store.pending.group_ids()}
        retention_ms = self._config.offsets_retention_ms
        for group in [group for group in self._registry.active_groups() if group.group_id not in busy]:
            records = expired_records(group, self._store, now_ms, retention_ms)
            if records:
                step.append(group.group_id, records, self._registry.burial(group.group_id))
        for consumer in [
            item for item in self._registry.active_consumer_groups() if item.group_id not in busy
        ]:
            records = expired_consumer_records(consumer, self._store, now_ms, retention_ms)
            self._consumer.store(consumer.group_id, records, lambda _step, _error: None, step)
        return self._decision(step)

    def forget_topic(self, topic: str, now_ms: int) -> GroupDecision:
        """Delete the offsets of a deleted topic in all groups, even if they still subscribe to it."""
        step = self._step(now_ms)
        for group_id in dict.fromkeys([*self._store.group_ids(), *self._in_flight.group_ids()]):
            if self._partitions.availability(group_id):
                continue
            records = offset_tombstones(self._store, self._in_flight, group_id, topic)
            if records:
                step.append(group_id, records, self._registry.burial(group_id))
        return self._decision(step)

    def metadata_bytes(self) -> int:
        """Return how many bytes of metadata and assignments the members of all groups have."""
        classic = sum(group.metadata_bytes for group in self._registry.groups.values())
        return classic + sum(group.metadata_bytes for group in self._consumer.groups.values())

    def group_states(self) -> Counter[str]:
        """Return the number of groups in each state."""
        classic = Counter(str(group.state) for group in self._registry.active_groups())
        return classic + Counter(group.state for group in self._registry.active_consumer_groups())

    # --- requests of members ----------------------------------------------------------------------------

    def _join(self, request: JoinGroupRequest, caller: Caller, step: CoordinatorStep) -> None:
        error = self._partitions.group_error(request.group_id) or joining.request_error(request, step)
        group = self._registry.classic_group(request.group_id)
        if not error and group is None and request.member_id:
            error = Code.UNKNOWN_MEMBER_ID
        if error:
            step.reply(caller, joining.refused(error, request.member_id))
            return
        group = group or CoordinatedGroup(request.group_id)
        joining.join(group, request, caller, step)
        if not is_idle(group):
            self._registry.groups[request.group_id] = group

    def _sync(self, request: SyncGroupRequest, caller: Caller, step: CoordinatorStep) -> None:
        error, group = self._registry.members_group(request.group_id)
        if error is Code.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance did not survive the restart, and old clients do not expect the loading error here.
            error = Code.REBALANCE_IN_PROGRESS
        if group is None:
            step.reply(caller, SyncGroupResponse(error_code=error))
        else:
            membership.sync(group, request, caller, step)

    def _heartbeat(self, request: HeartbeatRequest, caller: Caller, step: CoordinatorStep) -> None:
        error, group = self._registry.members_group(request.group_id)
        if error is Code.COORDINATOR_LOAD_IN_PROGRESS:
            # The member cannot be checked yet, and its session will start when the group is loaded.
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
            membership.leave(self._registry.classic_group(request.group_id), request, caller, step)

    def _consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, step: CoordinatorStep
    ) -> None:
        error = self._partitions.availability(request.group_id)
        if error:
            step.reply(caller, refusal(error))
        else:
            self._consumer.heartbeat(request, caller, step)

    def _commit(self, request: OffsetCommitRequest, caller: Caller, step: CoordinatorStep) -> None:
        error = self._partitions.availability(request.group_id)
        consumer = self._registry.consumer_group(request.group_id)
        if error:
            step.reply(caller, offsets.commit_refused(request, error))
        elif consumer is not None:
            self._commit_to_consumer_group(consumer, request, caller, step)
        else:
            offsets.commit(self._registry.classic_group(request.group_id), request, caller, step)

    def _commit_to_consumer_group(
        self, group: ConsumerGroup, request: OffsetCommitRequest, caller: Caller, step: CoordinatorStep
    ) -> None:
        error = consumer_offsets.commit_error(group, request, caller.version)
        if error:
            step.reply(caller, offsets.commit_refused(request, error))
            return
        check = consumer_offsets.partition_error
        offsets.store(request, caller, step, lambda item: check(group, request, item, self._topics))

    def _commit_in_transaction(
        self, request: TxnOffsetCommitRequest, caller: Caller, step: CoordinatorStep
    ) -> None:
        error = self._partitions.group_error(request.group_id)
        consumer = self._registry.consumer_group(request.group_id)
        if consumer is not None:
            error = consumer_offsets.transaction_error(consumer, request)
        elif not error:
            group = self._registry.classic_group(request.group_id)
            error = transactional_offsets.commit_error(group, request)
        transactional_offsets.commit(error, request, caller, step)

    def _fetch(self, request: OffsetFetchRequest, caller: Caller, step: CoordinatorStep) -> None:
        wanted = offsets.requested_groups(request, caller.version)
        groups = [self._fetched(group, request, caller.version) for group in wanted]
        step.reply(caller, offsets.fetch_response(groups, caller.version))

    def _fetched(
        self, wanted: OffsetFetchGroup, request: OffsetFetchRequest, version: int
    ) -> OffsetFetchGroupResponse:
        error = self._partitions.availability(wanted.group_id)
        consumer = self._registry.consumer_group(wanted.group_id)
        if consumer is not None:
            error = consumer_offsets.fetch_error(consumer, wanted)
        if error:
            return offsets.fetch_refused(wanted, error, version)
        unstable = []
        if request.require_stable:
            unstable = unstable_partitions(self._store, self._in_flight, wanted.group_id)
        return offsets.fetched(wanted, self._store, unstable)

    def _delete_offsets(self, request: OffsetDeleteRequest, caller: Caller, step: CoordinatorStep) -> None:
        error = self._partitions.group_error(request.group_id)
        consumer = self._registry.consumer_group(request.group_id)
        if error:
            step.reply(caller, OffsetDeleteResponse(error_code=error))
        elif consumer is not None:
            offsets.delete_unsubscribed(consumer.subscribed_to, request, caller, step)
        else:
            offsets.delete(self._registry.classic_group(request.group_id), request, caller, step)

    # --- turns ------------------------------------------------------------------------------------------

    def _step(self, now_ms: int) -> CoordinatorStep:
        return CoordinatorStep(now_ms, self._config, self._new_member_id, self._new_uuid)

    def _new_member_id(self, caller: Caller, instance_id: str | None) -> str:
        """Return an id that begins with the client's name and is never given twice."""
        owner = caller.client_id if instance_id is None else instance_id
        return f"{owner[:MEMBER_NAME_LENGTH_MAX]}-{self._new_uuid()}"

    def _decision(self, step: CoordinatorStep) -> GroupDecision:
        appends = self._in_flight.number(step.pending_appends)
        return GroupDecision(tuple(step.replies), tuple(appends), tuple(step.timers))
