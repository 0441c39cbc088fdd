"""The view that all threads share: refreshed by one, waited for by the others, right through elections."""

from __future__ import annotations

import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.client import clock, network_errors
from ottla.client.canonical_names import canonical
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.metadata import ClusterMetadata
from ottla.client.pool import ConnectionPool
from ottla.model.address import Address
from ottla.model.cluster_view import BrokerNode, LeaderHint
from ottla.model.error_codes import Code
from ottla.model.errors import BrokerUnreachable, ConnectionLost, KafkaError, RequestTimedOut
from ottla.wire.api.metadata import MetadataRequest
from tests.client.conftest import Clients
from tests.client.manual_clock import ManualClock
from tests.client.raw_server import RawServer, next_request
from tests.waiting import wait_for


def soon() -> Deadline:
    return Deadline(MONOTONIC, 200)


def counted(broker: EmbeddedBroker) -> list[set[str] | None]:
    """The topics of each Metadata request from now on, None for all."""
    seen: list[set[str] | None] = []

    def see(request: MetadataRequest) -> bool:
        named = None if request.topics is None else {topic.name or "" for topic in request.topics}
        seen.append(named)
        return False

    broker.delay(MetadataRequest, 0, times=-1, when=see)
    return seen


def test_leaders_and_partitions(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    brokers.create_topic(topic, 3, replication_factor=3)
    metadata = clients.metadata(brokers.bootstrap)
    assert metadata.view.brokers == {}, "nobody is asked before somebody wants to know"
    leaders = [metadata.leader(topic, partition) for partition in range(3)]
    assert {leader.node.broker_id for leader in leaders} == {0, 1, 2}
    assert [one.index for one in metadata.partitions(topic)] == [0, 1, 2]
    view = metadata.view
    assert set(view.brokers) == {0, 1, 2}
    assert view.controller is not None
    assert view.cluster_id
    assert view.topics[topic].partitions[0].isr == view.topics[topic].partitions[0].replicas


@pytest.mark.parametrize("version", ["", "0.9", "0.8.2"])
def test_looking_for_a_topic_need_not_create_it(
    brokers: EmbeddedBroker, clients: Clients, topic: str, version: str
) -> None:
    """Brokers before 0.11 create what is requested by name."""
    brokers.create_topic(topic, 3)
    settings = {"allow_auto_create_topics": False, "broker_version": version}
    view = clients.metadata(brokers.bootstrap, **settings).refresh([topic, "nosuch"])
    assert set(view.topics) == {topic, "nosuch"}
    assert len(view.topics[topic].partitions) == 3
    assert view.topics["nosuch"].error == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert not view.is_whole
    assert "nosuch" not in clients.metadata(brokers.bootstrap).refresh_all().topics


def test_the_log_says_which_topic_is_waited_for(
    brokers: EmbeddedBroker,
    clients: Clients,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_errors, "TELL_AFTER_MS", 50.0)
    metadata = clients.metadata(brokers.bootstrap, allow_auto_create_topics=False)
    with pytest.raises(KafkaError):
        metadata.partitions(topic, soon())
    (told,) = [line for line in caplog.messages if "still trying" in line]
    assert f"topic '{topic}': no usable answer" in told
    assert "UNKNOWN_TOPIC_OR_PARTITION" in told
    assert metadata.errors.of(network_errors.topic(topic)) is None


def test_what_is_known_is_not_asked_for_again(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    brokers.create_topic(topic, 3)
    metadata = clients.metadata(brokers.bootstrap)
    seen = counted(brokers)
    for partition in range(3):
        metadata.leader(topic, partition)
    assert seen == [{topic}]


def test_a_leader_that_moved(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    brokers.create_topic(topic, replication_factor=3)
    metadata = clients.metadata(brokers.bootstrap)
    before = metadata.leader(topic, 0)
    brokers.move_leader(topic, 0, (before.node.broker_id + 1) % 3)
    assert metadata.leader(topic, 0) == before, "nobody has told yet"
    metadata.invalidate(topic, 0)
    after = metadata.leader(topic, 0)
    assert after.node.broker_id == (before.node.broker_id + 1) % 3
    assert after.epoch > before.epoch


def test_a_broker_that_died(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    brokers.create_topic(topic, 3, replication_factor=3)
    metadata = clients.metadata(brokers.bootstrap)
    for partition in range(3):
        leader = metadata.leader(topic, partition)
        brokers.stop_broker(leader.node.broker_id)
        metadata.invalidate(topic, partition)
        assert metadata.leader(topic, partition).node.broker_id != leader.node.broker_id
        assert leader.node.broker_id not in metadata.view.brokers
        brokers.start_broker(leader.node.broker_id)


def test_an_election_is_waited_for(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    brokers.create_topic(topic)
    metadata = clients.metadata(brokers.bootstrap)
    only = metadata.leader(topic, 0).node.broker_id
    brokers.stop_broker(only)
    metadata.invalidate(topic, 0)
    with pytest.raises(KafkaError) as caught:
        metadata.leader(topic, 0, soon())
    assert caught.value.code == Code.LEADER_NOT_AVAILABLE
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(metadata.leader, topic, 0)
        brokers.start_broker(only)
        assert waiting.result(20).node.broker_id == only


def test_a_topic_that_is_made_while_it_is_waited_for(
    brokers: EmbeddedBroker, clients: Clients, topic: str
) -> None:
    metadata = clients.metadata(brokers.bootstrap, allow_auto_create_topics=False)
    with pytest.raises(KafkaError, match=f"topic '{topic}': UNKNOWN_TOPIC_OR_PARTITION"):
        metadata.topic(topic, soon())
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(metadata.partitions, topic)
        brokers.create_topic(topic, 2)
        assert len(waiting.result(20)) == 2


def test_asking_may_make_a_topic(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    metadata = clients.metadata(brokers.bootstrap)
    assert metadata.leader(topic, 0).node.broker_id in {0, 1, 2}


def test_a_partition_that_does_not_exist(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    brokers.create_topic(topic, 2)
    metadata = clients.metadata(brokers.bootstrap)
    with pytest.raises(KafkaError, match="has 2 partitions, and none with number 7"):
        metadata.leader(topic, 7, soon())


def test_errors_that_do_not_pass_are_raised_at_once(
    brokers: EmbeddedBroker, clients: Clients, topic: str
) -> None:
    rule = brokers.fail(MetadataRequest, Code.TOPIC_AUTHORIZATION_FAILED, times=-1)
    metadata = clients.metadata(brokers.bootstrap)
    with pytest.raises(KafkaError) as caught:
        metadata.leader(topic, 0)
    assert caught.value.code == Code.TOPIC_AUTHORIZATION_FAILED
    assert rule.struck == 1


def test_a_topic_that_cannot_be(brokers: EmbeddedBroker, clients: Clients) -> None:
    with pytest.raises(KafkaError, match="topic 'no such!': INVALID_TOPIC_EXCEPTION"):
        clients.metadata(brokers.bootstrap).leader("no such!", 0)


def test_hints_are_taken_where_they_are_newer(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    brokers.create_topic(topic, replication_factor=3)
    metadata = clients.metadata(brokers.bootstrap)
    known = metadata.leader(topic, 0)
    other = BrokerNode(9, "kafka-9", 9092)
    metadata.learn([LeaderHint(topic, 0, 9, known.epoch)], [other])
    assert metadata.leader(topic, 0) == known
    metadata.invalidate(topic, 0)
    metadata.learn([LeaderHint(topic, 0, 9, known.epoch + 1)], [other])
    assert metadata.leader(topic, 0).node == other, "a hint makes the question needless"


def test_all_topics(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    brokers.create_topic(topic)
    metadata = clients.metadata(brokers.bootstrap)
    assert topic in metadata.refresh_all().topics
    assert metadata.view.is_whole
    brokers.delete_topic(topic)
    assert topic not in metadata.refresh_all().topics


@pytest.mark.parametrize("version", ["0.8.2", "0.9"])
def test_brokers_that_know_only_version_0(
    brokers: EmbeddedBroker, clients: Clients, topic: str, version: str
) -> None:
    brokers.create_topic(topic, 2)
    metadata = clients.metadata(brokers.bootstrap, broker_version=version)
    assert metadata.leader(topic, 1).epoch == -1
    assert metadata.view.controller is None
    assert topic in metadata.refresh(()).topics, "an empty list is all topics there"
    assert topic in metadata.refresh_all().topics


def test_bootstrap_addresses_are_tried_in_turn(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    brokers.create_topic(topic)
    with EmbeddedBroker() as gone:
        dead = gone.bootstrap
    metadata = clients.metadata(f"{dead},{brokers.bootstrap},{dead.replace('127.0.0.1', 'localhost')}")
    metadata.leader(topic, 0)


def test_nobody_answers(clients: Clients, topic: str) -> None:
    with EmbeddedBroker() as gone:
        dead = gone.bootstrap
    metadata = clients.metadata(dead)
    with pytest.raises(BrokerUnreachable, match=f"no broker describes .*{dead} cannot be reached"):
        metadata.refresh([topic])
    with pytest.raises(BrokerUnreachable):
        metadata.leader(topic, 0, soon())


def test_a_broker_that_stays_away_is_told_once(
    clients: Clients, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedBroker() as gone:
        dead = gone.bootstrap
    metadata = clients.metadata(dead)
    with caplog.at_level(logging.INFO, "ottla.client.metadata_search"):
        for _ in range(3):
            with pytest.raises(BrokerUnreachable):
                metadata.refresh([topic])
    assert [dead in line for line in caplog.messages] == [True]


def test_a_cluster_that_comes_back_is_found_again(clients: Clients, topic: str) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic(topic)
        metadata = clients.metadata(broker.bootstrap)
        metadata.leader(topic, 0)
        broker.stop()
        metadata.invalidate(topic, 0)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(metadata.leader, topic, 0)
            broker.start()
            assert waiting.result(20).node.port == broker.port


def test_threads_share_questions(brokers: EmbeddedBroker, clients: Clients, topic: str) -> None:
    """One question is under way, and all who come meanwhile share the next one."""
    names = [f"{topic}-{number}" for number in range(8)]
    for name in names:
        brokers.create_topic(name)
    metadata = clients.metadata(brokers.bootstrap)
    metadata.refresh(())
    seen = counted(brokers)
    brokers.clear_faults()
    first_is_there = threading.Event()

    def see(request: MetadataRequest) -> bool:
        seen.append({one.name or "" for one in request.topics or ()})
        first_is_there.set()
        return True

    brokers.delay(MetadataRequest, 0.3, times=2, when=see)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(metadata.refresh, names[:1])
        assert first_is_there.wait(10)
        others = [threads.submit(metadata.leader, name, 0) for name in names[1:]]
        first.result(20)
        for other in others:
            other.result(20)
    assert seen == [set(names[:1]), set(names[1:])]


def test_old_metadata_are_asked_for_again_and_stay_if_nobody_answers(topic: str) -> None:
    clock = ManualClock()
    with EmbeddedBroker() as broker:
        broker.create_topic(topic)
        config = Clients.config(None, broker.bootstrap)  # type: ignore[arg-type]
        with ClusterMetadata(config, clock) as metadata:
            leader = metadata.leader(topic, 0)
            seen = counted(broker)
            metadata.refresh_if_old()
            assert seen == []
            clock.at_ms += config.metadata_max_age_ms
            metadata.refresh_if_old()
            assert metadata.leader(topic, 0) == leader
            assert seen == [{topic}]
            metadata.forget([topic])
            clock.at_ms += config.metadata_max_age_ms
            metadata.refresh_if_old()
            assert seen == [{topic}]
            broker.stop()
            assert metadata.leader(topic, 0) == leader


def test_silent_addresses_together_do_not_take_more_than_the_deadline(
    clients: Clients, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone would be waited for longer than the test may take."""
    monkeypatch.setattr(clock, "TRY_MS", 10.0)
    with ExitStack() as stack:
        silent = [stack.enter_context(RawServer.silent()) for _ in range(3)]
        addresses = ",".join(str(server.address) for server in silent)
        metadata = clients.metadata(addresses, api_version_request_timeout_ms=3_600_000)
        with pytest.raises(BrokerUnreachable, match=r"answers nothing .*; 2 more were not asked in 50 ms"):
            metadata.refresh([topic], deadline=Deadline(MONOTONIC, 50))
        with pytest.raises(BrokerUnreachable, match="answers nothing"):
            metadata.leader(topic, 0, soon())
        pool = stack.enter_context(ConnectionPool(clients.config(addresses), metadata))
        with pytest.raises(BrokerUnreachable, match="answers nothing"):
            pool.to_coordinator("billing", soon())
    assert all(server.accepted for server in silent), "those that were not asked come first the next time"


def test_a_thread_waits_for_the_request_of_another_only_until_its_deadline(
    clients: Clients, topic: str
) -> None:
    with RawServer.silent() as server, ThreadPoolExecutor(1) as threads:
        metadata = clients.metadata(str(server.address), api_version_request_timeout_ms=3_600_000)
        asking = threads.submit(metadata.refresh, [topic], deadline=Deadline(MONOTONIC, 3_600_000))
        wait_for(lambda: server.accepted)
        with pytest.raises(RequestTimedOut, match=r"^no metadata in 50 ms"):
            metadata.refresh([topic], deadline=Deadline(MONOTONIC, 50))
        metadata.interrupt()
        with pytest.raises(ConnectionLost, match="interrupted"):
            asking.result(60)


def test_a_thread_with_more_time_asks_again(
    brokers: EmbeddedBroker, clients: Clients, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request that it shares was made by a thread whose time was over too soon."""
    brokers.create_topic(topic)
    metadata = clients.metadata(brokers.bootstrap)

    def wait_for_another(wants: object, deadline: Deadline) -> tuple[int, None]:
        """As if another thread had made the request, and had failed."""
        monkeypatch.undo()
        metadata._was_cut, metadata._failure = True, BrokerUnreachable("too short")
        return 1, None

    monkeypatch.setattr(metadata, "_await_turn", wait_for_another)
    assert topic in metadata.refresh([topic]).topics


def test_closing_ends_who_waits(clients: Clients, topic: str) -> None:
    arrived = threading.Event()

    def wait(connection: socket.socket) -> None:
        next_request(connection)
        arrived.set()
        server.released.wait()

    server = RawServer(wait)
    with server, ClusterMetadata(server.config()) as metadata, ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(metadata.leader, topic, 0) for _ in range(2)]
        assert arrived.wait(10)
        metadata.close()
        for one in waiting:
            with pytest.raises(ConnectionLost, match="interrupted"):
                one.result(10)
        metadata.close()
        with pytest.raises(ConnectionLost):
            metadata.refresh()


CANONICAL = "resolve_canonical_bootstrap_servers_only"


def test_bootstrap_servers_are_called_by_their_canonical_names(
    brokers: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind an alias each address has a name of its own, which its certificate or Kerberos ticket is for."""
    port = int(brokers.bootstrap.split(",")[0].rpartition(":")[2])
    real = socket.getaddrinfo

    def resolved(host: str, *arguments: Any, **named: Any) -> list[Any]:
        answers = {"kafka.test": ["127.0.0.1", "127.0.0.2"], "one.test": ["127.0.0.1"]}
        found = [real(ip, *arguments, **named) for ip in answers.get(host, [host])]
        return [entry for entries in found for entry in entries]

    names = {"127.0.0.1": "one.test", "127.0.0.2": "127.0.0.2"}  # the second has no name
    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(socket, "getnameinfo", lambda address, _flags: (names[address[0]], "0"))
    alias = Address("kafka.test", port)
    assert canonical([alias, alias]) == (Address("one.test", port), Address("127.0.0.2", port))
    properties = {"bootstrap.servers": str(alias), "client.dns.lookup": CANONICAL}
    with ClusterMetadata(ClientConfig.from_properties(properties)) as metadata:
        assert len(metadata.refresh_all().brokers) == 3


def test_a_bootstrap_server_without_an_address_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_arguments: object, **_named: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    properties = {"bootstrap.servers": "nowhere.test:9092", "client.dns.lookup": CANONICAL}
    with (
        ClusterMetadata(ClientConfig.from_properties(properties)) as metadata,
        pytest.raises(BrokerUnreachable, match=r"nowhere\.test:9092.*cannot be resolved"),
    ):
        metadata.refresh_all()
