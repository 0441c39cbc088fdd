"""Every error code in every answer that a mirror reads: it copies on, or ends with the error.

What a broker may answer for a moment does not stop it. What somebody has to act upon ends it, and the next
run continues.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ottla import Code, EmbeddedBroker, OttlaError, TopicAndPartition, replay
from ottla.client.reactions import Action, Call, action_for
from ottla.mirror import Mirror
from ottla.model.errors import MirrorFailed
from tests.consumer.member_faults import MemberFault
from tests.error_codes import CODES
from tests.fetching.traffic import Writer
from tests.mirror.clusters import running
from tests.mirror.conftest import Mirrors
from tests.waiting import wait_for

OPENING_CALLS = (
    Call.FIND_COORDINATOR,
    Call.JOIN_GROUP,
    Call.SYNC_GROUP,
    Call.OFFSET_FETCH,
    Call.LIST_OFFSETS,
)
RUNNING_CALLS = (Call.FETCH, Call.METADATA, Call.HEARTBEAT, Call.OFFSET_COMMIT)
QUICK: dict[str, Any] = {
    "fetch.wait.max.ms": 10,
    "refresh.leader.backoff.ms": 1,
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 5,
    "reconnect.backoff.ms": 1,
    "heartbeat.interval.ms": 10,
}


def ends(call: Call, code: Code) -> bool:
    """Whether the code ends a mirror; the known leader is asked whatever Metadata answers."""
    return call is not Call.METADATA and action_for(code, call) is Action.FAIL


@pytest.fixture(autouse=True)
def _without_faults(
    source: EmbeddedBroker, target: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    caplog.set_level(logging.CRITICAL, logger="ottla")
    yield
    source.clear_faults()
    target.clear_faults()


@pytest.fixture
def partition(source: EmbeddedBroker, target: EmbeddedBroker, name: str) -> TopicAndPartition:
    for broker in (source, target):
        broker.create_topic(name, 1)
    return TopicAndPartition(name, 0)


@pytest.fixture
def writer(source: EmbeddedBroker, partition: TopicAndPartition) -> Iterator[Writer]:
    with Writer(source.bootstrap) as one:
        one.write(partition, 1)
        yield one


@pytest.fixture
def quick(mirror: Mirrors) -> Mirrors:
    """Makes mirrors that wait for nothing, and commit after each chunk."""

    def make(**more: Any) -> Mirror:
        producer = {"linger.ms": 0, "retry.backoff.ms": 1, "retry.backoff.max.ms": 5}
        quickly = {"offset_commit_interval": 0.0, "follows_topics": False, "producer": producer}
        return mirror({**QUICK, "auto.offset.reset": "smallest"}, **{**quickly, **more})

    return make


def copied(target: EmbeddedBroker, partition: TopicAndPartition) -> set[bytes | None]:
    messages = replay(partition.topic, bootstrap_servers=target.bootstrap).messages()
    return {message.raw_value for message in messages}


def strikes(fault: MemberFault, errors: list[BaseException], code: Code) -> None:
    wait_for(lambda: fault.has_struck or errors, f"{code.name} strikes", pause=0.001)
    fault.forget()


@pytest.mark.parametrize("call", RUNNING_CALLS, ids=lambda call: call.value)
def test_codes_that_a_running_mirror_survives(
    source: EmbeddedBroker,
    target: EmbeddedBroker,
    quick: Mirrors,
    partition: TopicAndPartition,
    writer: Writer,
    call: Call,
) -> None:
    survived = [code for code in CODES if not ends(call, code)]
    with running(quick()) as errors:
        wait_for(lambda: errors or copied(target, partition), "the first is copied")
        for code in survived:
            fault = MemberFault(source, call, code)
            if call is Call.METADATA:
                source.fail("Fetch", Code.NOT_LEADER_OR_FOLLOWER)  # so that it is asked for
            if call is Call.OFFSET_COMMIT:
                writer.write(partition, 1)
            strikes(fault, errors, code)
            if call is not Call.OFFSET_COMMIT:
                writer.write(partition, 1)
            assert not errors, code.name
        count = 1 + len(survived)
        wait_for(lambda: errors or len(copied(target, partition)) == count, "all is copied")
    assert not errors


@pytest.mark.parametrize("call", OPENING_CALLS, ids=lambda call: call.value)
def test_codes_that_the_start_of_a_mirror_survives(
    source: EmbeddedBroker,
    target: EmbeddedBroker,
    quick: Mirrors,
    partition: TopicAndPartition,
    writer: Writer,
    call: Call,
) -> None:
    """One start meets them one after the other."""
    faults = {code: MemberFault(source, call, code) for code in CODES if not ends(call, code)}
    with running(quick()) as errors:
        for code, fault in faults.items():
            strikes(fault, errors, code)
            assert not errors, code.name
        wait_for(lambda: errors or copied(target, partition), "the record is copied")
    assert not errors


@pytest.mark.parametrize(
    "call",
    [call for call in (*OPENING_CALLS, *RUNNING_CALLS) if call is not Call.METADATA],
    ids=lambda call: call.value,
)
def test_codes_that_end_a_mirror_and_the_next_run_continues(
    source: EmbeddedBroker,
    target: EmbeddedBroker,
    quick: Mirrors,
    partition: TopicAndPartition,
    writer: Writer,
    call: Call,
) -> None:
    final = [code for code in CODES if ends(call, code)]
    for code in final:
        fault = MemberFault(source, call, code)
        with running(quick()) as errors:
            if call is Call.OFFSET_COMMIT:
                writer.write(partition, 1)
            wait_for(lambda errors=errors: errors, f"{code.name} ends it", pause=0.001)
        assert isinstance(errors[0], OttlaError), code.name
        assert fault.has_struck, code.name
    with running(quick()) as errors:
        count = writer.ends[partition]
        wait_for(lambda: errors or len(copied(target, partition)) == count, "all is copied")
    assert not errors


# --- the target


def test_every_code_of_produce(
    target: EmbeddedBroker, quick: Mirrors, partition: TopicAndPartition, writer: Writer
) -> None:
    """With aborts_on_failure=False, what the target refuses for good is dropped and counted."""
    dropped = {Action.FAIL, Action.SPLIT}
    one = quick(aborts_on_failure=False)

    def counts() -> tuple[int, int]:
        return one.metrics().sent, one.metrics().dropped

    with running(one) as errors:
        wait_for(lambda: errors or counts() == (1, 0), "the first is copied", pause=0.001)
        for code in CODES:
            sent, lost = counts()
            target.fail("Produce", code)
            writer.write(partition, 1)
            wait_for(lambda before=(sent, lost): errors or counts() != before, code.name, pause=0.001)
            is_dropped = action_for(code, Call.PRODUCE) in dropped
            assert counts() == ((sent, lost + 1) if is_dropped else (sent + 1, lost)), code.name
    assert not errors


def test_what_the_target_refuses_ends_it_and_the_next_run_continues(
    target: EmbeddedBroker, quick: Mirrors, partition: TopicAndPartition, writer: Writer
) -> None:
    for code in (code for code in CODES if action_for(code, Call.PRODUCE) in {Action.FAIL, Action.SPLIT}):
        target.fail("Produce", code)
        with running(quick()) as errors:
            wait_for(lambda errors=errors: errors, f"{code.name} ends it", pause=0.001)
        assert [type(error) for error in errors] == [MirrorFailed], code.name
    with running(quick()) as errors:
        wait_for(lambda: errors or copied(target, partition), "the record is copied")
    assert not errors


def test_every_code_of_metadata_at_the_target(
    target: EmbeddedBroker, quick: Mirrors, partition: TopicAndPartition, writer: Writer
) -> None:
    one = quick()
    with running(one) as errors:
        wait_for(lambda: errors or one.metrics().sent == 1, "the first is copied", pause=0.001)
        for number, code in enumerate(CODES, start=2):
            rule = target.fail("Metadata", code)
            target.fail("Produce", Code.NOT_LEADER_OR_FOLLOWER)  # so that it is asked for
            writer.write(partition, 1)
            wait_for(lambda number=number: errors or one.metrics().sent == number, code.name, pause=0.001)
            assert (errors, rule.struck) == ([], 1), code.name
    assert not errors
