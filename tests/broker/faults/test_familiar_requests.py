"""Damage in requests that look like ones the connection has sent before, which take a shorter way.

The shorter way must refuse, append and answer exactly as the long one does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.broker.faults.batches import batch
from tests.broker.faults.raw_client import RawClient, frame, framed, produce_request
from tests.fuzz.mutations import mutated
from tests.scale import SEED, sized

VERSIONS = [3, 5, 8, 9, 12]
CASES = sized(800, 100_000)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path) as broker:
        broker.create_topic("t")
        yield broker


def is_unharmed(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> bool:
    """No error of ours was logged, every checksum is right, and the next batch is taken."""
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
    with RawClient(broker.port) as client:
        client.records("t")
        return client.produce("t", batch((b"k", b"more"))).error_code == 0


def familiar(broker: EmbeddedBroker, version: int) -> RawClient:
    """A client whose next request of the same shape is known."""
    client = RawClient(broker.port)
    for _ in range(2):
        assert client.produce("t", batch((b"k", b"v")), version=version).error_code == 0
    return client


def content(version: int) -> bytes:
    return frame(produce_request("t", batch((b"k", b"v"))), version)[4:]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_ends_anywhere(
    broker: EmbeddedBroker, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    whole = content(version)
    for size in range(len(whole)):
        with familiar(broker, version) as client:
            before = client.offset("t")
            client.send(framed(whole[:size]))
            assert client.rest() == b"", f"cut to {size} of {len(whole)} bytes"
        with RawClient(broker.port) as client:
            assert client.offset("t") == before
    assert is_unharmed(broker, caplog)


@pytest.mark.parametrize("version", [9, 12])
def test_a_length_without_an_end_is_refused_at_once(
    broker: EmbeddedBroker, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A megabyte of continued varint must not be added up digit by digit: that takes minutes."""
    records = bytes(batch((b"k", b"v")))
    whole = frame(produce_request("t", records), version)[4:]
    head = whole[: whole.index(records) - 1]
    with familiar(broker, version) as client:
        client.send(framed(head + b"\xff" * 1_000_000))
        assert client.rest() == b""
    assert is_unharmed(broker, caplog)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_damaged_batch_is_refused_and_the_connection_goes_on(
    broker: EmbeddedBroker, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    with familiar(broker, version) as client:
        damaged = batch((b"k", b"v"))
        damaged[-1] ^= 1
        end = client.offset("t")
        assert client.produce("t", damaged, version=version).error_code == 2
        assert client.produce("t", batch((b"k", b"w")), version=version).base_offset == end
    assert is_unharmed(broker, caplog)


def test_mutations_of_a_familiar_request(broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture) -> None:
    """`OTTLA_SEED=n` repeats a run."""
    chance = Random(SEED)
    client, version = familiar(broker, 8), 8
    for number in range(CASES):
        sent = mutated(content(version), chance)
        if sent[:2] != b"\0\0":
            continue
        what = f"seed {SEED}, case {number}, v{version}: {sent.hex()}"
        client.socket.settimeout(0.2)
        try:
            client.send(framed(sent))
            client.receive()
        except (ConnectionError, TimeoutError):  # without acks there is nothing to wait for
            client.close()
            with RawClient(broker.port) as other:
                assert other.topics(), what
            version = chance.choice(VERSIONS)
            client = familiar(broker, version)
    client.close()
    assert is_unharmed(broker, caplog), f"seed {SEED}"
