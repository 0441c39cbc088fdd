"""Offsets of version 0: what is stored and answered, with ZooKeeper in memory and over the wire."""

from __future__ import annotations

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.registration import offsets
from ottla.model.error_codes import Code
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper
from ottla.zookeeper.server import ZooKeeperServer
from tests.broker.registration.offset_requests import commit_request, fetch_request
from tests.broker.wire_client import Client

OFFSET_COMMIT, OFFSET_FETCH = 8, 9


@pytest.fixture
def session() -> MemorySession:
    session = MemoryZooKeeper().session()
    session.connect()
    return session


def commit_codes(session: MemorySession, request: OffsetCommitRequest, length_max: int = 10) -> list[int]:
    answer = offsets.commit(session, request, {"orders"}, length_max)
    return [one.error_code for topic in answer.topics for one in topic.partitions]


def fetched(session: MemorySession, request: OffsetFetchRequest) -> list[tuple[int, str | None, int]]:
    answer = offsets.fetch(session, request, {"orders"})
    return [
        (one.committed_offset, one.metadata, one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    ]


def test_what_is_stored_is_the_offset_as_text(session: MemorySession) -> None:
    assert commit_codes(session, commit_request("g", "orders", (0, 41, "lost"), (9, 2**62, None))) == [0, 0]
    assert session.get("/consumers/g/offsets/orders/0").data == b"41"
    assert fetched(session, fetch_request("g", "orders", 0, 9)) == [(41, "", 0), (2**62, "", 0)]


def test_what_was_never_stored_is_unknown(session: MemorySession) -> None:
    unknown = (-1, "", Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert fetched(session, fetch_request("g", "orders", 0)) == [unknown]
    assert fetched(session, fetch_request("g", "other", 0)) == [unknown]


def test_a_topic_that_does_not_exist_is_refused(session: MemorySession) -> None:
    assert commit_codes(session, commit_request("g", "other", (0, 1, ""))) == [
        Code.UNKNOWN_TOPIC_OR_PARTITION
    ]
    assert session.exists("/consumers") is None


def test_metadata_is_measured_as_java_does_and_then_dropped(session: MemorySession) -> None:
    request = commit_request("g", "orders", (0, 1, "😀" * 5), (1, 1, "😀" * 5 + "x"))
    assert commit_codes(session, request) == [0, Code.OFFSET_METADATA_TOO_LARGE]


@pytest.mark.parametrize(
    ("group", "partition", "code"),
    [
        ("", 0, Code.INVALID_GROUP_ID),
        ("a/b", 0, Code.INVALID_GROUP_ID),
        ("g", -1, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_names_that_are_no_nodes_are_refused(
    session: MemorySession, group: str, partition: int, code: Code
) -> None:
    assert commit_codes(session, commit_request(group, "orders", (partition, 1, ""))) == [code]
    assert fetched(session, fetch_request(group, "orders", partition)) == [(-1, "", code)]


def test_text_that_is_no_offset_is_an_error(session: MemorySession) -> None:
    session.create_with_parents("/consumers/g/offsets/orders/0", b"many")
    assert fetched(session, fetch_request("g", "orders", 0)) == [(-1, "", Code.UNKNOWN_SERVER_ERROR)]


def test_without_a_connection_the_client_shall_try_again(session: MemorySession) -> None:
    session.suspend()
    request = commit_request("g", "orders", (0, 1, ""))
    assert commit_codes(session, request) == [Code.COORDINATOR_NOT_AVAILABLE]
    assert fetched(session, fetch_request("g", "orders", 0)) == [(-1, "", Code.COORDINATOR_NOT_AVAILABLE)]


def test_clients_store_and_read_offsets_over_the_wire(
    connect: str, zookeeper: KazooZooKeeperSession, zookeeper_server: ZooKeeperServer
) -> None:
    properties = {"zookeeper.connect": connect}
    with EmbeddedBroker(properties=properties) as broker, Client.of(broker.bootstrap) as client:
        broker.create_topic("orders")
        versions = {api.api_key: api.min_version for api in client.call(ApiVersionsRequest(), 0).api_keys}
        assert (versions[OFFSET_COMMIT], versions[OFFSET_FETCH]) == (0, 0)
        committed = client.call(commit_request("g", "orders", (0, 41, "")), 0)
        assert committed.topics[0].partitions[0].error_code == 0
        assert zookeeper.get("/consumers/g/offsets/orders/0").data == b"41"
        read = client.call(fetch_request("g", "orders", 0, 1), 0)
        assert [one.committed_offset for one in read.topics[0].partitions] == [41, -1]
        # What is in Kafka's own topic is another matter.
        later = client.call(fetch_request("g", "orders", 0), 1)
        assert later.topics[0].partitions[0].committed_offset == -1
        zookeeper_server.stop()
        try:
            answer = client.call(fetch_request("g", "orders", 0), 0)
        finally:
            zookeeper_server.start()
        assert answer.topics[0].partitions[0].error_code == Code.COORDINATOR_NOT_AVAILABLE


def test_without_zookeeper_version_0_is_not_offered() -> None:
    with EmbeddedBroker() as broker, Client.of(broker.bootstrap) as client:
        versions = {api.api_key: api.min_version for api in client.call(ApiVersionsRequest(), 0).api_keys}
        assert (versions[OFFSET_COMMIT], versions[OFFSET_FETCH]) == (1, 1)
        with pytest.raises(ConnectionResetError):
            client.call(fetch_request("g", "orders", 0), 0)
