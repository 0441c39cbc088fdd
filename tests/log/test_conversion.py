"""Down-conversion: what readers of formats 0 and 1 get of newer batches."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ottla.log.conversion import down_converted, overflow_entry
from ottla.model.errors import KafkaError
from ottla.records.compression import Codec
from ottla.records.messages import Message, MessageSet
from ottla.records.reader import decode
from tests.log.record_sets import NOW, add, batch, joined, open_log, rows_of, values

OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("stored", [1, 2])
@pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: codec.label)
def test_records_keep_offsets_keys_values_and_times(
    tmp_path: Path, magic: int, stored: int, codec: Codec
) -> None:
    log = open_log(tmp_path / "t-0")
    for number in range(4):
        add(
            log,
            batch(*values(number * 3, 2), (b"k", None), magic=stored, codec=codec, timestamp=NOW + number),
        )
    data = log.read(0, 1 << 20)
    old = down_converted(data + data[:30], magic)
    assert set(_magics(old)) == {min(magic, stored)}
    decoded = decode(old)
    assert decoded.damage is None
    assert decoded.batch.column("offset").to_pylist() == list(range(12))
    columns = (decoded.batch.column(name).to_pylist() for name in ("offset", "key", "value"))
    assert list(zip(*columns, strict=True)) == rows_of(log)
    times = decoded.batch.column("timestamp").cast("int64").to_pylist()
    assert times == ([NOW + n // 3 for n in range(12)] if magic else [None] * 12)
    later = decode(down_converted(data, magic, from_offset=7), from_offset=7)
    assert later.batch.column("offset").to_pylist() == list(range(7, 12))
    log.close()


def _magics(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        found.append(data[at + 16])
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    return found


def test_headers_and_old_entries() -> None:
    rich = MessageSet.of([Message(b"v", b"k", NOW, (("h", b"x"),))]).data
    old = batch(*values(0, 2), magic=0, base_offset=1)
    converted = down_converted(bytes(joined([bytes(rich), old])), 0)
    assert converted.endswith(old)
    assert decode(converted).batch.column("offset").to_pylist() == [0, 1, 2]


def test_zstd_cannot_be_sent_to_old_readers() -> None:
    with pytest.raises(KafkaError) as error:
        down_converted(bytes(batch(*values(0, 2), codec=Codec.ZSTD)), 1)
    assert error.value.code == 76


def test_where_nothing_survives_the_reader_is_made_to_ask_for_more() -> None:
    control = batch(*values(0, 1))
    struct.pack_into(">h", control, 21, 0x20)
    assert down_converted(bytes(control), 1) == overflow_entry()
    assert down_converted(b"", 1) == b""
    assert decode(overflow_entry()).batch.num_rows == 0
