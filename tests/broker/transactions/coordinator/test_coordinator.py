"""The transaction coordinator without a broker: commit, abort, fences, repeats, timeouts and restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from ottla.broker.coordination.effects import Record
from ottla.broker.settings.transaction_config import TransactionConfig
from ottla.broker.transactions.coordinator import Transaction
from ottla.broker.transactions.coordinator.records import read, tombstone, transaction_record
from ottla.broker.transactions.coordinator.state import TransactionState
from ottla.broker.transactions.coordinator.transaction import EPOCH_MAX
from ottla.model.error_codes import Code
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.api.end_txn import EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdResponse
from ottla.wire.api.list_transactions import ListTransactionsRequest
from tests.broker.transactions.coordinator.driver import (
    TIMEOUT_MS,
    A,
    B,
    Loop,
    add_request,
    broker_request,
    end_request,
    start_request,
)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_in_all_its_partitions(loop: Loop, commit: bool) -> None:
    producer = loop.start()
    assert loop.state == "Empty"
    assert loop.add(producer, A) is loop.add(producer, B) is Code.NONE
    assert loop.state == "Ongoing"
    assert loop.end(producer, commit=commit).error_code == Code.NONE
    marker = producer.producer_id, producer.producer_epoch, commit
    assert loop.markers == {A: [marker], B: [marker]}
    assert loop.state == ("CompleteCommit" if commit else "CompleteAbort")
    assert loop.described().topics == []


@pytest.mark.parametrize("commit", [True, False])
def test_the_same_end_again_is_answered_and_the_other_is_refused(loop: Loop, commit: bool) -> None:
    producer = loop.start()
    loop.add(producer, A)
    loop.end(producer, commit=commit)
    assert loop.end(producer, commit=commit).error_code == Code.NONE
    assert loop.end(producer, commit=not commit).error_code == Code.INVALID_TXN_STATE
    assert len(loop.markers[A]) == 1


def test_what_was_never_begun_cannot_end(loop: Loop) -> None:
    producer = loop.start()
    assert loop.end(producer).error_code == Code.INVALID_TXN_STATE
    assert loop.end(producer, commit=False).error_code == Code.INVALID_TXN_STATE
    assert loop.end(producer, version=5).error_code == Code.INVALID_TXN_STATE


def test_from_version_2_on_every_transaction_has_an_epoch_of_its_own(loop: Loop) -> None:
    producer = loop.start()
    loop.call(broker_request(producer, A), 5)
    ended = loop.end(producer, version=5)
    assert (ended.producer_id, ended.producer_epoch) == (producer.producer_id, producer.producer_epoch + 1)
    assert loop.markers[A] == [(producer.producer_id, ended.producer_epoch, True)]
    assert loop.end(producer, version=5) == ended, "a repeated request"
    assert loop.end(producer, version=5, commit=False).error_code == Code.INVALID_TXN_STATE
    assert loop.end(ended, version=5).error_code == Code.INVALID_TXN_STATE, "nothing to commit"
    late = loop.call(broker_request(producer, A), 5).results_by_transaction[0].topic_results[0]
    assert late.results_by_partition[0].partition_error_code == Code.PRODUCER_FENCED
    emptied = loop.end(ended, version=5, commit=False)
    assert emptied.producer_epoch == ended.producer_epoch + 1, "an abort of nothing gives another epoch"


def test_a_new_producer_aborts_what_the_old_one_has_open(loop: Loop) -> None:
    old = loop.start()
    loop.add(old, A)
    new = loop.start()
    assert (new.producer_id, new.producer_epoch) == (old.producer_id, old.producer_epoch + 2)
    assert loop.markers[A] == [(old.producer_id, old.producer_epoch + 1, False)]
    assert loop.add(old, A) is Code.PRODUCER_FENCED
    assert loop.end(old).error_code == Code.PRODUCER_FENCED
    assert loop.end(old, version=1).error_code == Code.INVALID_PRODUCER_EPOCH
    assert loop.end(old, version=5, commit=False).error_code == Code.PRODUCER_FENCED
    assert loop.add(new, A) is Code.NONE


def test_a_producer_goes_on_after_an_error(loop: Loop) -> None:
    """KIP-360: it names what it has, and a repeated request gets the same answer."""
    first = loop.start()
    expected: dict[str, Any] = {"producer_id": first.producer_id, "producer_epoch": first.producer_epoch}
    second = loop.start(**expected)
    assert second.producer_epoch == first.producer_epoch + 1
    assert loop.start(**expected) == second
    loop.start()
    assert loop.start(**expected).error_code == Code.PRODUCER_FENCED
    assert loop.call(start_request(**expected), 3).error_code == Code.INVALID_PRODUCER_EPOCH


def test_a_fenced_producer_does_not_disturb_its_successor(loop: Loop) -> None:
    old = loop.start()
    new = loop.start()
    loop.add(new, A)
    late = loop.start(producer_id=old.producer_id, producer_epoch=old.producer_epoch)
    assert late.error_code == Code.PRODUCER_FENCED
    assert loop.state == "Ongoing"


def test_epochs_that_are_used_up_give_way_to_another_producer_id(loop: Loop) -> None:
    old = loop.start()
    loop.log.append((0, transaction_record("t", Transaction(old.producer_id, EPOCH_MAX - 2, TIMEOUT_MS, 0))))
    loop.restart()
    last = loop.start()
    assert (last.producer_id, last.producer_epoch) == (old.producer_id, EPOCH_MAX - 1)
    loop.add(last, A)
    new = loop.start()
    assert loop.markers[A] == [(old.producer_id, EPOCH_MAX, False)]
    assert (new.producer_id, new.producer_epoch) == (old.producer_id + 1, 0)
    assert loop.end(last).error_code == Code.INVALID_PRODUCER_ID_MAPPING


def test_a_commit_with_the_last_epoch_answers_another_producer_id(loop: Loop) -> None:
    old = loop.start()
    loop.log.append((0, transaction_record("t", Transaction(old.producer_id, EPOCH_MAX - 1, TIMEOUT_MS, 0))))
    loop.restart()
    last = InitProducerIdResponse(producer_id=old.producer_id, producer_epoch=EPOCH_MAX - 1)
    loop.call(broker_request(last, A), 5)
    ended = loop.end(last, version=5)
    assert (ended.producer_id, ended.producer_epoch) == (old.producer_id + 1, 0)
    assert loop.markers[A] == [(old.producer_id, EPOCH_MAX, True)]
    loop.restart()
    assert loop.end(last, version=5) == ended, "repeated after a restart"


def test_a_timeout_aborts_and_fences(loop: Loop) -> None:
    producer = loop.start()
    loop.add(producer, A)
    loop.advance(TIMEOUT_MS - 1)
    loop.perform(loop.coordinator.abort_timed_out(loop.now_ms))
    assert loop.state == "Ongoing"
    loop.advance(1)
    loop.perform(loop.coordinator.abort_timed_out(loop.now_ms))
    assert loop.state == "CompleteAbort"
    assert loop.markers[A] == [(producer.producer_id, producer.producer_epoch + 1, False)]
    assert loop.end(producer).error_code == Code.PRODUCER_FENCED
    assert loop.end(producer, version=5, commit=False).error_code == Code.PRODUCER_FENCED


def test_a_producer_of_version_2_may_abort_what_timed_out_and_go_on(loop: Loop) -> None:
    producer = loop.start()
    loop.call(broker_request(producer, A), 5)
    loop.advance(TIMEOUT_MS)
    loop.perform(loop.coordinator.abort_timed_out(loop.now_ms))
    assert loop.end(producer, version=5).error_code == Code.INVALID_TXN_STATE, "there is nothing to commit"
    for _ in range(2):
        ended = loop.end(producer, version=5, commit=False)
        assert (ended.error_code, ended.producer_id) == (Code.NONE, producer.producer_id)
        assert ended.producer_epoch == producer.producer_epoch + 1


def test_the_timeout_of_a_producer_is_bounded(loop: Loop) -> None:
    too_long = loop.config.timeout_max_ms + 1
    for timeout_ms in (too_long, 0, -1):
        response = loop.start(transaction_timeout_ms=timeout_ms)
        assert response.error_code == Code.INVALID_TRANSACTION_TIMEOUT
    assert loop.start(name="").error_code == Code.INVALID_REQUEST


def test_an_id_that_nobody_uses_expires() -> None:
    loop = Loop(TransactionConfig(id_expiration_ms=1000))
    producer = loop.start()
    loop.add(producer, A)
    loop.advance(2000)
    loop.perform(loop.coordinator.expire(loop.now_ms))
    assert loop.state == "Ongoing", "in use"
    loop.end(producer)
    loop.advance(1000)
    loop.perform(loop.coordinator.expire(loop.now_ms))
    assert loop.described().error_code == Code.TRANSACTIONAL_ID_NOT_FOUND
    assert loop.add(producer, A) is Code.INVALID_PRODUCER_ID_MAPPING
    loop.restart()
    assert loop.described().error_code == Code.TRANSACTIONAL_ID_NOT_FOUND
    assert loop.start().producer_id != producer.producer_id


def test_requests_wait_for_what_is_under_way(loop: Loop) -> None:
    producer = loop.start()
    loop.holding = True
    adds = [loop.send(add_request(producer, item), 3) for item in (A, B)]
    assert len(loop.pending) == 2, "partitions do not wait for each other"
    end = loop.send(end_request(producer), 4)
    other = loop.send(start_request(), 5)
    assert not loop.replies.keys() & {*adds, end, other}
    while loop.pending:
        loop.settle()
    assert loop.markers.keys() == {A, B}
    assert cast(EndTxnResponse, loop.replies[end]).error_code == Code.NONE
    assert cast(InitProducerIdResponse, loop.replies[other]).producer_epoch == producer.producer_epoch + 1


def test_an_append_that_fails_changes_nothing(loop: Loop) -> None:
    producer = loop.start()
    loop.add(producer, A)
    loop.holding = True
    end = loop.send(end_request(producer), 4)
    loop.settle(Code.NOT_ENOUGH_REPLICAS)
    assert cast(EndTxnResponse, loop.replies[end]).error_code == Code.COORDINATOR_NOT_AVAILABLE
    assert loop.state == "Ongoing"
    loop.holding = False
    assert loop.end(producer, commit=False).error_code == Code.NONE, "nothing was decided"


def test_a_partition_that_is_offline_gets_its_marker_later(loop: Loop) -> None:
    producer = loop.start()
    loop.add(producer, A, B)
    loop.offline = {B}
    assert loop.end(producer).error_code == Code.NONE, "it is decided"
    assert loop.state == "PrepareCommit"
    (topic,) = loop.described().topics
    assert (topic.topic, topic.partitions) == ("b", [1]), "those without a marker"
    assert loop.add(producer, A) is Code.CONCURRENT_TRANSACTIONS
    assert loop.start().error_code == Code.CONCURRENT_TRANSACTIONS
    assert loop.end(producer).error_code == Code.CONCURRENT_TRANSACTIONS
    loop.advance(1000)
    assert len(loop.markers[A]) == 1
    loop.offline = set()
    loop.advance(1000)
    assert loop.state == "CompleteCommit"
    assert loop.markers[A] == loop.markers[B]
    assert loop.add(producer, A) is Code.NONE


def test_a_deleted_partition_needs_no_marker(loop: Loop) -> None:
    producer = loop.start()
    loop.add(producer, A, B)
    loop.deleted = {A}
    loop.end(producer)
    assert loop.state == "CompleteCommit"


@pytest.mark.parametrize("steps", range(4))
def test_a_restart_after_each_step_of_a_commit(loop: Loop, steps: int) -> None:
    """Undecided: the producer commits again. Decided: the markers are written without it."""
    producer = loop.start()
    loop.add(producer, A, B)
    loop.holding = True
    loop.send(end_request(producer), 4)
    for _ in range(steps):
        if loop.pending:
            loop.settle()
    loop.holding = False
    loop.restart()
    assert loop.state == ("Ongoing" if steps == 0 else "CompleteCommit")
    assert loop.end(producer).error_code == Code.NONE
    assert all(set(markers) == {(producer.producer_id, 0, True)} for markers in loop.markers.values())
    assert loop.markers.keys() == {A, B}


def test_a_coordinator_that_moved_away_answers_what_waits(loop: Loop) -> None:
    producer = loop.start()
    loop.holding = True
    add = loop.send(add_request(producer, A), 3)
    end = loop.send(end_request(producer), 4)
    for partition in range(loop.config.partition_count):
        loop.perform(loop.coordinator.unload(partition, loop.now_ms))
    loop.pending.clear()
    assert add in loop.replies
    assert cast(EndTxnResponse, loop.replies[end]).error_code == Code.NOT_COORDINATOR
    loop.holding = False
    assert loop.start().error_code == Code.NOT_COORDINATOR
    assert loop.call(ListTransactionsRequest()).transaction_states == []


def test_older_produce_requests_are_verified(loop: Loop) -> None:
    producer = loop.start()
    loop.add(producer, A)

    def verified(version: int) -> list[int]:
        response = loop.call(broker_request(producer, A, B, verify_only=True), version)
        topics = response.results_by_transaction[0].topic_results
        return [one.partition_error_code for topic in topics for one in topic.results_by_partition]

    assert verified(5) == [Code.NONE, Code.TRANSACTION_ABORTABLE]
    assert verified(4) == [Code.NONE, Code.INVALID_TXN_STATE]
    assert [topic.topic for topic in loop.described().topics] == ["a"], "nothing was added"


def test_offsets_of_a_group_are_a_partition_of_the_transaction(loop: Loop) -> None:
    producer = loop.start()
    fields: dict[str, Any] = {
        "transactional_id": "t",
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }
    request = AddOffsetsToTxnRequest(group_id="group", **fields)
    assert loop.call(request).error_code == Code.NONE
    assert loop.described().topics[0].topic == "__consumer_offsets"
    assert loop.call(AddOffsetsToTxnRequest(**fields)).error_code == Code.INVALID_GROUP_ID


def test_lists_filter(loop: Loop) -> None:
    one, two = loop.start("one"), loop.start("two")
    loop.add(one, A, name="one")
    loop.advance(5000)

    def names(**filters: Any) -> list[str]:
        response = loop.call(ListTransactionsRequest(**filters))
        return [row.transactional_id for row in response.transaction_states]

    assert names() == ["one", "two"]
    assert names(state_filters=["Ongoing"]) == ["one"]
    assert names(producer_id_filters=[two.producer_id]) == ["two"]
    assert names(state_filters=["Ongoing"], duration_filter=4999) == ["one"]
    assert names(state_filters=["Ongoing"], duration_filter=5000) == []
    assert names(transactional_id_pattern="t.*") == ["two"]
    assert names(transactional_id_pattern="t") == [], "as a whole"
    assert names(transactional_id_pattern="(t|t|t)*two|one") == ["one", "two"], "as RE2"
    response = loop.call(ListTransactionsRequest(state_filters=["Ongoing", "Sleepy"]))
    assert response.unknown_state_filters == ["Sleepy"]
    broken = loop.call(ListTransactionsRequest(transactional_id_pattern="("))
    assert broken.error_code == Code.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("state", TransactionState)
def test_a_record_is_read_as_it_was_written(state: TransactionState) -> None:
    parts = frozenset() if state is TransactionState.EMPTY else frozenset({A, B})
    made = Transaction(7, 8, 9, 10, state, parts, 11, 12, 13, 14, 2)
    assert read(transaction_record("id", made)) == ("id", replace(made, last_epoch=-1))
    assert read(tombstone("id")) == ("id", None)


def test_records_of_kafka() -> None:
    """Bytes of TransactionLogValue 0, and of 1 with the tagged fields of KIP-890."""
    key = b"\0\0\0\2id"
    body = b"\0\0\0\0\0\0\0\7" + b"\0\1" + b"\0\0\3\xe8" + b"\1"
    old = b"\0\0" + body + b"\0\0\0\1\0\1a\0\0\0\1\0\0\0\0" + b"\0" * 7 + b"\5" + b"\0" * 7 + b"\4"
    wanted = Transaction(7, 1, 1000, 5, TransactionState.ONGOING, frozenset({A}), 4)
    assert read(Record(key, old)) == ("id", wanted)
    new = b"\0\1" + body + b"\2\2a\2\0\0\0\0\0" + b"\0" * 7 + b"\5" + b"\0" * 7 + b"\4\1\2\2\0\2"
    assert read(Record(key, new)) == ("id", replace(wanted, version=2))
    assert transaction_record("id", replace(wanted, version=2)) == Record(key, new)
    assert read(Record(b"\0\5", b"")) is None
