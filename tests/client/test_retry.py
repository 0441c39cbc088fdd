from __future__ import annotations

import random

import pytest

from ottla.client.attempts import attempts
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.interruption import Interruption
from ottla.client.reactions import Action, Call, action_about, action_for
from ottla.client.retry import Backoff
from ottla.model.error_codes import Code
from ottla.model.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ConnectionLost,
    KafkaError,
    RequestTimedOut,
)
from tests.client.manual_clock import ManualClock


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (Code.NONE, Action.NONE),
        (Code.NOT_LEADER_OR_FOLLOWER, Action.REFRESH),
        (Code.LEADER_NOT_AVAILABLE, Action.REFRESH),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Action.REFRESH),
        (Code.NOT_CONTROLLER, Action.REFRESH),
        (Code.NOT_COORDINATOR, Action.FIND_COORDINATOR),
        (Code.COORDINATOR_NOT_AVAILABLE, Action.FIND_COORDINATOR),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, Action.RETRY),
        (Code.REQUEST_TIMED_OUT, Action.RETRY),
        (Code.NOT_ENOUGH_REPLICAS, Action.RETRY),
        (Code.OFFSET_OUT_OF_RANGE, Action.FAIL),
        (Code.TOPIC_AUTHORIZATION_FAILED, Action.FAIL),
        (Code.UNKNOWN_SERVER_ERROR, Action.FAIL),
        (31_999, Action.FAIL),
    ],
)
def test_what_to_do_about_a_code(code: int, action: Action) -> None:
    assert action_for(code) is action


def test_every_retriable_code_is_retried_and_nothing_fails_that_kafka_retries() -> None:
    for code in Code:
        if code.retriable:
            assert action_for(code) not in {Action.FAIL, Action.NONE}, code


@pytest.mark.parametrize("call", [Call.FETCH, Call.LIST_OFFSETS, Call.METADATA, Call.OFFSET_FETCH])
def test_what_a_broker_may_answer_for_a_moment_is_tried_again_by_every_call_that_reads(call: Call) -> None:
    for code in (Code.UNKNOWN_SERVER_ERROR, Code.INVALID_TXN_STATE, 31_999):
        assert action_for(code, call) is Action.RETRY
    assert action_for(Code.TOPIC_AUTHORIZATION_FAILED, call) is Action.FAIL


def test_what_to_do_about_what_was_raised() -> None:
    assert action_about(ConnectionLost("gone")) is Action.REFRESH
    assert action_about(BrokerUnreachable("down")) is Action.REFRESH
    assert action_about(RequestTimedOut("late")) is Action.REFRESH
    assert action_about(KafkaError(Code.NOT_COORDINATOR)) is Action.FIND_COORDINATOR
    assert action_about(AuthenticationFailed("no")) is Action.FAIL


def test_pauses_double_up_to_the_longest_and_differ() -> None:
    backoff, chance = Backoff(100, 1_000), random.Random(4)
    pauses = [backoff.pause_ms(failures, chance) for failures in range(1, 60)]
    for pause, wanted in zip(pauses, [100, 200, 400, 800, *[1_000] * 55], strict=True):
        assert 0.8 * wanted <= pause <= 1.2 * wanted
    assert len(set(pauses)) == len(pauses)
    assert backoff.pause_ms(0, chance) == 0
    assert Backoff(0, 0).pause_ms(9, chance) == 0
    assert Backoff(500, 100).pause_ms(1, chance) >= 400, "the first is never cut by a smaller longest"


def test_attempts_end_with_the_deadline_and_never_pause_beyond_it() -> None:
    clock = ManualClock()
    made = list(attempts(Backoff(100, 1_000, jitter=0), Deadline(clock, 1_000), random.Random(0)))
    assert made == [0, 1, 2, 3, 4]
    assert clock.pauses == [100, 200, 400, 300]


def test_one_attempt_is_made_when_there_is_no_time() -> None:
    assert list(attempts(Backoff(1, 1), Deadline(ManualClock(), 0), random.Random(0))) == [0]


def test_an_interruption_ends_the_attempts() -> None:
    with Interruption() as interruption:
        trying = attempts(Backoff(60_000, 60_000), Deadline(MONOTONIC, None), random.Random(0), interruption)
        next(trying)
        interruption.interrupt()
        with pytest.raises(ConnectionLost, match="interrupted"):
            next(trying)


def test_deadlines() -> None:
    clock = ManualClock()
    deadline, endless = Deadline(clock, 100), Deadline(clock, None)
    assert deadline.left_ms() == 100
    assert deadline.capped_ms(500) == 100
    clock.at_ms += 100
    assert deadline.passed
    assert deadline.left_ms() == 0
    assert not endless.passed
    assert endless.left_ms() is None
    assert endless.capped_ms(500) == 500


def test_the_machines_clock_pauses() -> None:
    before = MONOTONIC.now_ms()
    assert MONOTONIC.pause(2) is False
    assert MONOTONIC.now_ms() - before >= 1.9
