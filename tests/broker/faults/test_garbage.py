"""Mutations of valid requests for every served API and version, over a socket.

The broker answers or hangs up. It never falls silent, never logs an error that nobody foresaw, and never
loses or changes what was written before: not in memory, and not on disk. `OTTLA_SEED=n` repeats a run.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.handlers.registry import SERVED
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataTopic
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.sync_group import SyncGroupRequest
from ottla.wire.headers import encode_request_header
from ottla.wire.schema import Request, encode
from tests.broker.faults.batches import batch
from tests.broker.faults.raw_client import RawClient, fetch_request, framed, produce_request
from tests.fuzz.mutations import mutated
from tests.scale import SEED, sized
from tests.wire.messages import rows

CASES = sized(2000, 200_000)
PATIENCE_S = 0.05
MAY_WAIT = {request.API.key for request in (ProduceRequest, FetchRequest, JoinGroupRequest, SyncGroupRequest)}
"""A long poll, a group, or acks=0: silence is an answer of these. They must still notice that we leave."""

KEPT = [(b"k%d" % number, b"value %d" % number) for number in range(20)]


def heads(request: Request[Any], version: int) -> bytes:
    return encode_request_header(request.API, version, 1, "fuzz")


def seeds() -> Iterator[tuple[int, int, bytes]]:
    """(API key, version, frame content): Kafka's own examples of each request, and some that do something."""
    for row in rows():
        key = row.kind.API.key
        is_request = row.kind is row.kind.API.request and row.data is not None
        if is_request and key in SERVED and row.version in SERVED[key]:
            yield key, row.version, heads(row.message, row.version) + row.data  # type: ignore[arg-type, operator]
    asked = ListOffsetsPartition(partition_index=0, timestamp=5)
    for request in (
        produce_request("target", batch((b"k", b"fuzz"), (b"l", None))),
        fetch_request("kept", 3),
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="kept", partitions=[asked])]),
        MetadataRequest(topics=[MetadataTopic(name="kept")]),
    ):
        for version in range(request.API.version_newest + 1):
            if version in SERVED[request.API.key] and not (version > 12 and request.API.key < 2):
                content = b"".join(bytes(part) for part in encode(request, version, heads(request, version)))
                yield request.API.key, version, content


def outcome(port: int, content: bytes) -> str:
    """What became of one request on a connection of its own. A timeout is the failure that we look for."""
    may_wait = int.from_bytes(content[:2], "big") in MAY_WAIT
    with RawClient(port) as client:
        client.send(framed(content))
        if may_wait:
            client.socket.settimeout(PATIENCE_S)
        try:
            client.receive()
        except TimeoutError:
            if not may_wait:
                raise
            client.socket.settimeout(10)
            client.socket.shutdown(socket.SHUT_WR)
            client.rest()
            return "silent"
        except ConnectionError:
            return "closed"
        return "answered"


def test_mutated_requests_are_answered_or_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = Random(SEED)
    examples = list(seeds())
    assert {key for key, _, _ in examples} == SERVED.keys()
    properties = {"num.partitions": "1", "socket.request.max.bytes": "100000"}
    with EmbeddedBroker(tmp_path / "data", properties=properties) as broker:
        broker.create_topic("kept")
        broker.create_topic("target")
        with RawClient(broker.port) as client:
            assert client.produce("kept", batch(*KEPT)).error_code == 0
        outcomes = dict.fromkeys(("answered", "closed", "silent"), 0)
        for number in range(CASES):
            key, version, content = chance.choice(examples) if number >= len(examples) else examples[number]
            sent = mutated(content, chance)
            if makes_many_partitions(sent):
                continue
            what = f"seed {SEED}, case {number}, from API {key} v{version}: {sent.hex()}"
            try:
                outcomes[outcome(broker.port, sent)] += 1
            except TimeoutError:
                pytest.fail(f"no answer: {what}")
            assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == [], what
        assert min(outcomes["answered"], outcomes["closed"]) > CASES / 20, outcomes
        check(broker)
    with EmbeddedBroker(tmp_path / "data") as broker:
        check(broker)


def makes_many_partitions(content: bytes) -> bool:
    """A mutation can be a valid order to make a thousand partitions, which is none of our business."""
    return content[:2] == CreateTopicsRequest.API.key.to_bytes(2, "big") and b"\x03\xe8" in content


def check(broker: EmbeddedBroker) -> None:
    """Everything is as it was, and goes on."""
    with RawClient(broker.port) as client:
        found = client.records("kept")
        assert [(record.key, record.value) for record in found[: len(KEPT)]] == KEPT
        assert {record.value for record in found[len(KEPT) :]} <= {b"more"}
        assert client.produce("kept", batch((b"k", b"more"))).error_code == 0
        client.records("target")  # whatever got through has a right checksum
