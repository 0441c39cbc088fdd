"""A few kilobytes that would become gigabytes: where the broker decompresses, it stops at a limit.

Compacted topics are decompressed when they are written, all others only when somebody asks for a time or for
an old format. The broker is a process of its own, so that its memory can be looked at.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

import pytest
import zstandard

from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.faults.batches import LATER, batch, varint
from tests.broker.faults.broker_process import BrokerProcess
from tests.broker.faults.raw_client import LIST_OFFSETS, RawClient

BOMB_BYTES = (2 << 30) - 100
GZIP, ZSTD = 1, 4
MEMORY_MB = 600
"""Decompressed data may have 256 MB, in an array that grew by doubling; no refused batch may leave any."""


def bomb(codec: int) -> bytearray:
    """One record whose value has no end of zeros."""
    body = b"\0\0\0" + varint(1) + b"k" + varint(BOMB_BYTES)
    head = varint(len(body) + BOMB_BYTES + 1) + body
    if codec == ZSTD:
        packer = zstandard.ZstdCompressor(level=1).compressobj()
    else:
        packer = zlib.compressobj(level=1, wbits=31)  # type: ignore[assignment]
    pieces = [packer.compress(head)]
    zeros = bytes(1 << 22)
    # What gzip makes of gigabytes does not fit a usual request; 400 MB are above the limit too.
    pieces += [packer.compress(zeros) for _ in range(512 if codec == ZSTD else 100)]
    return batch(body=b"".join(pieces) + packer.flush(), count=1, attributes=codec, timestamp=LATER)


@pytest.fixture(scope="module")
def bombs() -> dict[int, bytearray]:
    return {codec: bomb(codec) for codec in (GZIP, ZSTD)}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data_dir = tmp_path_factory.mktemp("bombs") / "data"
    with BrokerProcess(data_dir, {"message.max.bytes": str(4 << 20)}) as broker:
        yield broker
        assert broker.peak_mb < MEMORY_MB
        assert broker.surprises == []


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with broker.client() as client:
        yield client


@pytest.fixture
def topic(client: RawClient, request: pytest.FixtureRequest) -> str:
    """One of its own, with a record in it; compacted if its test says so."""
    name = re.sub("[^a-z_]", "-", request.node.name)
    policy = "compact" if "compacted" in name else "delete"
    assert client.create(name, config={"cleanup.policy": policy}) == 0
    assert client.produce(name, batch((b"k", b"before"))).base_offset == 0
    return name


def goes_on(client: RawClient, topic: str) -> None:
    """What was there can be read, and the next batch is taken."""
    end = client.offset(topic)
    assert client.produce(topic, batch((b"k", b"after"))).base_offset == end
    assert client.fetch(topic, end).error_code == 0


@pytest.mark.parametrize("codec", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_a_compacted_topic_refuses_it(
    client: RawClient, topic: str, bombs: dict[int, bytearray], codec: int
) -> None:
    assert client.produce(topic, bombs[codec]).error_code == 87
    assert client.offset(topic) == 1
    goes_on(client, topic)
    assert [record.value for record in client.records(topic)] == [b"before", b"after"]


@pytest.mark.parametrize("codec", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_looking_up_a_time_in_it_is_an_error(
    client: RawClient, topic: str, bombs: dict[int, bytearray], codec: int
) -> None:
    assert client.produce(topic, bombs[codec]).base_offset == 1
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATER)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    assert client.call(request, LIST_OFFSETS).topics[0].partitions[0].error_code != 0
    goes_on(client, topic)


@pytest.mark.parametrize("codec", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_converting_it_for_an_old_reader_is_an_error(
    client: RawClient, topic: str, bombs: dict[int, bytearray], codec: int
) -> None:
    assert client.produce(topic, bombs[codec]).base_offset == 1
    assert client.fetch(topic, 1, version=3, max_bytes=8 << 20).error_code != 0
    whole = client.fetch(topic, 1, max_bytes=8 << 20)  # who can decompress it himself may have it
    assert bytes(whole.records or b"")[61:] == bombs[codec][61:]
    goes_on(client, topic)
