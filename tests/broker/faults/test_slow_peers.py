"""Peers that ask and do not read, announce and do not send, or only hang about: each costs only itself.

The broker is a process of its own, so that its memory can be looked at. The bounds are far above what it
takes, and far below what it would take without limits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.wire.api.metadata import MetadataRequest
from tests.broker.faults.batches import batch
from tests.broker.faults.broker_process import BrokerProcess
from tests.broker.faults.raw_client import (
    FETCH,
    METADATA,
    PRODUCE,
    RawClient,
    fetch_request,
    frame,
    produce_request,
)

ALL_TOPICS = MetadataRequest(topics=None)
SLACK_MB = 80
FETCH_MB = 32


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {"num.partitions": "50", "fetch.max.bytes": str(FETCH_MB << 20)}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        with broker.client() as client:
            client.create("t")
            assert client.produce("t", batch((b"k", b"v"))).error_code == 0
        yield broker
        assert broker.surprises == []


def serves_others(broker: BrokerProcess) -> None:
    """A client that behaves is served, several times over: whatever is going on has had its turn."""
    with broker.client() as client:
        for _ in range(10):
            before = client.offset("t")
            assert client.produce("t", batch((b"k", b"v"))).base_offset == before
            assert client.fetch("t", before).records


def test_who_asks_for_much_and_reads_nothing_holds_one_answer(broker: BrokerProcess) -> None:
    with broker.client() as client:
        large = batch((b"k", b"x" * 900_000))
        for _ in range(FETCH_MB + 8):
            assert client.produce("t", large, 1).error_code == 0
    before = broker.resident_mb
    readers = [RawClient(broker.port, receive_buffer=4096) for _ in range(3)]
    for reader in readers:
        request = frame(fetch_request("t", 0, 1, FETCH_MB << 20), FETCH)
        reader.send(request * 100)
    serves_others(broker)
    assert broker.peak_mb < before + len(readers) * 1.5 * FETCH_MB + SLACK_MB
    for reader in readers:
        reader.close()
    serves_others(broker)


def test_announced_bytes_cost_nothing_until_they_come(broker: BrokerProcess) -> None:
    before = broker.resident_mb
    writers = [broker.client() for _ in range(100)]
    for writer in writers:
        writer.send((100 << 20).to_bytes(4, "big") + b"\0")
    for _ in range(20):
        for writer in writers:
            writer.send(b"\0")
    serves_others(broker)
    assert broker.peak_mb < before + SLACK_MB
    for writer in writers:
        writer.close()


def test_a_thousand_idle_connections(broker: BrokerProcess) -> None:
    before = broker.resident_mb
    clients = [broker.client() for _ in range(1000)]
    for client in clients[::10]:
        assert client.topics()
    serves_others(broker)
    assert broker.resident_mb < before + SLACK_MB
    assert all(client.topics() for client in clients)
    for client in clients:
        client.close()


def test_ten_thousand_requests_before_the_first_answer_is_read(broker: BrokerProcess) -> None:
    """The broker stops reading; when the answers are taken at last, all of them are there, in order."""
    count = 10_000
    before = broker.resident_mb
    with broker.client() as client:
        stream = b"".join(frame(ALL_TOPICS, METADATA, number) for number in range(count))
        sender = threading.Thread(target=client.send, args=(stream,))
        client.socket.settimeout(60)
        sender.start()
        serves_others(broker)
        assert broker.peak_mb < before + SLACK_MB
        for number in range(count):
            assert int.from_bytes(client.receive()[:4], "big") == number
        sender.join()


def test_a_flood_without_acks_is_written_in_order(broker: BrokerProcess) -> None:
    count = 20_000
    before = broker.resident_mb
    with broker.client() as client:
        for first in range(0, count, 100):
            requests = (
                frame(produce_request("t", batch((b"k", b"%d" % number)), 2, acks=0), PRODUCE)
                for number in range(first, first + 100)
            )
            client.send(b"".join(requests))
        assert client.produce("t", batch((b"k", b"last")), 2).base_offset == count
        found = [int(record.value or b"") for record in client.records("t", 2)[:-1]]
    assert found == list(range(count))
    assert broker.peak_mb < before + SLACK_MB


def test_what_was_sent_without_acks_before_leaving_is_written(broker: BrokerProcess) -> None:
    with broker.client() as client:
        client.send(b"".join(
            frame(produce_request("t", batch((b"k", b"%d" % number)), 3, acks=0), PRODUCE)
            for number in range(500)
        ))  # fmt: skip
        client.socket.shutdown(1)
        assert client.rest() == b""
    with broker.client() as client:
        assert client.offset("t", partition=3) == 500
