"""Closing ends in time although a thread is where nothing can interrupt it, and says what it left."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import GroupConsumer, PartitionConsumer, Producer, SimpleConsumer
from ottla.client import interruption, metadata
from ottla.client.client_config import ClientConfig
from ottla.model.closing import Closing
from ottla.model.errors import OttlaError, ProducerClosed
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets
from ottla.producer import engine
from tests.waiting import wait_for

HOST = "stuck.example"
ADDRESS = f"{HOST}:9092"
SETTINGS: dict[str, Any] = {"bootstrap_servers": ADDRESS}


class StuckResolver:
    """Resolves HOST only when the test says so."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.threads: set[threading.Thread] = set()
        self._resolve = socket.getaddrinfo

    def __call__(self, host: str, *arguments: Any, **more: Any) -> Any:
        if host != HOST:
            return self._resolve(host, *arguments, **more)
        self.threads.add(threading.current_thread())
        self.released.wait()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[StuckResolver]:
    stuck = StuckResolver()
    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    monkeypatch.setattr(interruption, "ENDING_S", 0.05)
    monkeypatch.setattr(engine, "ENDING_S", 0.05)
    monkeypatch.setattr(metadata, "CLOSE_WAIT_S", 0.05)
    yield stuck
    stuck.released.set()
    for thread in stuck.threads:
        thread.join(60)
        assert not thread.is_alive()


def in_thread(call: Callable[[], object]) -> None:
    def run() -> None:
        with pytest.raises(OttlaError):
            call()

    threading.Thread(target=run, name="caller").start()


def group_consumer() -> GroupConsumer:
    consumer = GroupConsumer("orders", group_id="billing", **SETTINGS)
    assert consumer.poll(0) is None
    return consumer


def partition_consumer() -> PartitionConsumer:
    consumer = PartitionConsumer(**SETTINGS)
    consumer.consume_partition("orders", 0, "earliest")
    return consumer


def simple_consumer() -> SimpleConsumer:
    consumer = SimpleConsumer(HOST, 9092)
    in_thread(consumer.topic_metadata)
    return consumer


def kafka_offsets() -> KafkaOffsets:
    store = KafkaOffsets(ClientConfig.from_properties(SETTINGS))
    in_thread(lambda: store.fetch("billing", [TopicAndPartition("orders", 0)]))
    return store


def producer() -> Producer:
    made = Producer(**SETTINGS)
    made.send("orders", b"v")
    return made


@pytest.mark.parametrize(
    ("make", "left"),
    [
        (group_consumer, "member of group 'billing' is closed, but not all of it has ended .*: ottla-group-"),
        (partition_consumer, "the fetching of ottla is closed, but not all .*: ottla-leader-finder-thread"),
        (simple_consumer, "SimpleConsumer of stuck.example:9092.* is closed, but a call in another thread"),
        (kafka_offsets, "KafkaOffsets at stuck.example:9092> is closed, but a call in another thread"),
        (
            producer,
            "producer 'ottla-producer' is closed, but not all .*: ottla-producer-metadata",
        ),
    ],
)
def test_a_name_that_is_being_resolved_does_not_hold_up_the_end(
    make: Callable[[], Closing | Producer],
    left: str,
    resolver: StuckResolver,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = make()
    wait_for(lambda: resolver.threads, "somebody resolves the name")
    if isinstance(client, Producer):
        with pytest.raises(ProducerClosed):
            client.close(0)
    else:
        client.close()
    assert any(re.search(left, line) for line in caplog.messages), caplog.messages
