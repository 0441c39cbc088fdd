"""Batches of a great many tiny records: a few kilobytes that keep a careless broker busy for seconds.

Others are served meanwhile: a check or a look-up that takes long is not made on the event loop.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from concurrent.futures import Executor
from threading import Event

import pytest
import zstandard

from ottla.broker.embedded import EmbeddedBroker
from ottla.broker.handlers.produce import PARTITIONS_AT_ONCE, ProduceAttempt
from ottla.broker.storage.runtime import Runtime
from ottla.log.record_checks import RECORDS_MAX
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.broker.faults.batches import LATER, batch, varint
from tests.broker.faults.raw_client import LIST_OFFSETS, PRODUCE, RawClient, frame, produce_request

ZSTD = 4
UNKNOWN_SERVER_ERROR, MESSAGE_TOO_LARGE, INVALID_RECORD = -1, 10, 87


def many(count: int, *, key: bytes | None = b"", timestamp: int | None = None) -> bytearray:
    """A batch of `count` empty records, compressed, that differ by their numbers only."""
    end = (varint(-1) if key is None else varint(len(key)) + key) + varint(0) + b"\0"
    body = bytearray()
    for number in range(count):
        record = b"\0\0" + varint(number) + end
        body += varint(len(record)) + record
    packed = zstandard.ZstdCompressor(level=3).compress(bytes(body))
    return batch(body=packed, count=count, attributes=ZSTD, timestamp=timestamp)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"message.max.bytes": 8 << 20}) as broker:
        broker.create_topic("plain")
        broker.create_topic("compacted", config={"cleanup.policy": "compact"})
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


@pytest.mark.parametrize("topic", ["plain", "compacted"])
def test_more_records_than_a_batch_may_have_are_refused(client: RawClient, topic: str) -> None:
    """By their number alone: 35 million of them are 21 KB, and no reader would enjoy them."""
    end = client.offset(topic)
    for count in (RECORDS_MAX + 1, 35_700_000):
        answer = client.produce(topic, batch(body=b"\x28\xb5\x2f\xfd" * 6000, count=count, attributes=ZSTD))
        assert answer.error_code == MESSAGE_TOO_LARGE  # which makes Java's producer split the batch
    assert client.offset(topic) == end


def served_until_readable(broker: EmbeddedBroker, busy: RawClient) -> int:
    """How many calls of another client are answered before the answer of a busy one is there."""
    served = 0
    with RawClient(broker.port) as other:
        while not select.select([busy], [], [], 0)[0]:
            assert other.produce("plain", batch((b"k", b"v"))).error_code == 0
            served += 1
    return served


def test_others_are_served_while_the_keys_of_a_large_batch_are_checked(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    large = many(RECORDS_MAX)
    client.send(frame(produce_request("compacted", large), PRODUCE))
    assert served_until_readable(broker, client) > 1
    answer = client.answer(produce_request("compacted", large), PRODUCE, 1)
    assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("is_compressed", [False, True])
def test_others_are_served_while_many_headers_are_checked(
    broker: EmbeddedBroker, client: RawClient, is_compressed: bool
) -> None:
    """One record of 400,000 headers kept everybody waiting for a second; compressed it is a kilobyte."""
    headers = 400_000
    record = b"\0\0\0" + varint(1) + b"k" + varint(0) + varint(headers) + b"\0\0" * headers
    body = varint(len(record)) + record
    if is_compressed:
        body = zstandard.ZstdCompressor(level=3).compress(body)
    many_headers = batch(body=body, count=1, attributes=ZSTD if is_compressed else 0)
    client.send(frame(produce_request("compacted", many_headers), PRODUCE))
    assert served_until_readable(broker, client) > 1
    answer = client.answer(produce_request("compacted", many_headers), PRODUCE, 1)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_large_batch_with_one_record_without_a_key_is_refused(client: RawClient) -> None:
    end = client.offset("compacted")
    answer = client.produce("compacted", many(5000, key=None))
    assert answer.error_code == INVALID_RECORD
    assert "without a key" in (answer.error_message or "")
    assert client.offset("compacted") == end


def test_what_is_sent_behind_a_large_batch_stays_behind_it(client: RawClient) -> None:
    """Also where the next request needs no check of its own and could be taken at once."""
    end = client.offset("compacted")
    requests = [produce_request("compacted", data) for data in (many(20_000), batch((b"k", b"after")))]
    client.send(b"".join(frame(request, PRODUCE, number) for number, request in enumerate(requests)))
    offsets = [
        client.answer(request, PRODUCE, number).responses[0].partition_responses[0].base_offset
        for number, request in enumerate(requests)
    ]
    assert offsets == [end, end + 20_000]


def test_without_acks_a_large_batch_is_written_too(client: RawClient) -> None:
    end = client.offset("compacted")
    client.send(frame(produce_request("compacted", many(20_000), acks=0), PRODUCE))
    assert client.produce("compacted", batch((b"k", b"after"))).base_offset == end + 20_000


def test_without_acks_a_refusal_closes_the_connection(client: RawClient) -> None:
    client.send(frame(produce_request("compacted", many(20_000, key=None), acks=0), PRODUCE))
    assert client.rest() == b""


@pytest.mark.parametrize("broken", ["storage.appending._checked_later", "handlers.produce._raise"])
def test_an_error_of_ours_in_a_long_check_is_answered(
    client: RawClient, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the thread or after it. The connection waited for the answer, and so did all that came behind."""

    def fail(*_: object) -> None:
        raise RuntimeError("an error of ours")

    with monkeypatch.context() as patch:
        patch.setattr(f"ottla.broker.{broken}", fail)
        assert client.produce("compacted", many(20_000, key=None)).error_code == UNKNOWN_SERVER_ERROR
    assert client.produce("compacted", batch((b"k", b"v"))).error_code == 0
    assert [line.getMessage() for line in caplog.records if line.exc_info] == [
        "Produce v8 from 127.0.0.1 failed"
    ]


def test_others_are_served_while_many_large_batches_are_appended(
    broker: EmbeddedBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that a thread has checked: each first record of a partition makes files."""
    broker.create_topic("wide", PARTITIONS_AT_ONCE * 4, config={"cleanup.policy": "compact"})
    slices = []
    written = ProduceAttempt._written
    monkeypatch.setattr(
        ProduceAttempt, "_written", lambda self, *part: (slices.append(len(part[0])), written(self, *part))
    )
    items = [ProducePartition(index=index, records=many(5000)) for index in range(PARTITIONS_AT_ONCE * 4)]
    topics = [ProduceTopic(name="wide", partition_data=items)]
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), PRODUCE)
    assert {item.error_code for item in answer.responses[0].partition_responses} == {0}
    assert slices == [PARTITIONS_AT_ONCE] * 4


def test_others_are_served_while_a_time_is_looked_up_in_large_batches(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    first = client.produce("plain", many(RECORDS_MAX, timestamp=LATER)).base_offset
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATER)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="plain", partitions=[asked] * 6)]
    )
    client.send(frame(request, LIST_OFFSETS))
    assert served_until_readable(broker, client) > 0
    found = client.answer(request, LIST_OFFSETS, 1).topics[0].partitions
    assert [answer.offset for answer in found] == [first] * 6


def test_busy_readers_do_not_keep_a_flush_waiting() -> None:
    """Acknowledgements with ottla.flush=always need a thread: one that no other work can take."""
    release = Event()

    def fill(runtime: Runtime) -> None:
        pools: list[Executor] = [runtime.readers, runtime.checkers]
        for pool in pools:
            for _ in range(8):
                pool.submit(release.wait)

    with EmbeddedBroker(properties={"ottla.flush": "always"}) as broker, RawClient(broker.port) as client:
        broker.create_topic("t")
        broker._call(lambda: fill(broker._running().cluster.runtime))
        try:
            assert client.produce("t", batch((b"k", b"v"))).base_offset == 0
        finally:
            release.set()
