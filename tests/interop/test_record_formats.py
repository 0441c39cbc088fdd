"""Record sets both ways between us and the record modules of kafka-python and aiokafka."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.records.builder import Stamp, encode
from ottla.records.compression import Codec
from ottla.records.reader import decode
from tests.interop.peers import PEERS, Peer, Producer, stamped_by_broker
from tests.interop.rows import (
    CREATE_TIME,
    FORMAT_IDS,
    FORMATS,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    Row,
    entries,
    formats_of,
    our_rows,
    rows_of,
    sample,
    table,
)
from tests.scale import sized

pytestmark = pytest.mark.timeout(20, func_only=True)

all_formats = pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=FORMAT_IDS)
all_codecs = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)
FAR_OFFSET = 3_000_000_000_000
APPEND_TIME = 1_750_000_000_123


@pytest.fixture(params=PEERS)
def peer(request: pytest.FixtureRequest) -> Peer:
    return PEERS[request.param]()


def ours(rows: list[Row], magic: int, codec: Codec, *, batch_bytes: int = 1 << 20) -> bytes:
    stamp = Stamp(base_offset=rows[0].offset)
    return b"".join(encode(table(rows), magic=magic, codec=codec, batch_bytes=batch_bytes, stamp=stamp))


@all_formats
@pytest.mark.parametrize("first_offset", [0, FAR_OFFSET])
def test_we_read_what_they_write(peer: Peer, magic: int, codec: Codec, first_offset: int) -> None:
    peer.skip_unless_it_can(magic, codec)
    rows = sample(magic, first_offset=first_offset)
    data = peer.encode(rows, magic, codec)
    assert formats_of(data) == {(magic, codec)}
    assert our_rows(data) == rows


@all_formats
@pytest.mark.parametrize("first_offset", [0, FAR_OFFSET])
def test_they_read_what_we_write(peer: Peer, magic: int, codec: Codec, first_offset: int) -> None:
    peer.skip_unless_it_can(magic, codec)
    rows = sample(magic, first_offset=first_offset)
    data = ours(rows, magic, codec)
    assert formats_of(data) == {(magic, codec)}
    assert peer.decode(data) == rows


@all_formats
def test_we_read_many_of_their_batches_in_one_set(peer: Peer, magic: int, codec: Codec) -> None:
    peer.skip_unless_it_can(magic, codec)
    rows = sample(magic, first_offset=77, copies=10)
    parts = [peer.encode(rows[at : at + 7], magic, codec) for at in range(0, len(rows), 7)]
    assert our_rows(b"".join(parts)) == rows


@all_formats
def test_they_read_many_of_our_batches_in_one_set(peer: Peer, magic: int, codec: Codec) -> None:
    peer.skip_unless_it_can(magic, codec)
    rows = sample(magic, first_offset=77, copies=4)
    data = ours(rows, magic, codec, batch_bytes=3_000)
    assert len(list(entries(data))) > 8
    assert peer.decode(data) == rows


@all_formats
def test_a_single_record_with_nothing_in_it_passes_both_ways(peer: Peer, magic: int, codec: Codec) -> None:
    peer.skip_unless_it_can(magic, codec)
    rows = [sample(magic)[0]._replace(key=None, value=None)]
    assert our_rows(peer.encode(rows, magic, codec)) == rows
    assert peer.decode(ours(rows, magic, codec)) == rows


def mixed_set(peer: Peer) -> tuple[bytes, list[Row]]:
    """Every format and codec that the peer has, written in turns by us and by it."""
    rows: list[Row] = []
    parts: list[Any] = []
    for magic, codec in FORMATS:
        if peer.lacks(magic, codec) is None:
            part = sample(magic, first_offset=len(rows))
            parts.append(ours(part, magic, codec) if len(parts) % 2 else peer.encode(part, magic, codec))
            rows += part
    return b"".join(parts), rows


def test_we_read_all_formats_and_codecs_mixed_in_one_set(peer: Peer) -> None:
    data, rows = mixed_set(peer)
    assert our_rows(data) == rows


def test_they_read_all_formats_and_codecs_mixed_in_one_set(peer: Peer) -> None:
    if peer.name == "aiokafka":
        pytest.skip(
            "aiokafka's compiled reader takes the first entry's format, old or new, for all that follow"
        )
    data, rows = mixed_set(peer)
    assert peer.decode(data) == rows


@pytest.mark.parametrize(
    ("magic", "codec"),
    [pair for pair in FORMATS if pair[0] > 0],
    ids=[name for pair, name in zip(FORMATS, FORMAT_IDS, strict=True) if pair[0] > 0],
)
def test_both_let_the_brokers_append_time_win(peer: Peer, magic: int, codec: Codec) -> None:
    peer.skip_unless_it_can(magic, codec)
    rows = sample(magic, first_offset=5)
    expected = [row._replace(timestamp=APPEND_TIME, timestamp_type=LOG_APPEND_TIME) for row in rows]
    for written in (peer.encode(rows, magic, codec), ours(rows, magic, codec)):
        stored = b"".join(stamped_by_broker(bytes(entry), APPEND_TIME) for entry in entries(written))
        assert our_rows(stored) == expected
        assert peer.decode(stored) == expected


@all_codecs
@pytest.mark.parametrize("transactional", [False, True], ids=["idempotent", "transactional"])
def test_they_find_our_producer_fields(peer: Peer, codec: Codec, transactional: bool) -> None:
    peer.skip_unless_it_can(2, codec)
    rows = sample(2, first_offset=40, copies=2)
    stamp = Stamp(
        40, producer_id=2**40 + 1, producer_epoch=32_000, base_sequence=9, transactional=transactional
    )
    data = b"".join(encode(table(rows), codec=codec, stamp=stamp, batch_bytes=50_000))
    batches = peer.batches(data)
    assert len(batches) > 2
    sequence = 9
    for batch in batches:
        assert (batch.producer_id, batch.producer_epoch) == (2**40 + 1, 32_000)
        assert batch.is_transactional is transactional
        assert not batch.is_control_batch
        assert batch.base_sequence == sequence
        sequence += batch.next_offset - batch.base_offset
        assert batch.compression_type == codec
        list(batch)
    assert peer.decode(data) == rows


@all_codecs
@pytest.mark.parametrize("transactional", [False, True], ids=["idempotent", "transactional"])
def test_we_read_their_producers_batches(peer: Peer, codec: Codec, transactional: bool) -> None:
    peer.skip_unless_it_can(2, codec)
    rows = sample(2, first_offset=40)
    producer = Producer(2**40 + 1, 32_000, 9, transactional)
    assert our_rows(peer.encode(rows, 2, codec, producer)) == rows


@all_formats
def test_we_start_inside_their_batch_where_asked(peer: Peer, magic: int, codec: Codec) -> None:
    peer.skip_unless_it_can(magic, codec)
    rows = sample(magic, first_offset=100)
    decoded = decode(peer.encode(rows, magic, codec), from_offset=104, headers=True)
    assert rows_of(decoded) == rows[4:]
    assert decoded.next_offset == 109


# Lengths on both sides of where a varint grows, and whatever else.
lengths = st.sampled_from([0, 1, 62, 63, 64, 65, 8_190, 8_191, 8_192, 8_193]) | st.integers(0, 300)
contents = st.none() | st.builds(lambda length, byte: bytes([byte]) * length, lengths, st.integers(0, 255))
header_lists = st.lists(st.tuples(st.text(max_size=70), contents), max_size=4).map(tuple)
times = st.none() | st.integers(0, 2**44) | st.integers(1_700_000_000_000, 1_700_000_000_200)
records = st.lists(st.tuples(times, contents, contents, header_lists), min_size=1, max_size=80)


@given(records=records, form=st.sampled_from(FORMATS), first_offset=st.integers(0, 2**60))
@settings(
    max_examples=sized(40, 1000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    print_blob=True,
)
def test_any_records_pass_both_ways(
    peer: Peer,
    records: list[tuple[int | None, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    form: tuple[int, Codec],
    first_offset: int,
) -> None:
    magic, codec = form
    if peer.lacks(magic, codec):
        codec = Codec.GZIP  # the named skips above tell which codecs a peer lacks
    if peer.name == "aiokafka":
        # Its compiled builder takes a missing timestamp for "no record yet", its reader for "no type".
        records = [(timestamp or 0, key, value, headers) for timestamp, key, value, headers in records]
    rows = [
        Row(
            offset,
            timestamp if magic else None,
            CREATE_TIME if magic else NO_TIMESTAMP_TYPE,
            key,
            value,
            headers if magic == 2 else (),
        )
        for offset, (timestamp, key, value, headers) in enumerate(records, first_offset)
    ]
    assert our_rows(peer.encode(rows, magic, codec)) == rows
    assert peer.decode(ours(rows, magic, codec, batch_bytes=20_000)) == rows
