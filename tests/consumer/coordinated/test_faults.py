"""Members through what happens to brokers, to connections, and to themselves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ottla import EmbeddedBroker
from ottla.client.client_config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.consumer.coordinated import GroupConsumer
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import OffsetAndMetadata
from tests.consumer.coordinated.conftest import Consumers
from tests.consumer.coordinated.polling import (
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

QUICK: dict[str, Any] = {
    "auto_offset_reset": "smallest",
    "heartbeat_interval_ms": 50,
    "fetch_wait_max_ms": 50,
    "retry_backoff_ms": 10,
    "refresh_leader_backoff_ms": 20,
    "enable_auto_commit": False,
}


@pytest.fixture
def brokers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3, properties={"offsets.topic.num.partitions": "3"}) as three:
        three.create_topic("t", 4, replication_factor=3)
        yield three


def test_a_group_follows_its_coordinator(brokers: EmbeddedBroker) -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": brokers.bootstrap})
    with (
        Writer(brokers.bootstrap) as writer,
        GroupConsumer("t", group_id="g", bootstrap_servers=brokers.bootstrap, **QUICK) as one,
        GroupConsumer("t", group_id="g", bootstrap_servers=brokers.bootstrap, **QUICK) as other,
    ):
        poll_until(shared_out("t", one, other), one, other)
        generation = one._membership.membership.generation
        with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata) as pool:
            coordinator = pool.coordinator("g").broker_id
        brokers.stop_broker(coordinator)
        fill(writer, "t", 200)
        chunks: list[Any] = []
        poll_until(lambda: len(offsets_of(chunks)) == 800, one, other, into=chunks)
        one.commit()
        other.commit()
        assert one.committed(partitions_of("t")) == dict.fromkeys(partitions_of("t"), OffsetAndMetadata(200))
        assert shared_out("t", one, other)()
        assert one._membership.membership.generation == generation  # nobody had to join again
        assert offsets_of(chunks) == all_offsets("t", 200)


def test_a_broker_that_is_restarted_has_its_group_back() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("t", 4)
        bootstrap = broker.bootstrap
        with (
            Writer(bootstrap) as writer,
            GroupConsumer("t", group_id="g", bootstrap_servers=bootstrap, **QUICK) as one,
        ):
            fill(writer, "t")
            chunks = read_all(one, "t")
            one.commit()
            broker.stop()
            broker.start()
            fill(writer, "t")
            chunks += read_all(one, "t")
            one.commit()
            assert offsets_of(chunks) == all_offsets("t", 200)
            assert one.committed() == dict.fromkeys(partitions_of("t"), OffsetAndMetadata(200))


def test_brokers_that_tell_nothing_of_topics_cost_no_session(
    broker: EmbeddedBroker, consumer: Consumers, topic: str
) -> None:
    one = consumer(session_timeout_ms=1_000, metadata_max_age_ms=100)
    poll_until(shared_out(topic, one), one)
    generation = one._membership.membership.generation
    stalled = broker.delay("Metadata", 60, times=-1)
    poll_until(lambda: stalled.struck > 0, one)
    beats = broker.delay("Heartbeat", 0, times=-1)
    poll_until(lambda: beats.struck > 40, one)  # twice as long as the session lasts without them
    assert one._membership.membership.generation == generation
    assert one.assignment == set(partitions_of(topic))
    broker.clear_faults()  # so that it can leave


def test_a_broker_that_does_not_tell_the_coordinator_costs_no_session(
    broker: EmbeddedBroker, consumer: Consumers, topic: str
) -> None:
    one = consumer(session_timeout_ms=3_000)
    poll_until(shared_out(topic, one), one)
    generation = one._membership.membership.generation
    stuck = broker.delay("FindCoordinator", 60)
    broker.drop("Heartbeat")
    poll_until(lambda: stuck.struck > 0, one)
    beats = broker.delay("Heartbeat", 0, times=-1)
    poll_until(lambda: beats.struck > 3, one)
    assert one._membership.membership.generation == generation


def test_a_leader_assigns_what_it_knew_if_nobody_tells_of_topics(
    broker: EmbeddedBroker, consumer: Consumers, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = consumer(session_timeout_ms=3_000)
    poll_until(shared_out(topic, one), one)
    broker.delay("Metadata", 60, times=-1, when=lambda request: bool(request.topics))
    other = consumer(session_timeout_ms=3_000)
    poll_until(shared_out(topic, one, other), one, other)
    assert "so the leader assigns what it knows" in caplog.text
    assert "is out of the group" not in caplog.text
    broker.clear_faults()


def test_a_cluster_that_is_not_there_is_waited_for_and_said(caplog: pytest.LogCaptureFixture) -> None:
    broker = EmbeddedBroker().start()
    broker.create_topic("t", 4)
    bootstrap = broker.bootstrap
    broker.stop()
    settings = QUICK | {"session_timeout_ms": 6_000}
    with GroupConsumer("t", group_id="g", bootstrap_servers=bootstrap, **settings) as one:
        poll_until(lambda: "group 'g': no answer from the coordinator: " in caplog.text, one)
        broker.start()
        poll_until(shared_out("t", one), one)
    broker.close()


def test_close_does_not_wait_for_a_broker_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    broker = EmbeddedBroker().start()
    broker.create_topic("t", 4)
    settings = QUICK | {"enable_auto_commit": True, "request_timeout_ms": 1000}
    one = GroupConsumer("t", group_id="g", bootstrap_servers=broker.bootstrap, **settings)
    with Writer(broker.bootstrap) as writer:
        fill(writer, "t")
        read_all(one, "t")
    broker.close()
    one.close()
    assert "could not tell the coordinator that this member leaves" in caplog.text
    assert "the last commit: offsets of group 'g'" in caplog.text
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ottla-group")]


def test_ctrl_c_ends_a_poll_and_a_commit() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("t", 4)
        with GroupConsumer("t", group_id="g", bootstrap_servers=broker.bootstrap, **QUICK) as one:
            poll_until(shared_out("t", one), one)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                one.poll()
            rule = broker.delay("OffsetCommit", 60)

            def interrupt() -> None:
                wait_for(lambda: rule.struck == 1)
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                one.commit({TopicAndPartition("t", 0): 1})


def test_poll_returns_in_time_while_the_committed_offsets_are_looked_up(
    broker: EmbeddedBroker, topic: str, consumer: Consumers
) -> None:
    asked = broker.delay("OffsetFetch", 3_600, times=-1)
    member = consumer(topic)
    while not asked.struck:
        assert member.poll(0.01) is None
    assert member.poll(0.01) is None, "the answer is not there yet"
    assert not member.assignment


def test_a_look_up_of_committed_offsets_goes_on_between_polls(
    broker: EmbeddedBroker, writer: Writer, topic: str, consumer: Consumers
) -> None:
    """Polls that are shorter than the answer of the coordinator takes do not begin it again and again."""
    fill(writer, topic, 1)
    asked = broker.delay("OffsetFetch", 0.3, times=-1)
    member = consumer(topic)
    assert wait_for(lambda: member.poll(0.01)) is not None
    assert asked.struck == 1


def test_a_failed_look_up_of_committed_offsets_is_raised_and_tried_again(
    broker: EmbeddedBroker, writer: Writer, topic: str, consumer: Consumers
) -> None:
    fill(writer, topic, 1)
    broker.fail("OffsetFetch", "GROUP_AUTHORIZATION_FAILED", times=1)
    member = consumer(topic)
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        wait_for(lambda: member.poll(0.01))
    assert wait_for(lambda: member.poll(0.01)) is not None
