"""The load generator of the broker's benchmarks: what it counts is what the broker has. Nothing is timed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from benchmarks.broker.first_record import produce_first
from benchmarks.broker.frames import (
    NEW,
    OLD,
    Dialect,
    ProduceShape,
    error_at,
    metadata_frame,
    produce_frames,
)
from benchmarks.broker.load import Address, FetchLoad, ProduceLoad, StoredBatches, filled
from benchmarks.broker.memory import answers_versions
from benchmarks.broker.processes import Server, free_port, started
from benchmarks.broker.topics import new_topic
from ottla.broker.embedded import EmbeddedBroker

ONE_RECORD = ProduceShape(value_bytes=100, request_bytes=0)


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    with EmbeddedBroker(log_message_format_version="0.9.0") as broker:  # keeps format 0 as it comes
        yield "127.0.0.1", broker.port


@pytest.mark.parametrize("dialect", [OLD, NEW], ids=str)
@pytest.mark.parametrize(("connections", "in_flight"), [(1, 1), (1, 7), (3, 2)])
def test_every_request_is_sent_and_answered(
    address: Address, dialect: Dialect, connections: int, in_flight: int
) -> None:
    shape = ProduceShape(value_bytes=50, request_bytes=300, dialect=dialect)
    assert shape.record_count > 1
    frames = produce_frames(new_topic(address, dialect), shape, count=5)
    with ProduceLoad(address, frames, connections=connections, in_flight=in_flight) as load:
        outcomes = [load.run(20), load.run(1)]
    assert [outcome.requests for outcome in outcomes] == [20, 1]
    assert outcomes[0].records_bytes == 20 * frames.records_bytes


def test_a_log_that_ends_elsewhere_is_noticed(address: Address) -> None:
    frames = produce_frames(new_topic(address, NEW), ONE_RECORD, count=1)
    with ProduceLoad(address, frames) as load, ProduceLoad(address, frames) as another:
        load.run(2)
        another.run(1)
        with pytest.raises(RuntimeError, match="2 requests were to end at offset 5, the log at 7"):
            load.run(2)


def test_a_refused_request_is_noticed(address: Address) -> None:
    frames = produce_frames("no such topic!", ONE_RECORD, count=1)
    with ProduceLoad(address, frames) as load, pytest.raises(RuntimeError, match="answered with error"):
        load.run(1)


def test_round_trips_are_as_many_as_asked_for(address: Address) -> None:
    frames = produce_frames(new_topic(address, NEW), ONE_RECORD, count=1)
    with ProduceLoad(address, frames) as load:
        assert len(load.round_trips(10)) == 10
        assert load.run(3).requests == 3


@pytest.mark.parametrize("dialect", [OLD, NEW], ids=str)
def test_a_reader_gets_everything_once(address: Address, dialect: Dialect) -> None:
    shape = ProduceShape(value_bytes=50, request_bytes=300, dialect=dialect)
    stored = filled(address, produce_frames(new_topic(address, dialect), shape, count=1), 10)
    with FetchLoad(address, stored, connections=2, batches_per_fetch=4) as load:
        outcome = load.run()
    assert outcome.requests == 2 * 3  # 4, 4 and 2 of 10
    assert outcome.records_bytes == 2 * 10 * stored.batch_bytes


def test_a_reader_says_what_a_fetch_was_refused_with(address: Address) -> None:
    stored = StoredBatches(new_topic(address, NEW), NEW, batch_count=1, batch_bytes=100, batch_records=1)
    with (
        FetchLoad(address, stored) as load,
        pytest.raises(RuntimeError, match="a fetch at batch 0 got 0 bytes and error 0"),
    ):
        load.run()


def test_the_first_record_is_waited_for(address: Address) -> None:
    produce = bytes(produce_frames("first", ONE_RECORD, count=1).data)
    produce_first(address, (metadata_frame("first", NEW), produce), error_at("first"))
    frames = produce_frames("first", ONE_RECORD, count=1)
    with ProduceLoad(address, frames) as load:
        load.run(1)


def test_an_idle_connection_is_asked_for_versions(address: Address) -> None:
    with ProduceLoad(address, produce_frames("first", ONE_RECORD, count=1)) as load:
        assert all(answers_versions(connection) for connection in load.sockets)


def test_what_the_kernel_counts_for_a_process() -> None:
    server = Server("this one", "", ("127.0.0.1", 0), os.getpid())
    assert server.cpu_seconds() > 0
    assert 1 < server.resident_mb() <= server.peak_resident_mb()


def test_a_server_that_does_not_start_is_quoted() -> None:
    command = [sys.executable, "-c", "raise SystemExit('out of order')"]
    with pytest.raises(RuntimeError, match="a server 1 did not listen") as failure:  # noqa: SIM117
        with started("a server", "1", command, free_port()):
            raise AssertionError("it never listened")
    assert failure.value.__notes__ == ["a server 1 said: out of order"]
