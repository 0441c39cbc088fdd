"""A thread's connections by broker, and coordinators."""

from __future__ import annotations

import threading

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.coordinators import CoordinatorKind
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.model.error_codes import Code
from ottla.model.errors import BrokerUnreachable, ConnectionLost, KafkaError, LocalProtocolError
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.metadata import MetadataRequest
from tests.client.conftest import Clients
from tests.client.manual_clock import ManualClock

ASK = MetadataRequest(topics=[])


def test_a_connection_is_opened_once_and_anew_when_it_broke(
    brokers: EmbeddedBroker, clients: Clients
) -> None:
    pool, _ = clients.pool(brokers.bootstrap)
    first = pool.to(1)
    assert pool.to(1) is first
    assert pool.to(2) is not first
    assert first.broker_id == 1
    brokers.drop(MetadataRequest, times=1)
    with pytest.raises(ConnectionLost):
        first.call(ASK)
    second = pool.to(1)
    assert second is not first
    second.call(ASK)


def test_a_broker_that_hung_up_is_noticed_before_a_request_is_lost(
    brokers: EmbeddedBroker, clients: Clients
) -> None:
    pool, metadata = clients.pool(brokers.bootstrap)
    first = pool.to(1)
    brokers.stop_broker(1)
    brokers.start_broker(1)
    metadata.refresh()
    again = pool.to(1)
    assert again is not first
    again.call(ASK)


def test_a_broker_that_is_down_is_left_alone_for_a_while(brokers: EmbeddedBroker, clients: Clients) -> None:
    clock = ManualClock()
    config = clients.config(brokers.bootstrap, reconnect_backoff_ms=50, reconnect_backoff_max_ms=200)
    with ClusterMetadata(config) as metadata, ConnectionPool(config, metadata, clock=clock) as pool:
        metadata.refresh(())
        brokers.stop_broker(2)
        for _ in range(5):
            with pytest.raises(BrokerUnreachable, match=r"broker 2 advertises 127.0.0.1:"):
                pool.to(2)
        for pause, wanted in zip(clock.pauses, [50, 100, 200, 200], strict=True):
            assert 0.8 * wanted <= pause <= 1.2 * wanted
        assert pool.pause_left_ms(2) > 0
        assert pool.pause_left_ms(1) == 0
        brokers.start_broker(2)
        pool.to(2).call(ASK)
        assert pool.pause_left_ms(2) == 0


def test_a_broker_that_nobody_knows(brokers: EmbeddedBroker, clients: Clients) -> None:
    pool, _ = clients.pool(brokers.bootstrap)
    with pytest.raises(
        BrokerUnreachable, match="broker 17 is not in the cluster at present; there are 0, 1, 2"
    ):
        pool.to(17)


def test_any_broker_is_one_that_can_be_reached(brokers: EmbeddedBroker, clients: Clients) -> None:
    pool, metadata = clients.pool(brokers.bootstrap)
    metadata.refresh(())
    for broker_id in (0, 1):
        brokers.stop_broker(broker_id)
    assert pool.to_any().broker_id == 2
    assert pool.to_any() is pool.to(2)
    brokers.stop_broker(2)
    with pytest.raises(BrokerUnreachable, match="none of"):
        pool.to_any()


def test_the_controller_and_whoever_there_is_where_none_is_told(
    brokers: EmbeddedBroker, clients: Clients
) -> None:
    pool, metadata = clients.pool(brokers.bootstrap)
    assert pool.to_controller().broker_id == metadata.view.controller_id
    old, _ = clients.pool(brokers.bootstrap, broker_version="0.9")
    old.to_controller().call(ASK)


@pytest.mark.parametrize("version", ["", "0.8.2"])
def test_a_coordinator_is_looked_up_once(brokers: EmbeddedBroker, clients: Clients, version: str) -> None:
    pool, _ = clients.pool(brokers.bootstrap, broker_version=version)
    seen: list[FindCoordinatorRequest] = []
    brokers.delay(FindCoordinatorRequest, 0, times=-1, when=lambda request: seen.append(request) is not None)
    connection = pool.to_coordinator("billing")
    assert pool.to_coordinator("billing") is connection
    assert len(seen) == 1
    pool.forget_coordinator("billing")
    assert pool.coordinator("billing").broker_id == connection.broker_id
    assert len(seen) == 2


def test_a_coordinator_that_is_not_there_yet_is_waited_for(brokers: EmbeddedBroker, clients: Clients) -> None:
    pool, _ = clients.pool(brokers.bootstrap)
    brokers.fail(FindCoordinatorRequest, Code.COORDINATOR_NOT_AVAILABLE, times=2)
    brokers.drop(FindCoordinatorRequest, times=1)
    pool.to_coordinator("billing").call(ASK)
    rule = brokers.fail(FindCoordinatorRequest, Code.COORDINATOR_NOT_AVAILABLE, times=-1)
    with pytest.raises(KafkaError, match=r"the coordinator of group 'other'.*COORDINATOR_NOT_AVAILABLE"):
        pool.to_coordinator("other", Deadline(MONOTONIC, 150))
    assert rule.struck >= 2


def test_a_coordinator_that_may_not_be_asked_for(brokers: EmbeddedBroker, clients: Clients) -> None:
    pool, _ = clients.pool(brokers.bootstrap)
    rule = brokers.fail(FindCoordinatorRequest, Code.GROUP_AUTHORIZATION_FAILED, times=-1)
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        pool.to_coordinator("billing")
    assert rule.struck == 1


def test_a_coordinator_that_died_is_another_one(brokers: EmbeddedBroker, clients: Clients) -> None:
    pool, _ = clients.pool(brokers.bootstrap)
    first = pool.coordinator("billing")
    brokers.stop_broker(first.broker_id)
    second = pool.to_coordinator("billing", Deadline(MONOTONIC, 2_000))
    assert second.broker_id != first.broker_id


def test_brokers_before_0_8_2_have_no_coordinators(brokers: EmbeddedBroker, clients: Clients) -> None:
    pool, _ = clients.pool(brokers.bootstrap, broker_version="0.8.1")
    with pytest.raises(LocalProtocolError, match="has no FindCoordinator"):
        pool.to_coordinator("billing")
    newer, _ = clients.pool(brokers.bootstrap, broker_version="0.9")
    with pytest.raises(LocalProtocolError):
        newer.to_coordinator("t-1", kind=CoordinatorKind.TRANSACTION)


def test_another_thread_ends_what_the_owner_waits_for(brokers: EmbeddedBroker, clients: Clients) -> None:
    pool, _ = clients.pool(brokers.bootstrap)
    brokers.fail(FindCoordinatorRequest, Code.COORDINATOR_NOT_AVAILABLE, times=-1)
    timer = threading.Timer(0.1, pool.interrupt)
    timer.start()
    with pytest.raises(ConnectionLost, match="interrupted"):
        pool.to_coordinator("billing")
    timer.join()
