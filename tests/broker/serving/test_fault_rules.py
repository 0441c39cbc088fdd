"""Faults on demand: what a rule does on the wire, and what real clients make of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ottla import ConfigError, EmbeddedBroker
from ottla.broker.handlers.registry import served_versions
from ottla.model.error_codes import Code
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from ottla.wire.registry import api
from ottla.wire.schema import Api
from tests.blocking_client import BlockingClient
from tests.broker.faults.batches import batch
from tests.broker.real_clients import (
    Sender,
    group_member,
    python_member,
    read,
    read_with,
    read_with_python,
    send,
)
from tests.broker.wire_client import Client
from tests.kafka_python import KafkaProducer
from tests.waiting import wait_for

VALUES = [b"%d" % number for number in range(10)]
BY_NAME = 12
LATEST = -1
FAILURE = Code.UNKNOWN_SERVER_ERROR


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic("events")
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[BlockingClient]:
    with connect(broker) as client:
        yield client


def connect(broker: EmbeddedBroker) -> BlockingClient:
    return BlockingClient("127.0.0.1", broker.port)


def groups_error(client: BlockingClient) -> int:
    return client.call(ListGroupsRequest()).error_code


def produce(client: BlockingClient, value: bytes = b"v", acks: int = 1, topic: str = "events") -> int:
    """The error of a produce request."""
    item = ProducePartition(index=0, records=batch((None, value)))
    data = [ProduceTopic(name=topic, partition_data=[item])]
    answer = client.call(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data), version=BY_NAME)
    return answer.responses[0].partition_responses[0].error_code


def end_offset(broker: EmbeddedBroker, topic: str = "events") -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    with connect(broker) as client:
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
        return client.call(request).topics[0].partitions[0].offset


# --- which calls


def test_a_rule_strikes_as_often_as_it_says(broker: EmbeddedBroker, client: BlockingClient) -> None:
    rule = broker.fail("ListGroups", Code.COORDINATOR_NOT_AVAILABLE, times=2)
    assert [groups_error(client) for _ in range(3)] == [15, 15, 0]
    assert (rule.struck, rule.left) == (2, 0)


@pytest.mark.parametrize("api", ["ListGroups", "listgroups", 16, ListGroupsRequest])
def test_an_api_has_a_name_a_key_and_a_class(
    broker: EmbeddedBroker, client: BlockingClient, api: Any
) -> None:
    broker.fail(api, 15)
    assert groups_error(client) == Code.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("api", "hint"),
    [
        ("ListGroup", r"; did you mean ListGroups\?$"),
        (999, "; there are: Produce, Fetch"),
        ("Quaffle", "; there are: Produce, Fetch"),
    ],
)
def test_an_api_that_is_not_served_is_refused(broker: EmbeddedBroker, api: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=rf"no API {api!r} is served here{hint}"):
        broker.fail(api, FAILURE)


def test_an_error_that_kafka_does_not_have_is_refused(broker: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match="9999 is no error code"):
        broker.fail("Fetch", 9999)
    with pytest.raises(ConfigError, match="did you mean NOT_LEADER_OR_FOLLOWER"):
        broker.fail("Fetch", "NOT_LEADER")


def test_an_error_has_a_name_too(broker: EmbeddedBroker, client: BlockingClient) -> None:
    broker.fail("ListGroups", "COORDINATOR_NOT_AVAILABLE")
    assert groups_error(client) == Code.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("times", [0, -2])
def test_a_rule_must_be_able_to_strike(broker: EmbeddedBroker, times: int) -> None:
    with pytest.raises(ConfigError, match=f"a fault cannot come {times} times"):
        broker.fail("Fetch", FAILURE, times=times)


def test_for_ever_is_until_they_are_cleared(broker: EmbeddedBroker, client: BlockingClient) -> None:
    rule = broker.fail("ListGroups", FAILURE, times=-1)
    assert {groups_error(client) for _ in range(20)} == {FAILURE}
    broker.clear_faults()
    assert groups_error(client) == 0
    assert rule.struck == 20


def test_other_apis_are_not_concerned(broker: EmbeddedBroker, client: BlockingClient) -> None:
    broker.fail("ListGroups", FAILURE, times=-1)
    assert client.call(MetadataRequest(topics=None)).brokers
    assert produce(client) == 0


def test_the_first_rule_that_fits_strikes(broker: EmbeddedBroker, client: BlockingClient) -> None:
    broker.fail("ListGroups", 14)
    broker.fail("ListGroups", 15)
    assert [groups_error(client) for _ in range(3)] == [14, 15, 0]


def test_a_rule_may_look_at_the_request(broker: EmbeddedBroker, client: BlockingClient) -> None:
    broker.create_topic("other")
    broker.fail(
        "Produce",
        Code.NOT_LEADER_OR_FOLLOWER,
        times=-1,
        when=lambda request: request.topic_data[0].name == "events",
    )
    assert produce(client, topic="events") == Code.NOT_LEADER_OR_FOLLOWER
    assert produce(client, topic="other") == 0


def test_a_rule_that_breaks_is_in_the_log(
    broker: EmbeddedBroker, client: BlockingClient, caplog: pytest.LogCaptureFixture
) -> None:
    broker.fail("ListGroups", FAILURE, when=lambda request: request.no_such_field)
    with pytest.raises(ConnectionError):
        groups_error(client)
    assert "no_such_field" in caplog.text
    broker.clear_faults()
    with connect(broker) as another:
        assert groups_error(another) == 0


def test_rules_hold_for_all_brokers_of_a_cluster() -> None:
    with EmbeddedBroker(brokers=2) as cluster:
        cluster.fail("ListGroups", FAILURE, times=2)
        for address in cluster.bootstrap.split(","):
            host, _, port = address.rpartition(":")
            with BlockingClient(host, int(port)) as client:
                assert groups_error(client) == FAILURE


def test_rules_end_with_a_restart(broker: EmbeddedBroker) -> None:
    broker.fail("ListGroups", FAILURE, times=-1)
    broker.stop()
    broker.start()
    with connect(broker) as client:
        assert groups_error(client) == 0


# --- what a rule does


SERVED = served_versions(zookeeper=False)
OTHERS = [api(key) for key in SERVED if key != ApiVersionsRequest.API.key]


@pytest.mark.parametrize("failed", OTHERS, ids=lambda failed: failed.name)
def test_every_api_can_be_failed_in_every_version(broker: EmbeddedBroker, failed: Api) -> None:
    """An answer comes that the version's codec reads, and the connection goes on."""
    served = SERVED[failed.key]
    request = failed.request()
    if isinstance(request, ProduceRequest):
        request.acks = 1
    with Client("127.0.0.1", broker.port) as client:
        for version in range(served.oldest, served.newest + 1):
            rule = broker.fail(failed.request, FAILURE)
            assert isinstance(client.call(request, version), failed.response)
            assert rule.struck == 1
        assert client.call(ListGroupsRequest(), 0).error_code == 0


def test_a_failed_call_does_nothing(broker: EmbeddedBroker, client: BlockingClient) -> None:
    broker.fail("Produce", Code.NOT_ENOUGH_REPLICAS)
    assert produce(client) == Code.NOT_ENOUGH_REPLICAS
    assert end_offset(broker) == 0
    broker.fail("Metadata", FAILURE)
    assert client.call(MetadataRequest(topics=[MetadataTopic(name="new")])).topics[0].error_code == FAILURE
    assert not (broker.data_dir / "new-0").exists()


def test_a_delayed_call_holds_back_those_behind_it_and_nobody_else(broker: EmbeddedBroker) -> None:
    broker.delay("ListGroups", 0.3)
    with Client("127.0.0.1", broker.port) as slow, connect(broker) as other:
        slow.send(ListGroupsRequest(), 0)
        slow.send(FindCoordinatorRequest(key="g"), 0)
        assert groups_error(other) == 0
        assert isinstance(slow.receive(), ListGroupsRequest.API.response)
        assert isinstance(slow.receive(), FindCoordinatorRequest.API.response)


def test_a_delayed_call_is_handled_even_if_nobody_waits(broker: EmbeddedBroker) -> None:
    rule = broker.delay("Produce", 1)
    with Client("127.0.0.1", broker.port) as client:
        item = ProducePartition(index=0, records=batch((None, b"v")))
        data = [ProduceTopic(name="events", partition_data=[item])]
        client.send(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data), BY_NAME)
        wait_for(lambda: rule.struck == 1, "the request")
        assert end_offset(broker) == 0
    wait_for(lambda: end_offset(broker) == 1, "the record")


def test_a_delay_does_not_delay_the_stop(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    rule = broker.delay("ListGroups", 3600)
    with Client("127.0.0.1", broker.port) as client:
        client.send(ListGroupsRequest(), 0)
        wait_for(lambda: rule.struck == 1, "the request")
        broker.stop()
        with pytest.raises(ConnectionError):
            client.receive()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_dropped_call_is_not_handled(broker: EmbeddedBroker, client: BlockingClient) -> None:
    broker.drop("Produce")
    with pytest.raises(ConnectionError):
        produce(client)
    assert end_offset(broker) == 0


def test_a_call_may_be_handled_and_its_answer_lost(broker: EmbeddedBroker, client: BlockingClient) -> None:
    broker.drop("Produce", handled=True)
    with pytest.raises(ConnectionError):
        produce(client)
    assert end_offset(broker) == 1


def test_a_call_that_fails_may_be_dropped_too(
    broker: EmbeddedBroker, client: BlockingClient, caplog: pytest.LogCaptureFixture
) -> None:
    broker.drop("Produce", handled=True)
    with pytest.raises(ConnectionError):
        produce(client, acks=7)
    assert caplog.records == []


def test_rules_reach_producers_in_the_express_lane(broker: EmbeddedBroker, client: BlockingClient) -> None:
    """Requests that look like the last one take a short cut, but not around a rule."""
    assert [produce(client) for _ in range(5)] == [0] * 5
    broker.fail("Produce", Code.NOT_LEADER_OR_FOLLOWER, times=2)
    assert [produce(client) for _ in range(4)] == [6, 6, 0, 0]
    assert end_offset(broker) == 7


# --- what clients make of it


def test_librdkafka_sends_again_after_retriable_errors(broker: EmbeddedBroker) -> None:
    rule = broker.fail("Produce", Code.NOT_LEADER_OR_FOLLOWER, times=3)
    assert send(broker.bootstrap, "events", VALUES, retry_backoff_ms=10) == list(range(10))
    assert rule.struck == 3


def test_librdkafka_gives_up_after_others(broker: EmbeddedBroker) -> None:
    broker.fail("Produce", Code.TOPIC_AUTHORIZATION_FAILED)
    sender = Sender(broker.bootstrap)
    sender.send("events", [b"v"])
    sender.flush()
    assert [error.code() for error in sender.failed] == [Code.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("loss", [{"handled": False}, {"handled": True}])
def test_an_idempotent_producer_of_librdkafka_has_every_record_once(
    broker: EmbeddedBroker, loss: dict[str, Any]
) -> None:
    rule = broker.drop("Produce", times=2, **loss)
    backoff = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50, "retry_backoff_ms": 10}
    send(broker.bootstrap, "events", VALUES, enable_idempotence=True, **backoff)
    assert rule.struck == 2
    assert end_offset(broker) == 10
    assert read(broker.bootstrap, "events", 10) == VALUES


def test_a_producer_without_idempotence_repeats_what_was_not_acknowledged(broker: EmbeddedBroker) -> None:
    """That is what the fault is for: to see whether a program bears it."""
    broker.drop("Produce", handled=True)
    backoff = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50, "retry_backoff_ms": 10}
    send(broker.bootstrap, "events", [b"v"], enable_idempotence=False, **backoff)
    assert read(broker.bootstrap, "events", 2) == [b"v", b"v"]


def test_an_idempotent_producer_of_kafka_python_has_every_record_once(broker: EmbeddedBroker) -> None:
    rule = broker.drop("Produce", times=2, handled=True)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True, retry_backoff_ms=10)
    futures = [producer.send("events", value, partition=0) for value in VALUES]
    assert [future.get(timeout=60).offset for future in futures] == list(range(10))
    producer.close()
    assert rule.struck == 2
    assert end_offset(broker) == 10


def test_librdkafka_commits_when_the_coordinator_has_loaded(broker: EmbeddedBroker) -> None:
    send(broker.bootstrap, "events", VALUES)
    member = group_member(broker.bootstrap, "g", ["events"])
    read_with(member, 10)
    rule = broker.fail("OffsetCommit", Code.COORDINATOR_LOAD_IN_PROGRESS, times=2)
    assert member.commit(asynchronous=False)[0].offset == 10
    assert rule.struck == 2
    member.close()


def test_kafka_python_commits_when_the_coordinator_has_loaded(broker: EmbeddedBroker) -> None:
    send(broker.bootstrap, "events", VALUES)
    with python_member(broker.bootstrap, "g", ["events"]) as member:
        read_with_python(member, 10)
        rule = broker.fail("OffsetCommit", Code.COORDINATOR_LOAD_IN_PROGRESS, times=2)
        member.commit()
        assert rule.struck == 2
        assert [member.committed(one) for one in member.assignment()] == [10]


@pytest.mark.parametrize("error", [Code.REBALANCE_IN_PROGRESS, Code.NOT_COORDINATOR])
def test_a_member_that_is_told_to_join_again_does(broker: EmbeddedBroker, error: Code) -> None:
    send(broker.bootstrap, "events", VALUES)
    member = group_member(broker.bootstrap, "g", ["events"])
    read_with(member, 10)
    member.commit(asynchronous=False)
    rule = broker.fail("Heartbeat", error)
    wait_for(lambda: member.poll(0.05) is None and rule.struck == 1, "a heartbeat")
    send(broker.bootstrap, "events", [b"after"])
    assert read_with(member, 1) == [b"after"]
    member.close()


def test_a_reader_whose_offset_is_gone_begins_anew(broker: EmbeddedBroker) -> None:
    send(broker.bootstrap, "events", VALUES)
    member = group_member(broker.bootstrap, "g", ["events"])
    assert read_with(member, 10) == VALUES
    broker.fail("Fetch", Code.OFFSET_OUT_OF_RANGE)
    assert read_with(member, 10) == VALUES
    member.close()


def test_a_slow_broker_is_waited_for(broker: EmbeddedBroker) -> None:
    send(broker.bootstrap, "events", VALUES)
    broker.delay("Metadata", 0.2, times=2)
    broker.delay("FindCoordinator", 0.2)
    broker.delay("JoinGroup", 0.2)
    broker.delay("Fetch", 0.2, times=3)
    member = group_member(broker.bootstrap, "g", ["events"])
    assert read_with(member, 10) == VALUES
    member.close()
