"""The checker finds bugs of a broker: each of these is planted, and the same story is told by its clients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker, GroupMetadata, OttlaError, Producer, TopicAndPartition
from ottla.broker.coordination.topic_writer import CoordinatorWriter
from ottla.broker.groups.coordinator.decision import CoordinatorStep, PendingGroupAppend
from ottla.broker.producer_state import producer_states
from ottla.broker.storage.partition import Partition
from ottla.broker.transactions.coordinator import rules
from ottla.broker.transactions.coordinator.records import read
from ottla.broker.transactions.coordinator.state import TransactionState
from ottla.broker.transactions.transaction_service import TransactionService
from ottla.log.end_markers import EndMarker
from ottla.model.error_codes import Code
from ottla.model.errors import StorageError
from ottla.model.topic_partition import TRANSACTIONS_TOPIC
from tests.proof.checker import History, Outcome, Transaction, anomalies
from tests.transactions.run import final_values
from tests.transactions.worker import OUTPUT

IN, GROUP = TopicAndPartition("in", 0), GroupMetadata("group")
OUT = [TopicAndPartition(OUTPUT, number) for number in range(2)]


class Story:
    """Writers of one transactional id, one after the other; `clock` counts their steps."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self._clock = 0
        self._writers = 0
        self._transactions: list[Transaction] = []
        self._readers: list[dict[TopicAndPartition, list[str]]] = []
        self._takeovers: dict[tuple[str, int], tuple[int, int]] = {}

    def now(self) -> int:
        self._clock += 1
        return self._clock

    def writer(self) -> tuple[Producer, int]:
        """The next writer, which has replaced the one before."""
        number, began_at = self._writers, self.now()
        self._writers += 1
        producer = Producer(
            bootstrap_servers=self._broker.bootstrap, transactional_id="id", max_block_ms=2_000, retries=5
        )
        producer.init_transactions()
        self._takeovers["id", number] = began_at, self.now()
        return producer, number

    def tell(
        self,
        writer: tuple[Producer, int],
        first: int,
        next_offset: int,
        outcome: Outcome = Outcome.COMMITTED,
        before_the_end: Callable[[], object] = lambda: None,
    ) -> None:
        """A transaction from begin to end; a reader looks while it is open."""
        producer, number = writer
        name = len(self._transactions)
        values = {partition: [f"{name}.{partition.partition}"] for partition in OUT}
        one = Transaction("id", number, self.now(), values, {IN: (first, next_offset)})
        self._transactions.append(one)
        try:
            producer.begin()
            for partition, (value,) in values.items():
                producer.send(OUTPUT, value, partition=partition.partition)
            producer.send_offsets({IN: next_offset}, GROUP)
            producer.flush()
            self._readers.append(final_values(self._broker.bootstrap))
            before_the_end()
            (producer.commit if outcome is Outcome.COMMITTED else producer.abort)()
            one.outcome = outcome
        except OttlaError:
            one.outcome = Outcome.UNKNOWN

    def told(self) -> History:
        with Admin(bootstrap_servers=self._broker.bootstrap) as admin:
            (row,) = admin.group_lag(GROUP.group_id).partitions
        return History(
            self._transactions,
            final=final_values(self._broker.bootstrap),
            readers=self._readers,
            takeovers=self._takeovers,
            positions={IN: row.committed or 0},
        )


_stage = CoordinatorWriter._stage


def lost_disk(writer: CoordinatorWriter, partition: Partition, *arguments: Any) -> None:
    if partition.topic == TRANSACTIONS_TOPIC:
        raise StorageError("the disk is gone")
    _stage(writer, partition, *arguments)


def tell_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Abort, commit, be replaced, and crash before a decision is stored; returns the anomalies."""
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        broker.create_topic("in", 1)
        broker.create_topic(OUTPUT, len(OUT))
        story = Story(broker)
        old = story.writer()
        story.tell(old, 0, 2, Outcome.ABORTED)
        story.tell(old, 0, 2)
        new = story.writer()
        story.tell(old, 2, 4)
        story.tell(new, 2, 4)
        with monkeypatch.context() as crash:
            lose_disk = partial(crash.setattr, CoordinatorWriter, "_stage", lost_disk)
            story.tell(new, 4, 6, before_the_end=lose_disk)
            old[0].close(0)
            new[0].close(0)
        broker.stop()
        broker.start()
        story.writer()[0].close()
        return anomalies(story.told())


def wrong_stable_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    right = vars(Partition)["last_stable_offset"].fget

    def wrong(partition: Partition) -> int:
        assert partition.log is not None
        return min(int(right(partition)) + 1, partition.log.high_watermark)

    monkeypatch.setattr(Partition, "last_stable_offset", property(wrong))


def marker_before_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    right = TransactionService._append

    def wrong(service: Any, append: Any) -> None:
        _, transaction = read(append.records[0])
        if transaction is not None and transaction.state is TransactionState.PREPARE_COMMIT:
            first = service._store.partition(*min(set(OUT) & set(transaction.partitions)))
            marker = EndMarker(
                transaction.producer_id, transaction.producer_epoch, 0, True, transaction.version
            )
            service._markers.end_transaction(first, marker)
        right(service, append)

    monkeypatch.setattr(TransactionService, "_append", wrong)


def no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "producer_error", lambda *_arguments: Code.NONE)
    monkeypatch.setattr(producer_states, "check_epoch", lambda *_arguments: None)


def offsets_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    def append(step: CoordinatorStep, group_id: str, records: Any, then: Any, producer: Any = None) -> None:
        step.pending_appends.append(PendingGroupAppend(group_id, tuple(records), then, None))

    monkeypatch.setattr(CoordinatorStep, "append", append)


def test_a_sound_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tell_all(tmp_path, monkeypatch) == []


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (wrong_stable_offset, "aborted read"),
        (marker_before_the_decision, "torn"),
        (no_fence, "fenced"),
        (offsets_outside, "positions"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    lines = tell_all(tmp_path, monkeypatch)
    assert any(line.startswith(found) for line in lines), lines
