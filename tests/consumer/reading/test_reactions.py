"""Every error code in every answer, for every reader: it reads on, or shows why not and can be told to.

A fault strikes once. Whatever the table of reactions does not call FAIL must pass by itself; after a FAIL the
reader shows the partition as stopped, and `retry` makes it read on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from ottla import (
    Admin,
    EmbeddedBroker,
    GroupConsumer,
    Health,
    KafkaError,
    OttlaError,
    PartitionConsumer,
    Producer,
    TopicAndPartition,
    replay,
)
from ottla.admin.lag_gauges import lag_exposition
from ottla.broker.serving.faults import FaultRule
from ottla.cli import lag
from ottla.client.reactions import Action, Call, action_for
from ottla.consumer.simple import LeaderConsumer, leader_consumer
from ottla.fetching.fetch_errors import STOPPED_BACKOFF
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, CorruptRecord, ReplayStalled
from tests.consumer.member_faults import MemberFault
from tests.error_codes import CODES
from tests.fetching.traffic import Writer
from tests.waiting import PATIENCE_S, wait_for

QUICK: dict[str, Any] = {
    "fetch_wait_max_ms": 10,
    "refresh_leader_backoff_ms": 1,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
    "reconnect_backoff_ms": 1,
}
GROUP: dict[str, Any] = {
    **QUICK,
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 10,
    "session_timeout_ms": 30_000,
    "enable_auto_commit": False,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"group.min.session.timeout.ms": "100"}) as one:
        yield one


@pytest.fixture(autouse=True)
def _quiet(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.CRITICAL, logger="ottla")
    yield
    broker.clear_faults()


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> TopicAndPartition:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    broker.create_topic(name, 1)
    return TopicAndPartition(name, 0)


@pytest.fixture
def writer(broker: EmbeddedBroker, topic: TopicAndPartition) -> Iterator[Writer]:
    with Writer(broker.bootstrap) as one:
        one.write(topic, 1)
        yield one


Reader = GroupConsumer | PartitionConsumer
Make = Callable[[EmbeddedBroker, TopicAndPartition], tuple[Reader, Callable[[], Any]]]


def partition_consumer(broker: EmbeddedBroker, topic: TopicAndPartition) -> tuple[Reader, Callable[[], Any]]:
    consumer = PartitionConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="smallest", **QUICK)
    consumer.consume_partition(*topic, 0)
    return consumer, lambda: next(consumer.chunks(timeout=0.01), None)


def group_consumer(
    broker: EmbeddedBroker, topic: TopicAndPartition, group: str = "group"
) -> tuple[Reader, Callable[[], Any]]:
    name = f"{group}-of-{topic.topic}"
    consumer = GroupConsumer(topic.topic, GROUP, group_id=name, bootstrap_servers=broker.bootstrap)
    return consumer, lambda: consumer.poll(timeout=0.01)


READERS = pytest.mark.parametrize("make", [partition_consumer, group_consumer])


def read_to(reader: Reader, poll: Callable[[], Any], next_offset: int) -> list[OttlaError]:
    """Read until `next_offset` is reached; a reader that is stopped is told to try again."""
    raised: list[OttlaError] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            chunk = poll()
        except OttlaError as error:
            raised.append(error)
            assert reader.health in {Health.DEGRADED, Health.FAILED} or not reader.stopped
            reader.retry()
            continue
        if chunk is not None and chunk.next_offset >= next_offset:
            return raised
    raise AssertionError(f"nothing is read: {reader.health}, {reader.stopped}, {raised}")


def expects(call: Call, code: Code, raised: list[OttlaError]) -> None:
    is_final = action_for(code, call) is Action.FAIL
    assert bool(raised) == is_final, f"{call.value} {code.name}: {raised}"


def strikes(broker: EmbeddedBroker, call: Call, code: Code) -> None:
    """Answer the next such call with an error, and wait until that is done."""
    rule = broker.fail(call.value, code)
    if call is Call.METADATA:
        broker.fail("Fetch", Code.NOT_LEADER_OR_FOLLOWER)  # so that it is asked for
    wait_for(lambda: rule.struck, f"{code.name} strikes", pause=0.001)


@READERS
def test_fetch(broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer, make: Make) -> None:
    reader, poll = make(broker, topic)
    read_to(reader, poll, 1)
    for number, code in enumerate(CODES, start=2):
        strikes(broker, Call.FETCH, code)
        writer.write(topic, 1)
        expects(Call.FETCH, code, read_to(reader, poll, number))
        assert reader.stopped == {}
    reader.close()


@READERS
def test_list_offsets(broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer, make: Make) -> None:
    reader, poll = make(broker, topic)
    read_to(reader, poll, 1)
    for code in CODES:
        broker.fail("ListOffsets", code)
        reader.seek(topic, "earliest")
        expects(Call.LIST_OFFSETS, code, read_to(reader, poll, 1))
    reader.close()


@READERS
def test_metadata(broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer, make: Make) -> None:
    reader, poll = make(broker, topic)
    read_to(reader, poll, 1)
    for number, code in enumerate(CODES, start=2):
        strikes(broker, Call.METADATA, code)
        writer.write(topic, 1)
        assert not read_to(reader, poll, number), "the known leader is still asked"
    reader.close()


@READERS
def test_metadata_of_a_new_reader(
    broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer, make: Make
) -> None:
    def asks_for_it(request: Any) -> bool:
        return any(each.name == topic.topic for each in request.topics or ())

    for code in CODES:
        rule = broker.fail("Metadata", code, when=asks_for_it)
        reader, poll = make(broker, topic)
        expects(Call.METADATA, code, read_to(reader, poll, 1))
        assert rule.struck, code.name
        reader.close()


def test_look_ups_of_offsets(broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer) -> None:
    with PartitionConsumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
        for code in CODES:
            rule = broker.fail("ListOffsets", code)
            is_final = action_for(code, Call.LIST_OFFSETS) is Action.FAIL
            with pytest.raises(KafkaError, match=code.name) if is_final else nullcontext():
                assert consumer.offsets_for_times({topic: "latest"}) == {topic: 1}, code.name
            assert rule.struck, code.name


def test_the_low_level_reader(
    broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has what is final in the response, as Kafka's SimpleConsumer."""
    monkeypatch.setattr(leader_consumer, "SAME_AGAIN_MS", 0)
    with LeaderConsumer(broker.bootstrap, *topic, retry_backoff_ms=1) as consumer:
        for code in CODES:
            broker.fail("Fetch", code)
            is_final = action_for(code, Call.FETCH) in {Action.FAIL, Action.RESET}
            answered = consumer.fetch(0).error_code(*topic)
            assert answered == (code if is_final else Code.NONE), code.name
            broker.fail("ListOffsets", code)
            is_final = action_for(code, Call.LIST_OFFSETS) is Action.FAIL
            with pytest.raises(KafkaError, match=code.name) if is_final else nullcontext():
                assert consumer.get_offsets_before() == (1,), code.name


GROUP_CALLS = (Call.FIND_COORDINATOR, Call.JOIN_GROUP, Call.SYNC_GROUP, Call.OFFSET_FETCH)


def test_the_calls_of_a_new_member(broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer) -> None:
    for code in CODES:
        faults = [MemberFault(broker, call, code) for call in GROUP_CALLS]
        reader, poll = group_consumer(broker, topic, code.name)

        def forgotten(poll: Callable[[], Any] = poll, faults: list[MemberFault] = faults) -> Any:
            for fault in faults:
                fault.forget()
            return poll()

        raised = read_to(reader, forgotten, 1)
        finals = [call for call in GROUP_CALLS if action_for(code, call) is Action.FAIL]
        assert all(fault.has_struck for fault in faults), code.name
        assert len(raised) >= len(finals), f"{code.name}: {raised}"
        assert bool(raised) == bool(finals), f"{code.name}: {raised}"
        broker.fail("LeaveGroup", code)
        reader.close()


def test_heartbeats(broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer) -> None:
    reader, poll = group_consumer(broker, topic)
    read_to(reader, poll, 1)
    for number, code in enumerate(CODES, start=2):
        fault = MemberFault(broker, Call.HEARTBEAT, code)
        raised: list[OttlaError] = []
        while not fault.has_struck:
            with suppress(OttlaError):
                poll()
        fault.forget()
        writer.write(topic, 1)
        raised += read_to(reader, poll, number)
        assert bool(raised) <= (action_for(code, Call.HEARTBEAT) is Action.FAIL), f"{code.name}: {raised}"
    reader.close()


def test_commits(broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer) -> None:
    retried = {Action.RETRY, Action.REFRESH, Action.FIND_COORDINATOR, Action.REJOIN}
    consumer = GroupConsumer(topic.topic, GROUP, group_id=topic.topic, bootstrap_servers=broker.bootstrap)
    read_to(consumer, lambda: consumer.poll(timeout=0.01), 1)
    for code in CODES:
        fault = MemberFault(broker, Call.OFFSET_COMMIT, code)
        is_retried = action_for(code, Call.OFFSET_COMMIT) in retried
        with nullcontext() if is_retried else pytest.raises(OttlaError):
            consumer.commit({topic: 1})
        fault.forget()
        if consumer.health is not Health.STABLE:
            consumer.retry()
            wait_for(lambda: [consumer.poll(timeout=0.01), consumer.assignment][1], "it joins again")
    consumer.commit({topic: 1})
    consumer.close()


def test_replay(broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer) -> None:
    for code in CODES:
        calls = (Call.METADATA, Call.LIST_OFFSETS, Call.FETCH)
        ends = {Action.FAIL, Action.RESET}  # auto.offset.reset is none
        is_final = any(action_for(code, call) in ends for call in calls)
        rules = [broker.fail(call.value, code) for call in calls]
        with pytest.raises((KafkaError, CorruptRecord)) if is_final else nullcontext():
            table = replay(topic.topic, bootstrap_servers=broker.bootstrap, **QUICK).to_table()
            assert (table.num_rows, all(rule.struck for rule in rules)) == (1, True), code.name
        broker.clear_faults()


def test_produce(broker: EmbeddedBroker, topic: TopicAndPartition) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, linger_ms=0, retry_backoff_ms=1) as producer:
        for code in CODES:
            broker.fail("Produce", code)
            delivery = producer.send(topic.topic, value=code.name.encode())
            is_final = action_for(code, Call.PRODUCE) in {Action.FAIL, Action.SPLIT}
            with pytest.raises(OttlaError) if is_final else nullcontext():
                delivery.result(PATIENCE_S)
        producer.send(topic.topic, value=b"at last").result(PATIENCE_S)


def test_the_id_of_a_producer(broker: EmbeddedBroker, topic: TopicAndPartition) -> None:
    for code in CODES:
        rule = broker.fail("InitProducerId", code)
        is_final = action_for(code, Call.INIT_PRODUCER_ID) is Action.FAIL
        quick: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 1, "enable_idempotence": True}
        with Producer(bootstrap_servers=broker.bootstrap, **quick) as producer:
            delivery = producer.send(topic.topic, value=b"x")
            with pytest.raises(OttlaError, match=code.name) if is_final else nullcontext():
                delivery.result(PATIENCE_S)
        assert rule.struck, code.name


# --- the state


def refused(broker: EmbeddedBroker) -> FaultRule:
    return broker.fail("Fetch", Code.TOPIC_AUTHORIZATION_FAILED, times=-1)


@READERS
def test_a_stopped_partition_is_shown_until_somebody_acts(
    broker: EmbeddedBroker,
    topic: TopicAndPartition,
    writer: Writer,
    make: Make,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="ottla.fetching")
    reader, poll = make(broker, topic)
    read_to(reader, poll, 1)
    rule = refused(broker)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        wait_for(poll)
    assert (list(reader.stopped), reader.health) == ([topic], Health.DEGRADED)
    assert reader.metrics().health is Health.DEGRADED
    tries = rule.struck
    wait_for(lambda: rule.struck > tries, "it is tried again by itself")
    wait_for(lambda: caplog.text.count("ERROR") >= 2, "and told again")
    assert poll() is None, "but not raised again"
    assert (list(reader.stopped), reader.health) == ([topic], Health.DEGRADED)
    with pytest.raises(ConfigError, match="no records to skip"):
        reader.skip(topic)
    broker.clear_faults()
    writer.write(topic, 1)
    reader.retry()
    read_to(reader, poll, 2)
    assert (reader.stopped, reader.health) == ({}, Health.STABLE)
    reader.close()


@READERS
def test_a_stopped_partition_is_read_again_when_a_later_try_succeeds(
    broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer, make: Make
) -> None:
    reader, poll = make(broker, topic)
    read_to(reader, poll, 1)
    broker.fail("Fetch", Code.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError):
        wait_for(poll)
    writer.write(topic, 1)
    wait_for(lambda: reader.stopped == {}, "it is read again")
    wait_for(poll, "and its records are handed out")
    reader.close()


def test_heartbeats_that_are_refused_for_a_whole_session_end_the_membership(
    broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer
) -> None:
    settings = {**GROUP, "session_timeout_ms": 300, "group_id": topic.topic}
    with GroupConsumer(topic.topic, settings, bootstrap_servers=broker.bootstrap) as consumer:

        def poll() -> Any:
            return consumer.poll(timeout=0.01)

        read_to(consumer, poll, 1)
        rule = broker.fail("Heartbeat", Code.GROUP_AUTHORIZATION_FAILED, times=-1)
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
            wait_for(lambda: poll() is ..., "it ends", pause=0.0)
        assert (rule.struck > 0, consumer.health) == (True, Health.FAILED)
        broker.clear_faults()
        writer.write(topic, 1)
        consumer.retry()
        read_to(consumer, poll, 2)


def test_a_topic_that_may_not_be_looked_at_is_told_until_it_may(
    broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer
) -> None:
    """Metadata has an error that stays instead of the partitions, so no member can get them."""
    broker.fail("Metadata", Code.TOPIC_AUTHORIZATION_FAILED, times=-1)
    reader, poll = group_consumer(broker, topic)
    with pytest.raises(KafkaError, match=r"gets no readers: TOPIC_AUTHORIZATION_FAILED"):
        wait_for(lambda: poll() is ..., "it is told", pause=0.0)
    assert (poll(), reader.health) == (None, Health.DEGRADED)
    broker.clear_faults()
    assert not read_to(reader, poll, 1), "it is not told again"
    wait_for(lambda: reader.health is Health.STABLE, "all is well")
    reader.close()


def test_a_topic_that_does_not_exist_is_told_to_the_log(
    broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="ottla")
    broker.fail("Metadata", Code.UNKNOWN_TOPIC_OR_PARTITION, times=-1)
    reader, poll = group_consumer(broker, topic)
    wait_for(lambda: [poll(), f"topic {topic.topic!r} gets no readers: UNKNOWN_TOPIC" in caplog.text][1])
    broker.clear_faults()
    assert not read_to(reader, poll, 1)
    reader.close()


def test_ottla_lag_shows_it(
    broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    group = f"lag-of-{topic.topic}"
    settings = {**GROUP, "enable_auto_commit": True, "auto_commit_interval_ms": 10}
    with (
        GroupConsumer(topic.topic, settings, group_id=group, bootstrap_servers=broker.bootstrap) as consumer,
        Admin(bootstrap_servers=broker.bootstrap) as admin,
    ):

        def told() -> str:
            with suppress(KafkaError):
                consumer.poll(timeout=0.01)
            return admin.group_lag(group).partitions[0].stopped

        read_to(consumer, lambda: consumer.poll(timeout=0.01), 1)
        refused(broker)
        wait_for(lambda: told() == "stopped by TOPIC_AUTHORIZATION_FAILED", "it is told")
        assert consumer.committed()[topic].offset == 1
        assert lag.run(["-b", broker.bootstrap, group]) == 1, "as a check"
        assert "stopped by TOPIC_AUTHORIZATION_FAILED" in capsys.readouterr().out
        assert "kafka_consumergroup_stopped{" in lag_exposition([admin.group_lag(group)])
        broker.clear_faults()
        consumer.retry()
        wait_for(lambda: not told(), "all is well, and told")
        assert "kafka_consumergroup_stopped{" not in lag_exposition([admin.group_lag(group)])


def test_the_pauses_between_tries_grow() -> None:
    class Middle:
        def uniform(self, low: float, high: float) -> float:
            return (low + high) / 2

    pauses = [STOPPED_BACKOFF.pause_ms(count, Middle()) / 1000 for count in range(1, 12)]  # type: ignore[arg-type]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_a_replay_that_cannot_go_on_says_why(
    broker: EmbeddedBroker, topic: TopicAndPartition, writer: Writer
) -> None:
    broker.fail("Fetch", Code.UNKNOWN_SERVER_ERROR, times=-1)
    with pytest.raises(ReplayStalled, match="UNKNOWN_SERVER_ERROR"):
        replay(topic.topic, bootstrap_servers=broker.bootstrap, stall_timeout=0.3, **QUICK).to_table()
