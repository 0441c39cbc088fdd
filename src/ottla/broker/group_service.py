"""Carries out what the group coordinator of one node decides: replies, timers, and records in the log."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ottla.broker.cluster import OFFSETS_TOPIC
from ottla.broker.group_records import GroupRecords
from ottla.broker.groups import Append, Caller, Coordinator, Decision, Record, Timer
from ottla.broker.partition import Partition
from ottla.broker.record_batches import StoredRecord, batch_of
from ottla.broker.serving import Inquiry
from ottla.broker.turn import Failures
from ottla.log.reading import ColdRead
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError, RemoteProtocolError, StorageError
from ottla.wire.primitives import Buffer
from ottla.wire.schema import Request

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = logging.getLogger(__name__)

ReplyTo = Callable[[Any], None]

AT_ONCE_BYTES = 1 << 16
"""Logs up to this size are loaded at once: some 10 ms, which is less than a client's first retry."""

SLICE_RECORDS = 2000
"""Of a larger log, so many are replayed before others have their turn: some 10 ms again."""


class GroupService:
    """The groups that a node coordinates. Owned by the loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._cluster = node.cluster
        self.coordinator = Coordinator(node.cluster.config.groups, lambda: str(uuid.uuid4()))
        self._loads: dict[int, object] = {}  # by partition: who loads it now

    def ask(self, inquiry: Inquiry, request: Request[Any], reply: ReplyTo | None = None) -> None:
        """Have a request decided. The answer goes to `reply`, or else to the inquiry, now or later."""
        call = inquiry.call
        host = f"/{inquiry.connection.peer_host}"
        caller = Caller(reply or inquiry.reply, call.version, call.client_id or "", host)
        self._perform(self.coordinator.decide(request, caller, self._cluster.now_ms()))

    def expire(self) -> None:
        """Drop offsets and groups that are out of date."""
        self._perform(self.coordinator.expire(self._cluster.now_ms()))

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: drop what groups have committed of it."""
        self._perform(self.coordinator.forget_topic(topic, self._cluster.now_ms()))

    def _perform(self, decision: Decision) -> None:
        for reply in decision.replies:
            cast(ReplyTo, reply.ticket)(reply.response)
        for timer in decision.timers:
            delay_ms = timer.at_ms - self._cluster.now_ms()
            self._cluster.loop.call_later(max(delay_ms, 0) / 1000, self._on_timer, timer)
        for append in decision.appends:
            self._append(append)

    def _on_timer(self, timer: Timer) -> None:
        now_ms = self._cluster.now_ms()
        if now_ms < timer.at_ms:  # two clocks: the loop's may be a little ahead
            self._cluster.loop.call_later((timer.at_ms - now_ms) / 1000, self._on_timer, timer)
        else:
            self._perform(self.coordinator.on_timer(timer, now_ms))

    def _append(self, append: Append) -> None:
        now_ms = self._cluster.now_ms()
        try:
            partition = self._cluster.partition(OFFSETS_TOPIC, append.partition)
            if partition.leader != self._node.broker_id:
                raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, repr(partition))
            if partition.log is None:
                raise StorageError(f"{partition} is offline")
            partition.log.append(batch_of(append.records, now_ms), now_ms, partition.leader_epoch)
        except KafkaError as error:
            self._appended(append, Code.of(error.code))
        except StorageError:
            self._appended(append, Code.KAFKA_STORAGE_ERROR)
        else:
            self._cluster.turn.stage(partition)
            self._cluster.turn.then(lambda failures: self._settle(append, partition, failures))

    def _settle(self, append: Append, partition: Partition, failures: Failures) -> None:
        self._appended(append, Code.KAFKA_STORAGE_ERROR if partition in failures else Code.NONE)

    def _appended(self, append: Append, error: Code) -> None:
        self._perform(self.coordinator.on_append_result(append.append_id, error, self._cluster.now_ms()))

    # --- partitions of the offsets topic

    def lead(self, partition: Partition) -> None:
        """This node leads a partition of the offsets topic now: load its groups."""
        self.coordinator.begin_load(partition.index)
        if partition.log is None:
            return  # its groups stay unavailable, as the partition does
        load = self._loads[partition.index] = object()
        self._load(partition, load, GroupRecords(partition.log.start_offset, partition.log.high_watermark))

    def _load(self, partition: Partition, load: object, gathered: GroupRecords) -> None:
        """Gather what the log has, a piece in each turn of the loop, then replay it."""
        if self._loads.get(partition.index) is not load or partition.log is None:
            return  # led by somebody else meanwhile, or offline
        is_small = partition.log.size <= AT_ONCE_BYTES
        try:
            while piece := gathered.piece(partition.log):
                if not is_small:
                    run = self._cluster.loop.run_in_executor
                    work = run(self._cluster.executor, _taken, gathered, piece)
                    work.add_done_callback(
                        lambda done: self._loaded(partition, load, gathered, done.result())
                    )
                    return
                gathered.take(piece)
        except OttlaError as error:
            _say_unavailable(partition, error)
        else:
            self._replay(partition, load, gathered.in_order())

    def _loaded(
        self, partition: Partition, load: object, gathered: GroupRecords, error: OttlaError | None
    ) -> None:
        if error is None:
            self._load(partition, load, gathered)
        else:
            _say_unavailable(partition, error)

    def _replay(
        self, partition: Partition, load: object, records: list[StoredRecord], place: int = 0
    ) -> None:
        """Take over records from `place` on, a slice in each turn of the loop."""
        if self._loads.get(partition.index) is not load:
            return  # led by somebody else meanwhile
        end = place + SLICE_RECORDS
        for record in records[place:end]:
            try:
                self.coordinator.replay(Record(record.key or b"", record.value))
            except RemoteProtocolError as error:
                log.error("%s offset %d cannot be loaded: %s", partition, record.offset, error)
        if end < len(records):
            self._cluster.loop.call_soon(self._replay, partition, load, records, end)
            return
        self._perform(self.coordinator.finish_load(partition.index, self._cluster.now_ms()))

    def resign(self, partition: Partition) -> None:
        """Another node leads it now."""
        self._loads.pop(partition.index, None)
        self._perform(self.coordinator.unload(partition.index, self._cluster.now_ms()))


def ask_coordinator(inquiry: Inquiry, request: Request[Any]) -> None:
    """Handle a request by asking the group coordinator of the node that got it."""
    inquiry.node.groups.ask(inquiry, request)


def _taken(gathered: GroupRecords, piece: Buffer | ColdRead) -> OttlaError | None:
    """Have a piece read and decoded beside the loop; what went wrong."""
    try:
        gathered.take(piece)
    except OttlaError as error:
        return error
    return None


def _say_unavailable(partition: Partition, error: OttlaError) -> None:
    what = "%s cannot be loaded, so its groups stay unavailable until it is led anew: %s"
    log.error(what, partition, error)
