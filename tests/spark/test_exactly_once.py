"""The protocol of the sink's option exactlyOnce, step by step as Spark takes them, without Spark.

A writer is pickled (planned), copies of it write in tasks, and the driver commits their messages. A driver
that dies is one that stops between two steps.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from ottla import ConfigError, ProducerFenced, TransactionAborted
from ottla.producer import TransactionEnder
from ottla.spark.exactly_once.decision_log import DecisionLog
from ottla.spark.writer import Messages, TopicWriter, sink_options
from tests.naming import name_after_test
from tests.spark.sink_steps import SCHEMA, Sink, bootstrap, task
from tests.waiting import wait_for

__all__ = ["bootstrap"]

TASKS = 3


@pytest.fixture
def sink(bootstrap: str, request: pytest.FixtureRequest) -> Sink:
    return Sink(bootstrap, name_after_test(request))


def tasks(writer: TopicWriter, batch: int = 0) -> Messages:
    return [task(writer, 100 * batch + 10 * number) for number in range(TASKS)]


def rows(*batches: int) -> Counter[int]:
    return Counter(100 * batch + number for batch in batches for number in range(10 * TASKS))


def assert_settled(sink: Sink, wanted: Counter[int]) -> None:
    """All of it is there, and no transaction is left open."""
    wait_for(lambda: not sink.open_ids(), lambda: sink.open_ids())
    assert sink.values() == wanted


def dies_after(monkeypatch: pytest.MonkeyPatch, ends: int) -> None:
    """The driver dies when it has ended so many transactions."""
    real, count = TransactionEnder.end, iter(range(ends))

    def end(self: TransactionEnder, *arguments: Any, **named: Any) -> None:
        if next(count, None) is None:
            raise KeyboardInterrupt
        real(self, *arguments, **named)

    monkeypatch.setattr(TransactionEnder, "end", end)


def test_rows_count_when_the_driver_has_decided(sink: Sink) -> None:
    writer = sink.planned()
    messages = tasks(writer)
    assert not sink.values()
    writer.commit(messages)
    assert_settled(sink, rows(0))
    following = sink.planned(1)
    following.commit(tasks(following, 1))  # the same process, which has used its ids before
    assert_settled(sink, rows(0, 1))


def test_a_repeated_batch_writes_nothing(sink: Sink) -> None:
    for _ in range(2):
        writer = sink.planned(5)
        writer.commit(tasks(writer))
    earlier = sink.planned(4)
    earlier.commit(tasks(earlier))
    assert_settled(sink, rows(0))
    assert sink.written() == sum(rows(0).values())


@pytest.mark.parametrize("ends", [0, 1, TASKS])
def test_a_driver_that_died_after_its_decision_is_continued(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, ends: int
) -> None:
    writer = sink.planned()
    messages = tasks(writer)
    with monkeypatch.context() as patches:
        dies_after(patches, ends)
        if ends < TASKS:
            with pytest.raises(KeyboardInterrupt):
                writer.commit(messages)
        else:
            writer.commit(messages)
    again = sink.planned()
    again.commit(tasks(again))
    assert_settled(sink, rows(0))
    assert sink.written() == sum(rows(0).values())


def test_a_driver_that_died_before_its_decision_leaves_nothing(sink: Sink) -> None:
    tasks(sink.planned())
    assert len(sink.open_ids()) == TASKS
    again = sink.planned()
    assert not sink.open_ids()
    again.commit(tasks(again))
    assert_settled(sink, rows(0))
    assert sink.written() == 2 * sum(rows(0).values())


def test_a_task_whose_result_did_not_arrive_is_aborted(sink: Sink) -> None:
    writer = sink.planned()
    task(writer, 0)
    writer.commit(tasks(writer))
    assert_settled(sink, rows(0))


def test_tasks_that_were_given_up_are_aborted(sink: Sink) -> None:
    writer = sink.planned()
    writer.abort([*tasks(writer), None])
    assert_settled(sink, Counter())


def test_an_older_driver_decides_nothing(sink: Sink) -> None:
    old = sink.planned()
    old_messages = tasks(old)
    new = sink.planned()
    messages = tasks(new)
    with pytest.raises(ProducerFenced, match="another driver writes under this name"):
        old.commit(old_messages)
    new.commit(messages)
    assert_settled(sink, rows(0))


def test_a_task_that_spark_has_forgotten_disturbs_nobody(sink: Sink) -> None:
    """It goes on after the batch has ended, and its rows do not count."""
    writer = sink.planned()
    writer.commit(tasks(writer))
    task(writer, 0)
    following = sink.planned(1)
    following.commit(tasks(following, 1))
    assert_settled(sink, rows(0, 1))


def test_a_write_without_a_name_counts_as_a_whole(sink: Sink) -> None:
    for _ in range(2):
        writer = sink.planned(writeId="")
        writer.commit(tasks(writer))
    assert_settled(sink, rows(0) + rows(0))


def test_a_batch_that_takes_too_long_does_not_count(sink: Sink) -> None:
    writer = sink.planned(timeout_ms=60000)
    writer._plan = replace(writer._plan, began_at=time.monotonic() - 46)  # type: ignore[type-var]
    with pytest.raises(TransactionAborted, match=r"took \d+ s, and may take 45 s"):
        writer.commit(tasks(writer))
    assert_settled(sink, Counter())


def test_a_timeout_that_brokers_do_not_allow_is_refused_at_the_start(sink: Sink) -> None:
    with pytest.raises(ConfigError, match="is more than the brokers allow"):
        sink.planned(timeout_ms=900001)


def timed_out(sink: Sink, monkeypatch: pytest.MonkeyPatch, ends: int) -> None:
    """Decided, and then the driver was away for too long."""
    writer = sink.planned(timeout_ms=2000)
    monkeypatch.setattr(type(writer._options.driver), "_check_time", lambda *_: None)
    messages = tasks(writer)
    with monkeypatch.context() as patches:
        dies_after(patches, ends)
        with pytest.raises(KeyboardInterrupt):
            writer.commit(messages)
    wait_for(lambda: not sink.open_ids(), "brokers abort the transactions")


def test_a_decision_that_came_to_nothing_is_taken_back(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    timed_out(sink, monkeypatch, 0)
    again = sink.planned()
    with pytest.raises(TransactionAborted, match="start the query again"):
        again.commit(tasks(again))
    third = sink.planned()
    third.commit(tasks(third))
    assert_settled(sink, rows(0))


def test_a_batch_that_is_torn_is_told(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    timed_out(sink, monkeypatch, 1)
    again = sink.planned()
    with pytest.raises(TransactionAborted, match=f"{TASKS - 1} of {TASKS} transactions cannot be committed"):
        again.commit(tasks(again))


def test_a_decision_is_kept_until_its_write_has_a_newer_one(sink: Sink) -> None:
    for batch in range(3):
        writer = sink.planned(batch)
        writer.commit(tasks(writer, batch))
    log = DecisionLog("ottla-spark-decisions", {"bootstrap.servers": sink.bootstrap})
    last = log.last(sink.topic)
    assert last is not None
    assert (last.query, last.batch, len(last.transactions)) == (sink.topic, 2, TASKS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kafka.transactional.id": "mine"}, "set transactionalIdPrefix"),
        ({"exactlyOnce": "false"}, "writeId is for exactlyOnce and rowIdentity"),
        ({"kafka.acks": "1"}, "acks"),
    ],
)
def test_what_contradicts_it_is_told(options: dict[str, str], words: str) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "exactlyOnce": "true", "writeId": "w"}
    with pytest.raises(ConfigError, match=words):
        sink_options(given | options, SCHEMA)


def test_a_stream_needs_a_name_that_stays() -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "exactlyOnce": "true"}
    with pytest.raises(ConfigError, match="set the option checkpointLocation of the writer, or writeId"):
        sink_options(given, SCHEMA, is_stream=True)
