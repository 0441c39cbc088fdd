"""Positions through the coordinator: stored, found again, followed when it moves, refused with names."""

from __future__ import annotations

import gc
import threading

import pytest

from ottla import EmbeddedBroker
from ottla.client.client_config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.model.cluster_view import BrokerNode
from ottla.model.error_codes import Code
from ottla.model.errors import (
    ConnectionLost,
    KafkaError,
    OffsetCommitFailed,
    OffsetFetchFailed,
    OttlaError,
    RemoteProtocolError,
    RequestTimedOut,
)
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets, OffsetAndMetadata
from ottla.offsets.coordinator_messages import commit_codes, fetched_offsets
from ottla.wire.api.offset_commit import OffsetCommitResponse
from ottla.wire.api.offset_fetch import OffsetFetchResponse
from tests.blocking_client import BlockingClient
from tests.broker.groups.coordinator.driver import join_request, sync_request
from tests.offsets.conftest import Stores
from tests.waiting import wait_for

T0, T1, T2 = (TopicAndPartition("t", number) for number in range(3))


def test_what_is_committed_is_fetched_and_the_rest_is_missing(store: Stores) -> None:
    positions = {T0: OffsetAndMetadata(17, "a note", 3), T2: OffsetAndMetadata(0)}
    store().commit("kept", positions)
    assert store().fetch("kept", [T0, T1, T2]) == positions
    assert store().fetch("another", [T0, T1, T2]) == {}


def test_nothing_is_asked_for_no_partitions() -> None:
    nowhere = ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:1"})
    with KafkaOffsets(nowhere) as offsets:
        assert offsets.fetch("g", []) == {}
        offsets.commit("g", {})


def test_topics_that_nobody_knows_have_no_position(store: Stores) -> None:
    assert store().fetch("g", [TopicAndPartition("nowhere", 0)]) == {}


@pytest.mark.parametrize(
    "error",
    [Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE],
)
def test_a_coordinator_that_is_not_ready_is_asked_again(
    brokers: EmbeddedBroker, store: Stores, error: Code
) -> None:
    offsets = store()
    brokers.fail("OffsetCommit", error, times=2)
    brokers.fail("OffsetFetch", error, times=2)
    offsets.commit("patient", {T0: OffsetAndMetadata(5)})
    assert offsets.fetch("patient", [T0]) == {T0: OffsetAndMetadata(5)}


def test_a_lost_answer_is_asked_for_again(brokers: EmbeddedBroker, store: Stores) -> None:
    offsets = store()
    brokers.drop("OffsetCommit", handled=True)
    offsets.commit("repeated", {T0: OffsetAndMetadata(5)})
    brokers.drop("OffsetFetch")
    assert offsets.fetch("repeated", [T0]) == {T0: OffsetAndMetadata(5)}


def coordinator(brokers: EmbeddedBroker, group: str) -> BrokerNode:
    config = ClientConfig.from_properties({"bootstrap.servers": brokers.bootstrap})
    with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata) as pool:
        return pool.coordinator(group)


def test_positions_follow_a_coordinator_that_moves(brokers: EmbeddedBroker, store: Stores) -> None:
    offsets = store()
    offsets.commit("moving", {T0: OffsetAndMetadata(1)})
    before = coordinator(brokers, "moving").broker_id
    brokers.stop_broker(before)
    offsets.commit("moving", {T1: OffsetAndMetadata(2)})
    assert offsets.fetch("moving", [T0, T1]) == {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2)}
    assert coordinator(brokers, "moving").broker_id != before


def test_an_error_that_stays_names_group_and_partition(brokers: EmbeddedBroker, store: Stores) -> None:
    long = OffsetAndMetadata(1, "x" * 5000)
    with pytest.raises(
        OffsetCommitFailed, match=r"group 'billing': offsets of t-1 .*offset.metadata.max.bytes"
    ) as raised:
        store().commit("billing", {T0: OffsetAndMetadata(1), T1: long})
    assert raised.value.failures == {T1: Code.OFFSET_METADATA_TOO_LARGE}
    assert raised.value.code == Code.OFFSET_METADATA_TOO_LARGE
    assert store().fetch("billing", [T0, T1]) == {T0: OffsetAndMetadata(1)}
    brokers.fail("OffsetFetch", Code.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(OffsetFetchFailed, match="group 'billing': offsets of t-0 were not read: GROUP_AUTH"):
        store().fetch("billing", [T0])


def test_a_group_with_members_takes_no_commit_from_outside(brokers: EmbeddedBroker, store: Stores) -> None:
    node = coordinator(brokers, "live")
    with BlockingClient(node.host, node.port) as client:
        joined = client.call(join_request(group="live"), version=3)
        plan = {joined.member_id: b""}
        client.call(sync_request(joined.member_id, joined.generation_id, plan, group="live"), version=3)
        with pytest.raises(OffsetCommitFailed, match="the group has live members"):
            store().commit("live", {T0: OffsetAndMetadata(1)})


def test_who_gets_no_answer_in_time_is_told_of_which_group(brokers: EmbeddedBroker, store: Stores) -> None:
    brokers.fail("OffsetCommit", Code.COORDINATOR_LOAD_IN_PROGRESS, times=-1)
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        store(timeout=0.05).commit("slow", {T0: OffsetAndMetadata(1)})
    brokers.clear_faults()
    offsets = store(timeout=0.3, **{"request.timeout.ms": 100})
    offsets.fetch("slow", [T0])
    brokers.delay("OffsetFetch", 60, times=-1)
    with pytest.raises(RequestTimedOut, match="offsets of group 'slow'"):
        offsets.fetch("slow", [T0])


def test_close_ends_a_wait_in_another_thread(brokers: EmbeddedBroker, store: Stores) -> None:
    offsets = store()
    offsets.fetch("waiting", [T0])
    rule = brokers.delay("OffsetFetch", 60)
    failures: list[OttlaError] = []

    def wait() -> None:
        try:
            offsets.fetch("waiting", [T0])
        except OttlaError as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: rule.struck == 1)
    offsets.close()
    thread.join()
    assert isinstance(failures[0], ConnectionLost)
    offsets.close()


def test_answers_that_do_not_fit_are_the_brokers_fault() -> None:
    with pytest.raises(RemoteProtocolError, match="lacks t-0"):
        commit_codes(OffsetCommitResponse(topics=[]), [T0])
    with pytest.raises(RemoteProtocolError, match="answered for 0"):
        fetched_offsets(OffsetFetchResponse(groups=[]), [T0], 8)


def test_a_store_says_what_it_is_and_warns_when_it_is_dropped(brokers: EmbeddedBroker) -> None:
    def forget_one() -> None:
        store = KafkaOffsets(ClientConfig.from_properties({"bootstrap.servers": brokers.bootstrap}))
        assert repr(store) == f"<KafkaOffsets at {brokers.bootstrap}>"
        assert store.fetch_all("nobody") == {}
        cycle = [store]
        cycle.append(cycle)  # type: ignore[arg-type]  # so that only the garbage collector finds it

    forget_one()
    with pytest.warns(ResourceWarning, match=r"KafkaOffsets at .* was not closed"):
        gc.collect()
