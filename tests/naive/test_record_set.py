"""The oracle itself, against the spec's vectors and against kafka-python's independent reader and writer."""

from __future__ import annotations

import importlib
import warnings
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.compression import Codec
from tests.naive import record_set
from tests.naive.record_set import Record, batch, decode, message, record, varint
from tests.naive.spec_examples import MESSAGES, TIME, VARINTS
from tests.naive.strategies import HEADERS, VALUES


@cache
def kafka_python() -> Any:
    with warnings.catch_warnings():
        # Its field tables are loaded through a function that Python 3.11 deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module("kafka.record")


@pytest.mark.parametrize(("number", "encoded"), VARINTS)
def test_varints_are_those_of_the_spec(number: int, encoded: str) -> None:
    assert varint(number).hex() == encoded
    assert record_set.read_varint(
        bytes.fromhex(encoded), 0, 10 if len(encoded) > 20 else len(encoded) // 2
    ) == (
        number,
        len(encoded) // 2,
    )


@pytest.mark.parametrize(("encoded", "wanted"), MESSAGES)
def test_messages_of_the_spec_are_read(encoded: str, wanted: Record) -> None:
    assert decode(bytes.fromhex(encoded), headers=True).records == [wanted]


def test_messages_of_the_spec_are_written() -> None:
    written = [
        message(0, 0, None, b"hello"),
        message(0, 7, b"k", b"v"),
        message(1, 0, b"k", b"v", timestamp=TIME),
        batch([record(0, b"k", b"v", headers=[(b"h", b"x")])], base_timestamp=TIME, max_timestamp=TIME),
    ]
    assert [data.hex() for data in written] == [encoded.replace(" ", "") for encoded, _ in MESSAGES]


@given(rows=st.lists(st.tuples(VALUES, VALUES, HEADERS, st.integers(0, 1 << 45)), min_size=1, max_size=4))
def test_kafka_python_reads_what_the_oracle_writes(rows: list[tuple[Any, ...]]) -> None:
    data = batch(
        [
            record(n, key, value, headers=headers, timestamp_delta=at - rows[0][3])
            for n, (key, value, headers, at) in enumerate(rows)
        ],
        base_offset=5,
        base_timestamp=rows[0][3],
    )
    (foreign,) = _foreign(data)
    assert [
        Record(r.offset, r.timestamp, 0, r.key, r.value, tuple((k, v) for k, v in r.headers)) for r in foreign
    ] == decode(data, headers=True).records


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_the_oracle_reads_what_kafka_python_writes(magic: int, codec: Codec) -> None:
    builder = kafka_python().MemoryRecordsBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    rows: list[tuple[Any, ...]] = [(100 + n, b"k%d" % n if n else None, b"v" * n, []) for n in range(4)]
    for timestamp, key, value, headers in rows:
        builder.append(timestamp=timestamp, key=key, value=value, headers=headers)
    builder.close()
    kind, times = (0, True) if magic else (-1, False)
    wanted = [Record(n, row[0] if times else None, kind, row[1], row[2]) for n, row in enumerate(rows)]
    assert decode(bytes(builder.buffer())).records == wanted


def _foreign(data: bytes) -> list[list[Any]]:
    records = kafka_python().MemoryRecords(data)
    found = []
    while (one := records.next_batch()) is not None:
        found.append(list(one))
    return found
