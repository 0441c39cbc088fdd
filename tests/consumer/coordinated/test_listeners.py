"""In which order a listener is told, commits and records come: within a member, and between two."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.consumer.coordinated import GroupConsumer, RebalanceListener
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import OffsetAndMetadata
from tests.consumer.coordinated.conftest import Consumers
from tests.consumer.coordinated.polling import (
    Notes,
    all_offsets,
    fill,
    offsets_of,
    partitions_of,
    poll_until,
    read_all,
    shared_out,
)
from tests.fetching.traffic import Writer
from tests.waiting import wait_for


class Journal(RebalanceListener):
    """Notes what a member is told, with what the group has committed at that moment, into one list of all."""

    def __init__(self, lines: list[tuple[str, str, TopicAndPartition, int]], name: str) -> None:
        self._lines = lines
        self._name = name
        self.consumer: GroupConsumer | None = None

    def on_revoked(self, partitions: Any) -> None:
        assert self.consumer is not None
        assert partitions <= self.consumer.assignment  # still ours
        self.consumer.commit()
        self._note("revoked", partitions)

    def on_assigned(self, partitions: Any) -> None:
        assert self.consumer is not None
        assert partitions <= self.consumer.assignment
        self._note("assigned", partitions)

    def _note(self, kind: str, partitions: Any) -> None:
        assert self.consumer is not None
        stored = self.consumer.committed(partitions)
        for place in sorted(partitions):
            offset = stored[place].offset if place in stored else -1
            self._lines.append((self._name, kind, place, offset))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_partition_is_assigned_after_its_former_owner_has_committed_it(
    consumer: Consumers, writer: Writer, topic: str, strategy: str
) -> None:
    fill(writer, topic)
    lines: list[tuple[str, str, TopicAndPartition, int]] = []

    def member(name: str) -> GroupConsumer:
        journal = Journal(lines, name)
        journal.consumer = consumer(listener=journal, partition_assignment_strategy=strategy)
        return journal.consumer

    one = member("one")
    chunks = read_all(one, topic)
    other = member("other")
    poll_until(shared_out(topic, one, other), one, other, into=chunks)
    one.close()
    poll_until(shared_out(topic, other), other, into=chunks)
    assert offsets_of(chunks) == all_offsets(topic)
    for place in partitions_of(topic):
        told = [(name, kind, offset) for name, kind, where, offset in lines if where == place]
        kinds = [kind for _, kind, _ in told]
        assert kinds == ["assigned", "revoked"] * (len(told) // 2) + ["assigned"] * (len(told) % 2), told
        assert {offset for _, _, offset in told[1:]} == {100}, told
        assert {name for name, _, _ in told[-1:]} == {"other"}


def test_auto_commit_comes_before_the_listener_is_told(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    fill(writer, topic)
    found: list[Any] = []

    def look(kind: str, partitions: Any) -> None:
        if kind == "revoked":
            found.append(one.committed(partitions))

    one = consumer(listener=Notes(look), enable_auto_commit=True, auto_commit_interval_ms=3_600_000)
    read_all(one, topic)
    one.close()
    assert found == [dict.fromkeys(partitions_of(topic), OffsetAndMetadata(100))]


def test_no_record_is_handed_out_before_a_listener_has_sought(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    fill(writer, topic)

    def seek(kind: str, partitions: Any) -> None:
        if kind == "assigned":
            for place in partitions:
                one.seek(place, 60)

    one = consumer(listener=Notes(seek))
    assert offsets_of(read_all(one, topic, 40)) == all_offsets(topic) - all_offsets(topic, 60)


def test_close_tells_the_listener_and_the_next_member_goes_on_at_once(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    fill(writer, topic)
    notes = Notes(lambda kind, _: one.commit() if kind == "revoked" else None)
    one = consumer(listener=notes, session_timeout_ms=30_000)
    read_all(one, topic)
    one.close()
    assert notes.calls == [("assigned", set(partitions_of(topic))), ("revoked", set(partitions_of(topic)))]
    other = consumer()
    poll_until(shared_out(topic, other), other)  # long before the session of the first would end
    assert other.committed() == dict.fromkeys(partitions_of(topic), OffsetAndMetadata(100))


def test_a_pause_outlasts_a_rebalance_in_which_the_partition_stays(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    one = consumer(partition_assignment_strategy="cooperative-sticky")
    poll_until(shared_out(topic, one), one)
    one.pause(*one.assignment)
    other = consumer(partition_assignment_strategy="cooperative-sticky")
    poll_until(shared_out(topic, one, other), one, other)
    kept = one.assignment
    fill(writer, topic)
    chunks = poll_until(lambda: all(other.position(place) == 100 for place in other.assignment), one, other)
    assert not {chunk.topic_partition for chunk in chunks} & kept
    one.resume(*kept)
    poll_until(lambda: all(one.position(place) == 100 for place in kept), one, into=chunks)
    assert offsets_of(chunks) == all_offsets(topic)


@pytest.mark.parametrize("bad", [-5, "sooner or later"])
def test_a_bad_seek_in_a_listener_is_raised_and_all_partitions_are_read(
    consumer: Consumers, writer: Writer, topic: str, bad: Any
) -> None:
    class Careless(RebalanceListener):
        def on_assigned(self, partitions: Any) -> None:
            member.seek(min(partitions), bad)

    fill(writer, topic, 5)
    member = consumer(listener=Careless())
    raised: list[ConfigError] = []

    def poll() -> Any:
        try:
            return member.poll(timeout=0.05)
        except ConfigError as error:
            raised.append(error)
            return None

    seen: set[tuple[TopicAndPartition, int]] = set()
    wait_for(lambda: [seen.update(offsets_of([chunk])) for chunk in [poll()] if chunk] and len(seen) == 20)
    assert len(raised) == 1
