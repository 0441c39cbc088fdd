"""Batches that are damaged, contradict themselves or come out of order: Kafka's error, nothing is kept."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.embedded import EmbeddedBroker
from tests.broker.faults.batches import batch, records, sealed, varint
from tests.broker.faults.raw_client import RawClient

CORRUPT, TOO_LARGE, BAD_TIME, SEQUENCE, EPOCH, NO_CODEC, INVALID = 2, 10, 32, 45, 47, 76, 87
ROW = (b"key", b"value")
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("corrupt")) as broker:
        limits = {"message.timestamp.after.max.ms": str(HOUR_MS), "max.message.bytes": "10000"}
        broker.create_topic("plain", config=limits)
        broker.create_topic("compacted", config={"cleanup.policy": "compact"})
        with RawClient(broker.port) as client:
            for topic in ("plain", "compacted"):
                assert client.produce(topic, batch(ROW)).base_offset == 0
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


def files(broker: EmbeddedBroker, topic: str) -> dict[str, bytes]:
    directory = Path(broker.data_dir) / f"{topic}-0"
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def refused(
    broker: EmbeddedBroker, client: RawClient, data: bytes | bytearray, topic: str = "plain", version: int = 8
) -> int:
    """The error of a produce that must leave nothing behind; the next one goes on as if it had not been."""
    end, before = client.offset(topic), files(broker, topic)
    answer = client.produce(topic, bytearray(data), version=version)
    assert answer.base_offset == -1
    assert client.offset(topic) == end
    assert files(broker, topic) == before
    assert client.produce(topic, batch(ROW)).base_offset == end
    return answer.error_code


def patched(at: int, layout: str, value: int, data: bytearray | None = None) -> bytearray:
    """A batch with a changed field and the checksum that fits it."""
    data = batch(ROW, ROW) if data is None else data
    struct.pack_into(layout, data, at, value)
    return sealed(data)


def flipped(at: int) -> bytearray:
    data = batch(ROW, ROW)
    data[at] ^= 1
    return data


TEXT = b"{'a line of text': 'in the place of records, and the checksum is right'}"
ZSTD = b"\x28\xb5\x2f\xfd"
LATE = int(time.time() * 1000) + 2 * HOUR_MS
CASES = {
    "checksum": (flipped(17), CORRUPT),
    "attributes under the old checksum": (flipped(22), CORRUPT),
    "last byte under the old checksum": (flipped(-1), CORRUPT),
    "size 0": (patched(8, ">i", 0), CORRUPT),
    "size below a header": (patched(8, ">i", 40), CORRUPT),
    "negative size": (patched(8, ">i", -1), CORRUPT),
    "size beyond the data": (patched(8, ">i", 100_000), INVALID),
    "size one too small": (patched(8, ">i", len(batch(ROW, ROW)) - 13), CORRUPT),
    "format 3": (patched(16, ">b", 3), CORRUPT),
    "format -1": (patched(16, ">b", -1), CORRUPT),
    "count too small": (batch(ROW, ROW, count=1, last_delta=1), INVALID),
    "count too large": (batch(ROW, ROW, count=3, last_delta=1), INVALID),
    "count 0": (batch(count=0, last_delta=0), INVALID),
    "negative count": (batch(ROW, count=-1, last_delta=-2), INVALID),
    "last offset delta": (batch(ROW, ROW, last_delta=5), INVALID),
    "negative last offset delta": (batch(ROW, last_delta=-1), INVALID),
    "base offset": (batch(ROW, base_offset=7), INVALID),
    "control batch": (batch(ROW, attributes=0x20), INVALID),
    "codec 5": (batch(ROW, attributes=5), NO_CODEC),
    "codec 7": (batch(ROW, attributes=7), NO_CODEC),
    "text for one record": (batch(body=TEXT, count=1), INVALID),
    "text for three records": (batch(body=TEXT, count=3), INVALID),
    "text for gzip": (batch(body=TEXT, count=1, attributes=1), INVALID),
    "text for snappy": (batch(body=TEXT, count=1, attributes=2), INVALID),
    "text for lz4": (batch(body=TEXT, count=1, attributes=3), INVALID),
    "text for zstd": (batch(body=TEXT, count=1, attributes=4), INVALID),
    "most records in 8 bytes": (batch(body=bytes(8), count=2**31 - 1), INVALID),
    "most records in 8 bytes of zstd": (batch(body=ZSTD + bytes(4), count=2**31 - 1, attributes=4), INVALID),
    "one record too many to fit": (batch(body=records([(None, None)]), count=2), INVALID),
    "a second record behind the only one": (batch(ROW, ROW, count=1), INVALID),
    "a first record larger than the batch": (batch(body=varint(200) + bytes(90), count=1), INVALID),
    "a first record with another number": (batch(body=records([ROW, ROW])[14:], count=1), INVALID),
    "too large": (batch((b"k", bytes(10_000))), TOO_LARGE),
    "from the future": (batch(ROW, timestamp=LATE), BAD_TIME),
    "the broker's time": (batch(ROW, attributes=0x08), BAD_TIME),
    "producer without sequence": (batch(ROW, producer_id=5, producer_epoch=0), INVALID),
    "producer without epoch": (batch(ROW, producer_id=5, sequence=0), INVALID),
    "two batches": (batch(ROW) + batch(ROW), INVALID),
    "half a batch": (batch(ROW)[:40], INVALID),
    "noise, which claims to be larger": (bytearray(range(256)), INVALID),
    "zeros": (bytearray(300), CORRUPT),
    "nothing": (bytearray(), INVALID),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_batch_that_cannot_be_is_refused(broker: EmbeddedBroker, client: RawClient, name: str) -> None:
    data, code = CASES[name]
    assert refused(broker, client, data) == code


@pytest.mark.parametrize("name", ["checksum", "count too large", "codec 5", "zeros"])
def test_in_a_compacted_topic_too(broker: EmbeddedBroker, client: RawClient, name: str) -> None:
    data, code = CASES[name]
    assert refused(broker, client, data, "compacted") == code


GZIP = 1
COMPACTED_CASES = {
    "a record without a key": batch((None, b"v")),
    "fewer records than counted": batch(ROW, ROW, count=3),
    "more records than counted": batch(ROW, ROW, count=1),
    "noise for records": batch(body=bytes(range(100)), count=1),
    "noise for gzip": batch(body=bytes(range(100)), count=1, attributes=GZIP),
    "noise in gzip": batch(body=zlib.compress(bytes(range(200)), wbits=31), count=1, attributes=GZIP),
    "gzip that ends early": batch(
        body=zlib.compress(records([ROW]), wbits=31)[:-9], count=1, attributes=GZIP
    ),
    "a record larger than the batch": batch(body=varint(1 << 20) + bytes(50), count=1),
}


@pytest.mark.parametrize("name", COMPACTED_CASES)
def test_a_compacted_topic_looks_at_the_records(broker: EmbeddedBroker, client: RawClient, name: str) -> None:
    assert refused(broker, client, COMPACTED_CASES[name], "compacted") == INVALID


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12])
def test_old_formats_are_refused_in_newer_requests(
    broker: EmbeddedBroker, client: RawClient, version: int
) -> None:
    body = struct.pack(">BBqi", 1, 0, 0, -1) + struct.pack(">i", 1) + b"v"
    message = struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body
    assert refused(broker, client, message, version=version) == INVALID


def test_a_damaged_message_of_an_old_format(broker: EmbeddedBroker, client: RawClient) -> None:
    body = struct.pack(">BBqi", 1, 0, 0, -1) + struct.pack(">i", 1) + b"v"
    message = struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body) ^ 1) + body
    assert refused(broker, client, message, version=2) == CORRUPT


def test_zstd_in_a_request_that_is_too_old_for_it(broker: EmbeddedBroker, client: RawClient) -> None:
    data = batch(body=ZSTD + bytes(40), count=1, attributes=4)
    assert refused(broker, client, data, version=6) == NO_CODEC


def test_one_bad_partition_does_not_harm_the_others(broker: EmbeddedBroker, client: RawClient) -> None:
    broker.create_topic("two", 2)
    assert client.produce("two", batch(ROW), 0).error_code == 0
    assert client.produce("two", flipped(17), 1).error_code == CORRUPT
    assert (client.offset("two", partition=0), client.offset("two", partition=1)) == (1, 0)


class TestSequences:
    """An idempotent producer's batches: each once, in order."""

    def send(self, client: RawClient, sequence: int, epoch: int = 0, count: int = 1) -> tuple[int, int]:
        data = batch(*[ROW] * count, producer_id=77, producer_epoch=epoch, sequence=sequence)
        answer = client.produce("sequences", data)
        return answer.error_code, answer.base_offset

    def test_a_gap_a_repetition_and_an_old_epoch(self, broker: EmbeddedBroker, client: RawClient) -> None:
        broker.create_topic("sequences")
        assert self.send(client, 0, count=2) == (0, 0)
        assert self.send(client, 2) == (0, 2)
        assert self.send(client, 4) == (SEQUENCE, -1)
        assert self.send(client, 2) == (0, 2)
        assert self.send(client, 0, count=2) == (0, 0)
        assert self.send(client, 1) == (SEQUENCE, -1)
        assert client.offset("sequences") == 3
        assert self.send(client, 0, epoch=1) == (0, 3)
        assert self.send(client, 3) == (EPOCH, -1)
        assert self.send(client, 5, epoch=2) == (SEQUENCE, -1)
        assert client.offset("sequences") == 4
        assert [record.offset for record in client.records("sequences")] == [0, 1, 2, 3]


def test_what_is_on_disk_is_whole(broker: EmbeddedBroker, client: RawClient) -> None:
    """After all that: every batch has a right checksum, and offsets have no gap."""
    for topic in ("plain", "compacted"):
        found = [record.offset for record in client.records(topic)]
        assert found == list(range(client.offset(topic)))
