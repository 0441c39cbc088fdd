"""Carries out what the group coordinator of one node decides: replies, timers, and records in the log."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from ottla.broker.cluster import OFFSETS_TOPIC
from ottla.broker.groups import Append, Caller, Coordinator, Decision, Record, Timer
from ottla.broker.partition import Partition
from ottla.broker.record_batches import StoredRecord, batch_of, batches_of
from ottla.broker.serving import Inquiry
from ottla.broker.turn import Failures
from ottla.log.batch_header import TRANSACTIONAL
from ottla.log.partition_log import PartitionLog
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OttlaError, RemoteProtocolError, StorageError
from ottla.wire.schema import Request

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = logging.getLogger(__name__)

ReplyTo = Callable[[Any], None]

COMMIT = b"\0\0\0\1"
"""The key of the marker that ends a transaction well: version 0, type 1."""

READ_BYTES = 1 << 20
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
        end = partition.log.high_watermark
        if partition.log.size <= AT_ONCE_BYTES:
            self._replay(partition, load, _loaded(partition.log, end))
            return
        work = self._cluster.loop.run_in_executor(self._cluster.executor, _loaded, partition.log, end)
        work.add_done_callback(lambda done: self._replay(partition, load, done.result()))

    def _replay(
        self, partition: Partition, load: object, records: list[StoredRecord] | OttlaError, place: int = 0
    ) -> None:
        """Take over records from `place` on, a slice in each turn of the loop."""
        if self._loads.get(partition.index) is not load:
            return  # led by somebody else meanwhile
        if isinstance(records, OttlaError):
            what = "%s cannot be loaded, so its groups stay unavailable until it is led anew: %s"
            log.error(what, partition, records)
            return
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


def _loaded(partition_log: PartitionLog, end: int) -> list[StoredRecord] | OttlaError:
    """All records below `end`, or why there are none."""
    try:
        return _records(partition_log, end)
    except OttlaError as error:
        return error


def ask_coordinator(inquiry: Inquiry, request: Request[Any]) -> None:
    """Handle a request by asking the group coordinator of the node that got it."""
    inquiry.node.groups.ask(inquiry, request)


def _records(partition_log: PartitionLog, end: int) -> list[StoredRecord]:
    """All records below `end`. May run beside the loop: what is below the high watermark does not change.

    Offsets of a transaction, which only Apache Kafka can have written, count if it was committed: then they
    are as old as their records, whenever its end came.
    """
    records: list[StoredRecord] = []
    open_transactions: dict[int, list[StoredRecord]] = {}  # by producer
    offset = partition_log.start_offset
    while offset < end and (data := partition_log.read(offset, READ_BYTES)):
        for header, found in batches_of(data):
            fresh = [record for record in found if offset <= record.offset < end]
            if header.is_control:
                ended = open_transactions.pop(header.producer_id, [])
                records += ended if any(record.key == COMMIT for record in fresh) else []
            elif header.attributes & TRANSACTIONAL:
                open_transactions.setdefault(header.producer_id, []).extend(fresh)
            else:
                records += fresh
            offset = header.last_offset + 1
    return sorted(records, key=attrgetter("offset"))
