"""A broker's loop of a few lines for the transaction coordinator: virtual time, logs in memory.

Appends and markers succeed at once, unless `holding`: then `settle` decides about the oldest of them. Every
reply is also encoded in the version of its request.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from typing import Any, TypeVar, cast

from ottla.broker.coordination.effects import Append, Caller, Record
from ottla.broker.settings.transaction_config import TransactionConfig
from ottla.broker.transactions.coordinator import (
    EndInPartitions,
    RetryTimer,
    TransactionCoordinator,
    TransactionDecision,
)
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.add_partitions_to_txn import (
    AddPartitionsTopic,
    AddPartitionsToTxnRequest,
    AddPartitionsTransaction,
)
from ottla.wire.api.describe_transactions import DescribedTransaction, DescribeTransactionsRequest
from ottla.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.schema import Request, Response, encode

R = TypeVar("R", bound=Response)
Marker = tuple[int, int, bool]  # producer id, epoch, commit
A, B = TopicAndPartition("a", 0), TopicAndPartition("b", 1)
TIMEOUT_MS = 60_000


class Loop:
    def __init__(self, config: TransactionConfig | None = None) -> None:
        self.config = config or TransactionConfig()
        self.now_ms = 1_000_000
        self.epoch = 0
        self.log: list[tuple[int, Record]] = []
        self.markers: dict[TopicAndPartition, list[Marker]] = {}
        self.offline: set[TopicAndPartition] = set()
        self.deleted: set[TopicAndPartition] = set()
        self.holding = False
        self.pending: deque[Append | EndInPartitions] = deque()
        self.replies: dict[int, Response] = {}
        self.versions: dict[int, int] = {}
        self.producer_ids = count(100)
        self._tickets = count(1)
        self._timers: list[tuple[int, int, RetryTimer]] = []
        self._order = count()
        self.load()

    # --- the loop's duties ---

    def perform(self, decision: TransactionDecision) -> None:
        for reply in decision.replies:
            ticket = cast(int, reply.ticket)
            assert ticket in self.versions, f"reply to {ticket}, which never asked"
            assert ticket not in self.replies, f"second reply to {ticket}: {reply.response}"
            encode(reply.response, self.versions[ticket])
            self.replies[ticket] = reply.response
        for timer in decision.timers:
            heapq.heappush(self._timers, (timer.at_ms, next(self._order), timer))
        self.pending += [*decision.appends, *decision.ends]
        while self.pending and not self.holding:
            self.settle()

    def settle(self, error: Code = Code.NONE) -> None:
        """The oldest append or set of markers succeeds, or fails whole."""
        item = self.pending.popleft()
        if isinstance(item, EndInPartitions):
            self._write_markers(item, error)
            return
        if not error:
            self.log += [(item.partition, record) for record in item.records]
        self.perform(self.coordinator.on_append_result(item.append_id, error, self.now_ms))

    def _write_markers(self, end: EndInPartitions, error: Code) -> None:
        errors = {}
        for item in end.partitions:
            if error or item in self.offline:
                errors[item] = error or Code.NOT_LEADER_OR_FOLLOWER
            elif item in self.deleted:
                errors[item] = Code.UNKNOWN_TOPIC_OR_PARTITION
            else:
                marker = end.producer_id, end.producer_epoch, end.is_commit
                self.markers.setdefault(item, []).append(marker)
        self.perform(self.coordinator.on_ended(end, errors, self.now_ms))

    def advance(self, duration_ms: int) -> None:
        """Let time pass, firing timers when they are due."""
        until_ms = self.now_ms + duration_ms
        while self._timers and self._timers[0][0] <= until_ms:
            at_ms, _, timer = heapq.heappop(self._timers)
            self.now_ms = max(self.now_ms, at_ms)
            self.perform(self.coordinator.on_timer(timer, self.now_ms))
        self.now_ms = until_ms

    def load(self) -> None:
        """A new coordinator reads the log from its start."""
        self.coordinator = TransactionCoordinator(self.config, 50, lambda: next(self.producer_ids))
        for partition in range(self.config.partition_count):
            self.coordinator.begin_load(partition, self.epoch)
        for _, record in self.log:
            self.coordinator.replay(record)
        for partition in range(self.config.partition_count):
            self.perform(self.coordinator.finish_load(partition, self.now_ms))

    def restart(self) -> None:
        """Lose everything but the logs."""
        self.epoch += 1
        self.pending.clear()
        self._timers.clear()
        self.load()

    # --- clients ---

    def send(self, request: Request[Any], version: int | None = None) -> int:
        version = request.API.version_newest if version is None else version
        ticket = next(self._tickets)
        self.versions[ticket] = version
        self.perform(self.coordinator.decide(request, Caller(ticket, version), self.now_ms))
        return ticket

    def call(self, request: Request[R], version: int | None = None) -> R:
        """Send what must be answered at once."""
        return cast(R, self.replies[self.send(request, version)])

    def start(self, name: str = "t", **fields: Any) -> InitProducerIdResponse:
        return self.call(start_request(name, **fields), 5)

    def add(self, producer: InitProducerIdResponse, *items: TopicAndPartition, name: str = "t") -> Code:
        """As a producer of an older transaction.version."""
        response = self.call(add_request(producer, *items, name=name), 3)
        (code,) = {
            one.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        return Code.of(code)

    def end(
        self, producer: InitProducerIdResponse | EndTxnResponse, version: int = 4, *, commit: bool = True
    ) -> EndTxnResponse:
        return self.call(end_request(producer, commit=commit), version)

    def described(self, name: str = "t") -> DescribedTransaction:
        (one,) = self.call(DescribeTransactionsRequest(transactional_ids=[name])).transaction_states
        return one

    @property
    def state(self) -> str:
        return self.described().transaction_state


def start_request(name: str = "t", **fields: Any) -> InitProducerIdRequest:
    settings: dict[str, Any] = {"transaction_timeout_ms": TIMEOUT_MS} | fields
    return InitProducerIdRequest(transactional_id=name, **settings)


def add_request(
    producer: InitProducerIdResponse, *items: TopicAndPartition, name: str = "t"
) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsTopic(name=topic, partitions=[index]) for topic, index in items],
    )


def broker_request(
    producer: InitProducerIdResponse | EndTxnResponse,
    *items: TopicAndPartition,
    name: str = "t",
    verify_only: bool = False,
) -> AddPartitionsToTxnRequest:
    """What a partition's leader asks when it gets the first batch of a transaction."""
    topics = [AddPartitionsTopic(name=topic, partitions=[index]) for topic, index in items]
    wanted = AddPartitionsTransaction(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=topics,
    )
    return AddPartitionsToTxnRequest(transactions=[wanted])


def end_request(
    producer: InitProducerIdResponse | EndTxnResponse, name: str = "t", *, commit: bool = True
) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )
