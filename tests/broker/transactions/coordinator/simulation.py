"""One transactional id under a seed: producers that begin, write, end and are replaced, partitions that go
offline, appends that fail, and a coordinator that is restarted between any two writes.

Partitions are lists of data and markers, with the two rules of a partition's leader: nothing of an older
epoch is taken, and the first data of a transaction must be admitted. At the end everything is decided, and
every transaction must be committed in all partitions that it wrote or in none, as its producer was told.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.broker.settings.transaction_config import TransactionConfig
from ottla.broker.transactions.coordinator import EndInPartitions
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.wire.api.end_txn import EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdResponse
from ottla.wire.schema import Request
from tests.broker.transactions.coordinator.driver import (
    TIMEOUT_MS,
    Loop,
    add_request,
    broker_request,
    end_request,
    start_request,
)

PARTITIONS = [TopicAndPartition("t", index) for index in range(3)]
FAILURES = [Code.KAFKA_STORAGE_ERROR, Code.NOT_ENOUGH_REPLICAS, Code.REQUEST_TIMED_OUT]
AGAIN = {
    Code.CONCURRENT_TRANSACTIONS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
}


class Entry(NamedTuple):
    """Data of a transaction, or with `is_commit` the marker that ends one."""

    producer_id: int
    epoch: int
    tag: int
    is_commit: bool | None = None


@dataclass
class Written:
    """A transaction as its producer knows it: where it wrote, and what it was told of the end."""

    partitions: set[TopicAndPartition] = field(default_factory=set)
    told: bool | None = None


class Leaders(Loop):
    """The loop, with partitions that have data and check epochs."""

    def __init__(self) -> None:
        self.logs: dict[TopicAndPartition, list[Entry]] = {item: [] for item in PARTITIONS}
        super().__init__(TransactionConfig(partition_count=3))
        self.holding = True

    def epoch_of(self, item: TopicAndPartition, producer_id: int) -> int:
        return max((one.epoch for one in self.logs[item] if one.producer_id == producer_id), default=-1)

    def _write_markers(self, end: EndInPartitions, error: Code) -> None:
        errors = {}
        for item in end.partitions:
            if error or item in self.offline:
                errors[item] = error or Code.NOT_LEADER_OR_FOLLOWER
            elif self.epoch_of(item, end.producer_id) > end.producer_epoch:
                errors[item] = Code.INVALID_PRODUCER_EPOCH
            else:
                marker = Entry(end.producer_id, end.producer_epoch, -1, end.is_commit)
                self.logs[item].append(marker)
        self.perform(self.coordinator.on_ended(end, errors, self.now_ms))


class SimulatedProducer:
    """One process with the transactional id. `asked` is the request that it waits for, or repeats."""

    def __init__(self, world: World, *, bumps: bool) -> None:
        self.world = world
        self.bumps = bumps
        self.state: InitProducerIdResponse | EndTxnResponse | None = None
        self.asked: tuple[Request[Any], int, Any] | None = None
        self.ticket: int | None = None
        self.tag = -1
        self.open: set[TopicAndPartition] = set()
        self.is_dead = False

    def ask(self, request: Request[Any], version: int, then: Any) -> None:
        self.asked = request, version, then
        self.ticket = self.world.loop.send(request, version)

    def act(self) -> None:
        if self.asked is not None:
            self.look()
        elif self.state is None:
            self.ask(start_request(), 5, self.started)
        elif self.tag < 0:
            self.begin()
        elif self.world.random.random() < 0.6:
            self.write(self.world.random.choice(PARTITIONS))
        else:
            self.end()

    def look(self) -> None:
        """Take the answer, or ask again if the coordinator that was asked is gone."""
        assert self.asked is not None
        request, version, then = self.asked
        response = None if self.ticket is None else self.world.loop.replies.get(self.ticket)
        if response is not None:
            self.asked = None
            then(response)
        elif self.ticket is None or self.ticket in self.world.lost:
            self.ask(request, version, then)

    def judged(self, error: int, request: tuple[Request[Any], int, Any]) -> bool:
        """Whether an answer is good. Otherwise the producer asks again, or is dead."""
        if error in AGAIN:
            self.world.counts["asked again"] += 1
            self.asked, self.ticket = request, None
        elif error:
            self.world.counts[f"refused {Code.of(error).name}"] += 1
            self.is_dead = True
        return not error

    def started(self, response: InitProducerIdResponse) -> None:
        if self.judged(response.error_code, (start_request(), 5, self.started)):
            self.state = response
            self.world.counts["started"] += 1

    def begin(self) -> None:
        self.tag = len(self.world.transactions)
        self.world.transactions.append(Written())
        self.open = set()

    def write(self, item: TopicAndPartition) -> None:
        assert self.state is not None
        if item in self.open:
            self.stored(item)
        elif self.bumps:
            self.ask(broker_request(self.state, item), 5, lambda answer: self.admitted(item, answer))
        else:
            named = InitProducerIdResponse(
                producer_id=self.state.producer_id, producer_epoch=self.state.producer_epoch
            )
            self.ask(add_request(named, item), 3, lambda answer: self.named(item, answer))

    def named(self, item: TopicAndPartition, response: AddPartitionsToTxnResponse) -> None:
        (only,) = response.results_by_topic_v3_and_below[0].results_by_partition
        assert self.state is not None
        named = InitProducerIdResponse(
            producer_id=self.state.producer_id, producer_epoch=self.state.producer_epoch
        )
        again = add_request(named, item), 3, lambda answer: self.named(item, answer)
        if self.judged(only.partition_error_code, again):
            verify = broker_request(self.state, item, verify_only=True)
            self.ask(verify, 5, lambda answer: self.admitted(item, answer))

    def admitted(self, item: TopicAndPartition, response: AddPartitionsToTxnResponse) -> None:
        (only,) = response.results_by_transaction[0].topic_results[0].results_by_partition
        assert self.state is not None
        again = broker_request(self.state, item, verify_only=not self.bumps), 5
        if self.judged(only.partition_error_code, (*again, lambda answer: self.admitted(item, answer))):
            self.open.add(item)
            self.stored(item)

    def stored(self, item: TopicAndPartition) -> None:
        """The partition's leader takes the data, unless a newer producer has taken over."""
        assert self.state is not None
        loop, producer_id, epoch = self.world.loop, self.state.producer_id, self.state.producer_epoch
        if loop.epoch_of(item, producer_id) > epoch:
            self.world.counts["fenced by a partition"] += 1
            self.is_dead = True
            return
        loop.logs[item].append(Entry(producer_id, epoch, self.tag))
        self.world.transactions[self.tag].partitions.add(item)
        self.world.counts["written"] += 1

    def end(self) -> None:
        if not self.open:
            self.write(self.world.random.choice(PARTITIONS))
            return
        assert self.state is not None
        commit = self.world.random.random() < 0.6
        request = end_request(self.state, commit=commit)
        version = 5 if self.bumps else 4
        self.ask(request, version, lambda answer: self.ended(commit, (request, version), answer))

    def ended(self, commit: bool, asked: tuple[Request[Any], int], response: EndTxnResponse) -> None:
        if self.judged(response.error_code, (*asked, lambda answer: self.ended(commit, asked, answer))):
            self.world.transactions[self.tag].told = commit
            self.world.counts["committed" if commit else "aborted"] += 1
            self.tag = -1
            if self.bumps:
                self.state = response


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.loop = Leaders()
        self.lost: set[int] = set()
        self.transactions: list[Written] = []
        self.producers: list[SimulatedProducer] = [self.new_producer()]

    def new_producer(self) -> SimulatedProducer:
        return SimulatedProducer(self, bumps=self.random.random() < 0.6)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.happen()
            # An admitted batch is appended when the answer comes, before anything else can happen.
            for one in self.producers:
                while one.asked is not None and one.ticket in self.loop.replies:
                    one.look()
            self.producers = [one for one in self.producers if not one.is_dead] or [self.new_producer()]
        self.settle_all()
        self.check()

    def happen(self) -> None:
        chance = self.random.random()
        loop = self.loop
        if chance < 0.45 and loop.pending:
            loop.settle()
        elif chance < 0.9:
            self.random.choice(self.producers).act()
        elif chance < 0.92 and loop.pending:
            loop.settle(self.random.choice(FAILURES))
            self.counts["failed writes"] += 1
        elif chance < 0.94:
            self.restart()
        elif chance < 0.96:
            loop.offline ^= {self.random.choice(PARTITIONS)}
        elif chance < 0.98:
            self.producers.append(self.new_producer())
        else:
            loop.advance(self.random.choice([100, TIMEOUT_MS // 4]))
            loop.perform(loop.coordinator.abort_timed_out(loop.now_ms))

    def restart(self) -> None:
        self.lost |= self.loop.versions.keys() - self.loop.replies.keys()
        self.loop.restart()
        self.counts["restarts"] += 1

    def settle_all(self) -> None:
        """Bring every partition back, and let the timeout decide what is open."""
        loop = self.loop
        loop.offline = set()
        loop.holding = False
        while loop.pending:
            loop.settle()
        loop.advance(2 * TIMEOUT_MS)
        loop.perform(loop.coordinator.abort_timed_out(loop.now_ms))
        loop.advance(1000)
        for one in self.producers:
            if one.asked is not None and one.ticket in loop.replies:
                one.look()

    def check(self) -> None:
        outcomes: list[set[bool | None]] = [set() for _ in self.transactions]
        for log in self.loop.logs.values():
            for tag, outcome in _outcomes(log).items():
                outcomes[tag].add(outcome)
        for tag, written in enumerate(self.transactions):
            assert len(outcomes[tag]) <= 1, f"transaction {tag} is torn: {outcomes[tag]}"
            assert None not in outcomes[tag], f"transaction {tag} is still open"
            if written.told is not None and written.partitions:
                assert outcomes[tag] == {written.told}, f"transaction {tag}: told {written.told}"
        after = Leaders()
        after.holding = False
        after.log = self.loop.log
        after.load()
        if self.counts["started"]:
            assert after.described() == self.loop.described(), "the log says what the coordinator knew"


def _outcomes(log: list[Entry]) -> dict[int, bool | None]:
    """How each transaction of a partition ended, None if it did not."""
    open_tags: dict[int, set[int]] = {}
    outcomes: dict[int, bool | None] = {}
    for entry in log:
        if entry.is_commit is None:
            assert outcomes.get(entry.tag) is None, f"data of transaction {entry.tag} after its end"
            open_tags.setdefault(entry.producer_id, set()).add(entry.tag)
            assert len(open_tags[entry.producer_id]) == 1, "two transactions run into each other"
            outcomes[entry.tag] = None
        else:
            for tag in open_tags.pop(entry.producer_id, set()):
                outcomes[tag] = entry.is_commit
    return outcomes
