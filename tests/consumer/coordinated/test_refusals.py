"""What a group refuses is raised, or mended and said: nothing is silent."""

from __future__ import annotations

import logging
import re

import pytest

from ottla import EmbeddedBroker
from ottla.consumer.coordinated.member import GroupConsumerMember
from ottla.consumer.coordinated.topic_watch import TopicWatch
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, OffsetCommitFailed, OttlaError, PartitionsLost
from tests.consumer.coordinated.conftest import Consumers
from tests.consumer.coordinated.polling import Notes, fill, partitions_of, poll_until, read_all, shared_out
from tests.fetching.traffic import Writer
from tests.waiting import PATIENCE_S


def test_who_may_not_join_is_told_by_each_poll(
    broker: EmbeddedBroker, consumer: Consumers, topic: str
) -> None:
    broker.fail("JoinGroup", Code.GROUP_AUTHORIZATION_FAILED)
    one = consumer()
    for _ in range(2):
        with pytest.raises(KafkaError, match=f"group 'group-of-{topic}'.*GROUP_AUTHORIZATION_FAILED"):
            poll_until(lambda: False, one)


@pytest.mark.parametrize(
    ("owner", "method"),
    [(GroupConsumerMember, "next_request"), (GroupConsumerMember, "answered"), (TopicWatch, "_look")],
    ids=["membership", "answer", "topics"],
)
def test_whatever_ended_the_membership_a_retry_joins_again(
    consumer: Consumers, topic: str, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    """Even a bug of ours: a thread that is gone would never join, and poll() would return None for ever."""

    def fail(*_: object) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError

    monkeypatch.setattr(owner, method, fail)
    one = consumer()
    with pytest.raises(ZeroDivisionError):
        poll_until(lambda: False, one)
    one.retry()
    poll_until(shared_out(topic, one), one)


def test_a_commit_that_is_refused_is_raised_or_told_or_logged(
    broker: EmbeddedBroker, consumer: Consumers, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = consumer()
    poll_until(shared_out(topic, one), one)
    broker.fail("OffsetCommit", Code.GROUP_AUTHORIZATION_FAILED, times=3)
    with pytest.raises(OffsetCommitFailed, match="GROUP_AUTHORIZATION_FAILED"):
        one.commit({partitions_of(topic)[0]: 1})
    told: list[OttlaError | None] = []
    one.commit_async({partitions_of(topic)[0]: 1}, lambda _, error: told.append(error))
    poll_until(lambda: bool(told), one)
    assert isinstance(told[0], OffsetCommitFailed)
    with caplog.at_level(logging.WARNING, "ottla.consumer.coordinated"):
        one.commit_async({partitions_of(topic)[0]: 1})
        poll_until(lambda: "a commit of 1 positions: " in caplog.text, one)


@pytest.mark.parametrize("error", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])
def test_who_is_put_out_is_told_and_comes_back(
    broker: EmbeddedBroker,
    consumer: Consumers,
    writer: Writer,
    topic: str,
    error: Code,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As after a SIGSTOP that outlasted the session; the next heartbeat, or a commit, hears of it."""
    fill(writer, topic)
    notes = Notes()
    one = consumer(listener=notes, session_timeout_ms=2_000)
    read_all(one, topic)
    with caplog.at_level(logging.WARNING, "ottla.consumer.coordinated"):
        broker.fail("Heartbeat", error)
        poll_until(lambda: ("lost", set(partitions_of(topic))) in notes.calls, one)
    assert f"is out of the group: {error.name}" in caplog.text
    assert "has lost" in caplog.text
    poll_until(shared_out(topic, one), one)
    assert [kind for kind, _ in notes.calls] == ["assigned", "lost", "assigned"]


def test_a_commit_in_a_generation_that_is_over_is_raised_and_the_next_poll_joins_again(
    broker: EmbeddedBroker, consumer: Consumers, writer: Writer, topic: str
) -> None:
    fill(writer, topic)
    one = consumer(heartbeat_interval_ms=2_900, session_timeout_ms=3_000)
    read_all(one, topic)
    broker.fail("OffsetCommit", Code.UNKNOWN_MEMBER_ID)
    with pytest.raises(PartitionsLost, match=r"poll\(\) joins again"):
        one.commit()
    poll_until(lambda: one.assignment == set(), one)
    poll_until(shared_out(topic, one), one)
    one.commit()


def test_who_is_slow_between_two_rows_is_out_and_told_with_numbers(
    consumer: Consumers, writer: Writer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(writer, topic)
    notes = Notes()
    slow = consumer(listener=notes, max_poll_interval_ms=1_000, max_poll_records=5)
    other = consumer()
    rows = slow.messages(PATIENCE_S)
    assert [next(rows).topic for _ in range(3)] == [topic] * 3
    with caplog.at_level(logging.WARNING, "ottla.consumer.coordinated"):
        poll_until(lambda: len(other.assignment) == 4, other)
    assert list(slow.messages(0.1)) == []
    assert ("lost", set(partitions_of(topic))) in notes.calls
    assert re.search(r"\d+ ms since the last poll, and max.poll.interval.ms is 1000", caplog.text)
    poll_until(shared_out(topic, slow, other), slow, other)
