"""GroupConsumer on the embedded broker: one member, several, and what happens to them."""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from typing import Any

import pytest

from ottla import EmbeddedBroker, Producer
from ottla.consumer.coordinated import GroupConsumer
from ottla.model.error_codes import Code
from ottla.model.errors import (
    ConfigError,
    ConsumerClosed,
    KafkaError,
    OffsetCommitFailed,
    OttlaError,
    PartitionsLost,
)
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import OffsetAndMetadata
from tests.both_faces import FACES
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
from tests.waiting import PATIENCE_S, wait_for


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_member_alone_reads_everything_and_goes_on_where_it_committed(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    fill(writer, topic)
    first = consumer()
    assert offsets_of(read_all(first, topic)) == all_offsets(topic)
    assert first.assignment == set(partitions_of(topic))
    first.commit()
    first.close()
    fill(writer, topic, 50)
    second = consumer()
    chunks = poll_until(lambda: len(second.assignment) == 4 and lag(second) == 0, second)
    assert offsets_of(chunks) == all_offsets(topic, 150) - all_offsets(topic, 100)
    assert second.committed() == {place: OffsetAndMetadata(100) for place in partitions_of(topic)}


def test_a_second_thread_that_reads_is_refused(broker: EmbeddedBroker, topic: str) -> None:
    refused: list[ConfigError] = []
    settings = {"auto.offset.reset": "earliest"}  # the record may come before the group has formed
    servers, group = broker.bootstrap, f"{topic}-threads"
    with GroupConsumer(topic, settings, bootstrap_servers=servers, group_id=group) as member:

        def read() -> None:
            try:
                member.poll(timeout=PATIENCE_S)
            except ConfigError as error:
                refused.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_for(lambda: bool(refused), "one of them is refused")
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send(topic, "tea")
        for thread in threads:
            thread.join()
    assert [str(error) for error in refused] == [
        f"group '{topic}-threads': another thread reads from this consumer; one may"
    ]


def lag(consumer: GroupConsumer) -> int:
    infos = consumer._engine.infos()
    return sum(100_000 if info.lag is None else info.lag for info in infos)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_unicast_in_a_group(consumer: Consumers, writer: Writer, topic: str, strategy: str) -> None:
    """Each record goes to one member, through members that come and go, with a commit on revocation."""
    fill(writer, topic)
    chunks: list[Any] = []

    def member() -> GroupConsumer:
        listener = Notes(lambda kind, _: one.commit() if kind == "revoked" else None)
        one = consumer(listener=listener, partition_assignment_strategy=strategy)
        return one

    first, second = member(), member()
    poll_until(shared_out(topic, first), first, into=chunks)
    poll_until(shared_out(topic, first, second), first, second, into=chunks)
    fill(writer, topic)
    third = member()
    poll_until(shared_out(topic, first, second, third), first, second, third, into=chunks)
    first.close()
    fill(writer, topic)
    poll_until(shared_out(topic, second, third), second, third, into=chunks)
    poll_until(lambda: len(offsets_of(chunks)) == 1200, second, third, into=chunks)
    assert offsets_of(chunks) == all_offsets(topic, 300)


def test_multicast_across_groups(consumer: Consumers, writer: Writer, topic: str) -> None:
    fill(writer, topic)
    for group in ("one", "another"):
        assert offsets_of(read_all(consumer(group_id=f"{group}-{topic}"), topic)) == all_offsets(topic)


def test_a_group_is_global_to_the_cluster_and_not_to_a_topic(
    broker: EmbeddedBroker, consumer: Consumers, topic: str
) -> None:
    broker.create_topic(f"{topic}-other", 2)
    one, other = consumer(topic), consumer(f"{topic}-other")
    poll_until(lambda: len(one.assignment) == 4 and len(other.assignment) == 2, one, other)
    assert one._membership.membership.generation == other._membership.membership.generation


def test_cooperative_members_keep_what_they_have(consumer: Consumers, topic: str) -> None:
    notes = Notes()
    first = consumer(listener=notes, partition_assignment_strategy="cooperative-sticky")
    poll_until(shared_out(topic, first), first)
    second = consumer(partition_assignment_strategy="cooperative-sticky")
    poll_until(shared_out(topic, first, second), first, second)
    revoked = [call[1] for call in notes.calls if call[0] == "revoked"]
    assert [len(one) for one in revoked] == [2]
    assert revoked[0] == second.assignment


def test_rows_are_handed_out_one_by_one_and_positions_follow(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    fill(writer, topic)
    one = consumer(value_deserializer=bytes.decode)
    seen = Counter[tuple[int, int]]()
    rows = one.messages(PATIENCE_S)
    for message in rows:
        assert (message.value or "").startswith(f"v{message.offset}-")
        seen[message.partition, message.offset] += 1
        place = TopicAndPartition(topic, message.partition)
        assert one.position(place) == message.offset + 1
        if sum(seen.values()) == 150:
            break
    one.commit()
    done = Counter(number for number, _ in seen)
    committed = Counter({place.partition: at.offset for place, at in one.committed().items()})
    assert +committed == done  # others are committed at 0
    for message in one.messages(PATIENCE_S):  # goes on in the middle of the chunk
        seen[message.partition, message.offset] += 1
        if sum(seen.values()) == 400:
            break
    assert set(seen.values()) == {1}


THREADS_ONLY = pytest.mark.parametrize("face", ["threads"])
"""Its listener calls the consumer and uses the answer at once."""


@THREADS_ONLY
def test_rows_of_a_large_chunk_do_not_keep_the_group_waiting(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    for place in partitions_of(topic):
        writer.write(place, 5000, at_once=5000)
    seen: Counter[int] = Counter()
    at_revocation: list[Counter[int]] = []

    def commit(kind: str, _: Any) -> None:
        if kind == "revoked":
            at_revocation.append(Counter(seen))
            one.commit()

    one = consumer(listener=Notes(commit), max_poll_records=10)
    other = consumer()
    for message in one.messages(PATIENCE_S):
        seen[message.partition] += 1
        if seen.total() % 10 == 0:
            other.poll(0.001)
        if at_revocation:
            break
    assert at_revocation[0].total() < 20_000, "the group waited for the end of a chunk"
    committed = Counter(
        {place.partition: at.offset for place, at in one.committed(partitions_of(topic)).items()}
    )
    assert +committed == at_revocation[0]


def test_a_chunk_that_was_begun_by_rows_is_finished_by_poll(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    writer.write(partitions_of(topic)[0], 100)
    one = consumer()
    message = next(iter(one.messages(PATIENCE_S)))
    assert message.offset == 0
    chunk = one.poll(PATIENCE_S)
    assert chunk is not None
    assert chunk.batch["offset"].to_pylist() == list(range(1, 100))


def test_a_pause_between_two_rows_holds_the_rest_of_the_chunk(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    first, second, *_ = partitions_of(topic)
    writer.write(first, 100)
    one = consumer()
    seen: list[tuple[int, int]] = []
    for message in one.messages(PATIENCE_S):
        seen.append((message.partition, message.offset))
        if seen == [(0, offset) for offset in range(10)]:
            one.pause(first)
            assert one.position(first) == 10
            writer.write(second, 5)
        if message.partition == 1 and message.offset == 4:
            one.resume(first)
        if len(seen) == 105:
            break
    assert seen[10:15] == [(1, offset) for offset in range(5)]
    assert seen[15:] == [(0, offset) for offset in range(10, 100)]


def test_commits_by_chunk_async_and_in_order(consumer: Consumers, writer: Writer, topic: str) -> None:
    fill(writer, topic)
    one = consumer()
    told: list[tuple[Any, OttlaError | None]] = []
    for chunk in read_all(one, topic):
        one.commit_async(chunk, lambda offsets, error: told.append((offsets, error)))
    one.commit({partitions_of(topic)[0]: OffsetAndMetadata(7, "by hand")})
    assert {error for _, error in told} == {None}
    expected = {place: OffsetAndMetadata(100) for place in partitions_of(topic)}
    assert one.committed() == expected | {partitions_of(topic)[0]: OffsetAndMetadata(7, "by hand")}
    with pytest.raises(OffsetCommitFailed, match=r"offset\.metadata\.max\.bytes"):
        one.commit({partitions_of(topic)[0]: OffsetAndMetadata(7, "x" * 5000)})
    one.poll(0.2)  # which is no reason to leave the group
    assert one.assignment == set(partitions_of(topic))


def test_partitions_go_after_what_was_committed(
    broker: EmbeddedBroker, consumer: Consumers, writer: Writer, topic: str
) -> None:
    fill(writer, topic)
    one, other = consumer(), consumer()
    read_all(one, topic)
    told: list[OttlaError | None] = []
    broker.fail("OffsetCommit", Code.COORDINATOR_LOAD_IN_PROGRESS, times=3)
    one.commit_async(dict.fromkeys(partitions_of(topic), 50), lambda _, error: told.append(error))
    chunks = poll_until(lambda: bool(told) and shared_out(topic, one, other)(), one, other)
    poll_until(lambda: len(offsets_of(chunks)) == 200, one, other, into=chunks)
    assert told == [None]
    assert offsets_of(chunks) == all_offsets(topic, 100) - all_offsets(topic, 50)
    with pytest.raises(PartitionsLost, match="this member does not have them any more"):
        one.commit(dict.fromkeys(other.assignment, 77))


def test_auto_commit_by_polls_and_at_the_end(consumer: Consumers, writer: Writer, topic: str) -> None:
    fill(writer, topic)
    one = consumer(enable_auto_commit=True, auto_commit_interval_ms=1)
    read_all(one, topic)
    expected = {place: OffsetAndMetadata(100) for place in partitions_of(topic)}
    poll_until(lambda: one.committed() == expected, one)
    other = consumer(enable_auto_commit=True, group_id=f"other-{topic}")
    read_all(other, topic)
    assert other.committed() == {}
    other.close()
    assert consumer(group_id=f"other-{topic}").committed(partitions_of(topic)) == expected


@pytest.mark.parametrize("auto", [True, False])
def test_partitions_that_had_nothing_are_committed_too(
    consumer: Consumers, writer: Writer, topic: str, auto: bool
) -> None:
    """Else a group that reads from the end would miss what comes while nobody is there."""
    empty, full, *_ = partitions_of(topic)
    writer.write(full, 10)
    one = consumer(enable_auto_commit=auto, auto_offset_reset="largest")
    poll_until(lambda: len(one._partitions.positions()) == 4, one)
    if not auto:
        one.commit()
    one.close()
    writer.write(empty, 3)
    writer.write(full, 3)
    again = consumer(auto_offset_reset="largest")
    chunks = poll_until(lambda: len(again.assignment) == 4 and lag(again) == 0, again)
    assert offsets_of(chunks) == Counter(
        [*((empty, offset) for offset in range(3)), *((full, offset) for offset in range(10, 13))]
    )


def test_seek_pause_and_resume(consumer: Consumers, writer: Writer, topic: str) -> None:
    fill(writer, topic)
    first, *rest = partitions_of(topic)
    one = consumer(listener=Notes(lambda kind, _: one.seek(first, 90) if kind == "assigned" else None))
    poll_until(lambda: len(one.assignment) == 4, one)
    one.pause(*rest)
    one.seek(first, 95)
    assert one.position(first) == 95
    chunks = poll_until(lambda: one.position(first) == 100, one)
    assert [chunk.batch["offset"][0].as_py() for chunk in chunks if chunk.topic_partition == first][-1] == 95
    one.seek(first, "earliest")
    chunks = poll_until(lambda: one.position(first) == 100, one)
    assert {chunk.topic_partition for chunk in chunks} == {first}
    before = {place: one.position(place) for place in rest}
    one.resume(*rest)
    chunks = poll_until(lambda: all(one.position(place) == 100 for place in rest), one)
    assert sum(chunk.batch.num_rows for chunk in chunks) == sum(100 - max(0, n) for n in before.values())
    with pytest.raises(ConfigError, match="elsewhere-0 is not assigned to this member; it has "):
        one.seek(TopicAndPartition("elsewhere", 0), 1)


def test_who_does_not_poll_is_out_and_told_with_numbers(
    consumer: Consumers, writer: Writer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(writer, topic)
    notes = Notes()
    slow = consumer(listener=notes, max_poll_interval_ms=1_000, session_timeout_ms=10_000)
    read_all(slow, topic)
    other = consumer(group_id=f"group-of-{topic}")
    with caplog.at_level(logging.WARNING, "ottla.consumer.coordinated"):
        poll_until(lambda: len(other.assignment) == 4, other)  # the slow one does nothing meanwhile
    assert re.search(r"\d+ ms since the last poll, and max.poll.interval.ms is 1000", caplog.text)
    with pytest.raises(PartitionsLost, match=r"at 100 not committed: .*max.poll.interval.ms"):
        slow.commit()
    poll_until(shared_out(topic, slow, other), slow, other)  # and it comes back
    assert [call[0] for call in notes.calls[:3]] == ["assigned", "lost", "assigned"]


def test_a_listener_that_raises_does_not_keep_the_group_waiting(consumer: Consumers, topic: str) -> None:
    def fails(kind: str, _: Any) -> None:
        if kind == "revoked" and len(notes.calls) == 2:
            raise ZeroDivisionError("in the listener")

    notes = Notes(fails)
    one = consumer(listener=notes)
    poll_until(shared_out(topic, one), one)
    other = consumer()
    with pytest.raises(ZeroDivisionError, match="in the listener"):
        poll_until(lambda: False, one, other)
    poll_until(shared_out(topic, one, other), one, other)


def test_a_static_member_comes_back_without_a_rebalance(consumer: Consumers, topic: str) -> None:
    other_notes = Notes()
    one = consumer(group_instance_id="i1")
    other = consumer(group_instance_id="i2", listener=other_notes)
    poll_until(shared_out(topic, one, other), one, other)
    kept, generation = one.assignment, one._membership.membership.generation
    one.close()
    again = consumer(group_instance_id="i1")
    told = len(other_notes.calls)
    poll_until(lambda: again.assignment == kept, again, other)
    assert again._membership.membership.generation == generation
    assert len(other_notes.calls) == told


def test_a_static_member_that_stays_away_loses_its_partitions_when_its_session_ends(
    consumer: Consumers, writer: Writer, topic: str
) -> None:
    one = consumer(group_instance_id="i1", session_timeout_ms=1_000)
    other = consumer(group_instance_id="i2")
    poll_until(shared_out(topic, one, other), one, other)
    one.close()
    assert other.assignment != set(partitions_of(topic))
    poll_until(shared_out(topic, other), other)
    fill(writer, topic)
    assert offsets_of(read_all(other, topic)) == all_offsets(topic)


def test_two_with_one_instance_id_are_told(consumer: Consumers, topic: str) -> None:
    one = consumer(group_instance_id="same")
    poll_until(shared_out(topic, one), one)
    other = consumer(group_instance_id="same")
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        poll_until(lambda: False, one, other)
    assert one.assignment == set()


@pytest.mark.parametrize("error", [Code.NOT_COORDINATOR, Code.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_coordinator_that_moves_or_loads_is_found_again(
    broker: EmbeddedBroker, consumer: Consumers, writer: Writer, topic: str, error: Code
) -> None:
    fill(writer, topic)
    for api in ("JoinGroup", "SyncGroup", "OffsetFetch", "OffsetCommit"):
        broker.fail(api, error, times=2)
    one = consumer()
    assert offsets_of(read_all(one, topic)) == all_offsets(topic)
    broker.fail("Heartbeat", error, times=2)
    one.commit()
    poll_until(lambda: len(one.assignment) == 4, one)


def test_connections_that_break_in_a_rebalance_cost_nothing(
    broker: EmbeddedBroker, consumer: Consumers, writer: Writer, topic: str
) -> None:
    fill(writer, topic)
    for api in ("JoinGroup", "SyncGroup"):
        broker.drop(api, handled=True)
    one = consumer(session_timeout_ms=2_000)
    assert offsets_of(read_all(one, topic)) == all_offsets(topic)


def test_a_group_that_cannot_be_joined_is_an_error(consumer: Consumers, topic: str) -> None:
    one = consumer(partition_assignment_strategy="range")
    poll_until(shared_out(topic, one), one)
    other = consumer(partition_assignment_strategy="sticky")
    with pytest.raises(KafkaError, match=r"INCONSISTENT_GROUP_PROTOCOL|no assignor in common"):
        poll_until(lambda: False, one, other)


def test_closed_is_closed_and_mistakes_are_named(consumer: Consumers, topic: str) -> None:
    one = consumer()
    poll_until(shared_out(topic, one), one)
    one.close()
    one.close()
    for use in (one.poll, one.commit):
        with pytest.raises(ConsumerClosed, match="make another one"):
            use()
    with pytest.raises(ConfigError, match="no topics"):
        consumer([])
    with pytest.raises(ConfigError, match=r"group\.id is empty"):
        consumer(group_id="")
    with pytest.raises(ConfigError, match="clever is not an assignor; give one of range, roundrobin"):
        consumer(partition_assignment_strategy="clever")
    with pytest.raises(ConfigError, match=r"heartbeat\.interval\.ms=3000: it must be less"):
        consumer(heartbeat_interval_ms=3000, session_timeout_ms=3000)
    assert not [one for one in threading.enumerate() if topic in one.name]
