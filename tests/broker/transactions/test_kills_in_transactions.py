"""kill -9 of the broker in the middle of transactions: each is there whole or not at all, as it was told.

`OTTLA_SEED` repeats a run, but its kills fall at other instants.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from ottla.model.error_codes import Code
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchTopic
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from ottla.wire.api.txn_offset_commit import (
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
)
from ottla.wire.schema import Request
from tests.broker.faults.batches import batch
from tests.broker.faults.broker_process import BrokerProcess
from tests.broker.faults.raw_client import RawClient
from tests.broker.transactions.committed import read_committed
from tests.scale import REPLAY, seeded, sized

KILLS = sized(8, 500)
PARTITIONS = 3
TRANSACTIONAL = 0x10
LOAD_S = (0.02, 0.3)
SETTINGS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
FIND_COORDINATOR, INIT_PRODUCER_ID, PRODUCE, TXN_OFFSET_COMMIT, END_TXN, OFFSET_FETCH = 3, 5, 12, 5, 5, 7
LATER = {
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
    Code.CONCURRENT_TRANSACTIONS,
    Code.NOT_ENOUGH_REPLICAS,
}


class Transactor:
    """Writes a number to some partitions and commits it as a group's offset, in one transaction each.

    `told` has what it was told of the end of each number: True committed, False aborted, None nothing.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.told: dict[int, bool | None] = {}
        self.written: dict[int, set[int]] = {}
        self._id = self._epoch = -1

    def start(self, client: RawClient) -> None:
        """Become the producer: what the one before has left is aborted or completed."""
        for key, kind in (("x", 1), ("g", 0)):
            client.call(FindCoordinatorRequest(key=key, key_type=kind), FIND_COORDINATOR)
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        while True:
            got = client.call(request, INIT_PRODUCER_ID)
            if got.error_code not in LATER:
                break
        assert got.error_code == 0, got
        self._id, self._epoch = got.producer_id, got.producer_epoch

    def run(self, client: RawClient) -> None:
        self.start(client)
        while True:
            number = len(self.told)
            self.told[number] = None
            self.written[number] = set(self._chance.sample(range(PARTITIONS), self._chance.randint(1, 3)))
            self._until_taken(client, self._produce(number), PRODUCE)
            self._until_taken(client, self._commit_offset(number), TXN_OFFSET_COMMIT)
            commit = self._chance.random() < 0.6
            end = EndTxnRequest(
                transactional_id="x", producer_id=self._id, producer_epoch=self._epoch, committed=commit
            )
            answer = client.call(end, END_TXN)
            assert answer.error_code == 0, answer
            self._epoch = answer.producer_epoch
            self.told[number] = commit

    def _until_taken(self, client: RawClient, request: Request, version: int) -> None:  # type: ignore[type-arg]
        while True:
            answer = client.call(request, version)
            if isinstance(request, ProduceRequest):
                errors = {one.error_code for one in answer.responses[0].partition_responses}
            else:
                errors = {one.error_code for one in answer.topics[0].partitions}
            if not errors & LATER:
                assert errors == {0}, answer
                return

    def _produce(self, number: int) -> ProduceRequest:
        row = b"k", b"%d" % number
        bits, producer_id, epoch = TRANSACTIONAL, self._id, self._epoch
        data = bytes(batch(row, attributes=bits, producer_id=producer_id, producer_epoch=epoch, sequence=0))
        items = [ProducePartition(index=index, records=data) for index in sorted(self.written[number])]
        topics = [ProduceTopic(name="t", partition_data=items)]
        return ProduceRequest(transactional_id="x", acks=-1, timeout_ms=10_000, topic_data=topics)

    def _commit_offset(self, number: int) -> TxnOffsetCommitRequest:
        item = TxnOffsetCommitPartition(partition_index=0, committed_offset=number, committed_metadata="")
        return TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=self._id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitTopic(name="t", partitions=[item])],
        )


def anomalies(
    told: Mapping[int, bool | None], written: Mapping[int, set[int]], seen: list[list[int]], offset: int
) -> list[str]:
    """What a reader of committed data must not find."""
    found = [
        f"partition {index}: twice or out of order"
        for index, ids in enumerate(seen)
        if ids != sorted(set(ids))
    ]
    for number, outcome in told.items():
        where = {index for index, ids in enumerate(seen) if number in ids}
        if where and where != written[number]:
            found.append(f"{number} is torn: in {where} of {written[number]}")
        if outcome is True and not where:
            found.append(f"{number} was committed and is lost")
        if outcome is False and where:
            found.append(f"{number} was aborted and is read")
    last = max((number for ids in seen for number in ids), default=-1)
    if offset != last:
        found.append(f"the committed offset is {offset}, the last committed transaction {last}")
    return found


@pytest.mark.parametrize(
    ("seen", "offset", "what"),
    [
        ([[0], [0], []], 0, ""),
        ([[0, 2], [0], []], 2, "torn"),
        ([[], [], []], -1, "lost"),
        ([[0, 1], [0], []], 1, "aborted and is read"),
        ([[0, 0], [0], []], 0, "twice"),
        ([[0], [0], []], 2, "committed offset"),
    ],
)
def test_anomalies_are_found(seen: list[list[int]], offset: int, what: str) -> None:
    written = {0: {0, 1}, 1: {0}, 2: {0, 1}}
    found = anomalies({0: True, 1: False, 2: None}, written, seen, offset)
    assert any(what in line for line in found) if what else found == []


def test_killed_in_the_middle_of_transactions(tmp_path: Path) -> None:
    chance = seeded("transactions")
    data_dir = tmp_path / "data"
    transactor = Transactor(chance)
    for number in range(KILLS + 1):
        with BrokerProcess(data_dir, SETTINGS) as broker:
            with broker.client() as client:
                if number == 0:
                    assert client.create("t", PARTITIONS) == 0
                transactor.start(client)
                seen = [read_committed(f"127.0.0.1:{broker.port}", "t", index) for index in range(PARTITIONS)]
                wanted = [OffsetFetchTopic(name="t", partition_indexes=[0])]
                answer = client.call(
                    OffsetFetchRequest(group_id="g", topics=wanted, require_stable=True), OFFSET_FETCH
                )
            found = answer.topics[0].partitions[0]
            assert (answer.error_code, found.error_code) == (0, 0)
            values = [[int(value) for value in partition] for partition in seen]
            problems = anomalies(transactor.told, transactor.written, values, found.committed_offset)
            assert problems == [], f"{REPLAY}, kill {number}"
            if number < KILLS:
                timer = broker.signal_after(chance.uniform(*LOAD_S))
                with suppress(OSError), broker.client() as client:
                    transactor.run(client)
                timer.join()
                broker.wait()
            assert broker.surprises == [], f"{REPLAY}, kill {number}"
    assert sum(outcome is True for outcome in transactor.told.values()) > KILLS, "hardly anything happened"
