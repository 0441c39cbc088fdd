"""The table of a transactional producer's states, and what its core sends."""

from __future__ import annotations

import pytest

from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, DeliveryExpired, KafkaError, ProducerFenced, TransactionAborted
from ottla.producer.accumulator import Accumulator
from ottla.producer.partition_queue import NEVER
from ottla.producer.sequences import Identity
from ottla.producer.transaction_state import (
    TRANSITIONS,
    PartitionGate,
    ProducerTransactionEvent,
    ProducerTransactionState,
    TransactionMachine,
)
from tests.producer.one_core import BROKER, add, core, in_flight, refuse, take_one
from tests.producer.simulated_cluster import TOPIC

EVENTS = ProducerTransactionEvent


def machine(*events: ProducerTransactionEvent) -> TransactionMachine:
    one = TransactionMachine()
    for event in (EVENTS.INITIALIZED, EVENTS.BEGIN, *events):
        one.advance(event, DeliveryExpired("too late"))
    return one


def transactional(*, registers: bool = False, partitions: int = 1) -> Accumulator:
    one = core(is_transactional=True, partitions=partitions)
    one.gate = PartitionGate()
    one.gate.open(registers=registers)
    one.in_hurry = True
    return one


# ---- the states


def test_every_state_can_be_reached_and_all_but_the_last_left() -> None:
    """The first one too: a transaction that is handed over leaves a producer as it began."""
    reached = {after for row in TRANSITIONS.values() for after in row.values()}
    assert reached == set(ProducerTransactionState)
    assert {state for state, row in TRANSITIONS.items() if not row} == {ProducerTransactionState.FENCED}


def test_a_transaction_that_failed_can_only_be_aborted() -> None:
    one = machine(EVENTS.FAIL)
    for event in (EVENTS.COMMIT, EVENTS.BEGIN):
        with pytest.raises(TransactionAborted, match="too late") as failure:
            one.advance(event)
        assert isinstance(failure.value.__cause__, DeliveryExpired)
    one.advance(EVENTS.ABORT)
    one.advance(EVENTS.ENDED)
    assert one.state is ProducerTransactionState.READY


def test_a_commit_without_an_answer_can_only_be_repeated() -> None:
    one = machine(EVENTS.COMMIT)
    for event in (EVENTS.ABORT, EVENTS.BEGIN):
        with pytest.raises(ConfigError, match="not known; call it again"):
            one.advance(event)
    one.advance(EVENTS.COMMIT)
    assert one.state is ProducerTransactionState.COMMITTING


def test_a_fenced_producer_does_nothing_any_more() -> None:
    for events in ((), (EVENTS.FAIL,), (EVENTS.COMMIT,), (EVENTS.ABORT,)):
        one = machine(*events, EVENTS.FENCE)
        for event in (EVENTS.BEGIN, EVENTS.COMMIT, EVENTS.ABORT):
            with pytest.raises(ProducerFenced):
                one.advance(event)


# ---- what is sent


def test_nothing_is_sent_outside_of_a_transaction() -> None:
    one = transactional()
    assert one.gate is not None
    one.gate.is_open = False
    add(one, 1)
    assert (one.ready_at(BROKER), one.take(BROKER, 1e9), one.wants_identity) == (NEVER, [], False)
    assert not one.gate.is_started
    one.gate.open(registers=False)
    assert take_one(one).base_sequence == 0
    assert one.gate.is_started


def test_the_older_protocol_registers_partitions_first() -> None:
    one = transactional(registers=True, partitions=2)
    assert one.gate is not None
    assert one.gate.registered is not None
    add(one, 1)
    add(one, 2, partition=1)
    assert one.unregistered == [(TOPIC, 0), (TOPIC, 1)]
    assert one.take(BROKER, 1e9) == []
    one.gate.registered.add((TOPIC, 1))
    assert one.unregistered == [(TOPIC, 0)]
    assert [batch.partition for batch in one.take(BROKER, 1e9)] == [1]


@pytest.mark.parametrize(
    "code",
    [
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Code.UNKNOWN_PRODUCER_ID,
        Code.INVALID_PRODUCER_EPOCH,
        Code.INVALID_TXN_STATE,
        Code.TRANSACTION_ABORTABLE,
    ],
)
def test_a_refused_number_fails_the_batch_and_ends_the_sending(code: Code) -> None:
    one = transactional()
    add(one, 1)
    batch = take_one(one)
    add(one, 2)
    (outcome,) = refuse(one, batch, code)[1]
    assert isinstance(outcome.error, KafkaError)
    assert one.has_gaps
    assert one.take(BROKER, 1e9) == []


def test_batches_behind_one_that_is_sent_again_keep_their_numbers() -> None:
    one = transactional()
    first, second = in_flight(one, 2)
    assert refuse(one, first, Code.NOT_LEADER_OR_FOLLOWER)[1] == []
    assert refuse(one, second, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)[1] == []
    sent = [take_one(one, 1e9)]
    one.stored(sent[0], 1, -1)
    sent.append(take_one(one, 1e9))
    assert [batch.base_sequence for batch in sent] == [1, 2]
    assert not one.has_gaps


def test_another_epoch_starts_at_zero() -> None:
    one = transactional()
    (batch,) = in_flight(one, 1)
    one.stored(batch, 1, -1)
    one.renumber(Identity(9, 1))
    add(one, 5)
    sent = take_one(one)
    assert (sent.identity, sent.base_sequence) == (Identity(9, 1), 0)
