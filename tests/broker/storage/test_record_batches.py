"""Small batches without Arrow: the same bytes as the columnar way writes and reads, and what is in a log."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.broker.coordination.topic_records import TopicRecords
from ottla.broker.storage.record_batches import StoredRecord, batch_of, batches_of
from ottla.log.batch_header import header_at
from ottla.log.partition_log import PartitionLog
from ottla.log.validation import CheckedSet
from ottla.model.errors import CorruptRecord
from ottla.records.builder import encode
from ottla.records.compression import Codec
from ottla.records.messages import Message, to_columns
from tests.broker.faults.batches import batch as raw_batch
from tests.log.record_sets import NOW, add, batch, open_log

Rows = list[tuple[bytes | None, bytes | None]]
TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def some_rows(seed: int) -> Rows:
    """Sizes around those at which a length takes another byte."""
    dice = random.Random(seed)
    sizes = [0, 1, 20, 62, 63, 64, 65, 127, 128, 8191, 8192, 8193]

    def item() -> bytes | None:
        return None if dice.random() < 0.2 else dice.randbytes(dice.choice(sizes))

    return [(item(), item()) for _ in range(dice.choice([1, 2, 63, 64, 65, 130]))]


@pytest.mark.parametrize("seed", range(20))
def test_both_ways_write_the_same_bytes(seed: int) -> None:
    rows = some_rows(seed)
    columns = to_columns(Message(value, key, NOW) for key, value in rows)
    assert bytes(batch_of(rows, NOW).data) == b"".join(encode(columns, magic=2))


@pytest.mark.parametrize("seed", range(20))
def test_what_was_written_is_read(seed: int) -> None:
    rows = some_rows(seed)
    data = bytes(batch_of(rows, NOW).data)
    ((header, found), (_, again)) = batches_of(data + data)
    assert header.record_count == len(rows)
    assert [(record.key, record.value) for record in found] == rows
    assert found == again
    assert [record.offset for record in found] == list(range(len(rows)))


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(magic, codec) for magic in range(3) for codec in Codec if codec is not Codec.ZSTD or magic == 2],
)
def test_other_formats_and_codecs_are_read_too(magic: int, codec: Codec) -> None:
    rows: Rows = [(b"a", b"1"), (None, b"2"), (b"c", None)]
    found = [
        record for _, some in batches_of(bytes(batch(*rows, magic=magic, codec=codec))) for record in some
    ]
    assert found == [StoredRecord(offset, key, value) for offset, (key, value) in enumerate(rows)]


def test_a_partial_batch_at_the_end_is_left_out() -> None:
    data = bytes(batch_of([(b"k", b"v")], NOW).data)
    for size in range(len(data)):
        assert len(list(batches_of(data + data[:size]))) == 1


def test_any_bytes_give_records_or_corrupt_record() -> None:
    """Whatever a batch without a checksum says of itself."""
    for seed in range(300):
        dice = random.Random(seed)
        data = bytearray(batch_of(some_rows(seed % 20)[:5], NOW).data)
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(61, len(data))] = dice.randrange(256)
        try:
            for _, found in batches_of(bytes(data)):
                assert all(isinstance(record, StoredRecord) for record in found), f"seed {seed}"
        except CorruptRecord:
            continue


# --- what is loaded of a log of offsets -----------------------------------------------------------------


def append_raw(log: PartitionLog, data: bytearray) -> None:
    """What only another broker can have written: a producer's batch of this kind is refused."""
    header = header_at(data, 0, 0)
    assert header is not None
    log.append(CheckedSet(memoryview(data), (header,)), NOW)
    log.write_staged()


def loaded(log: PartitionLog, end: int | None = None) -> list[tuple[bytes | None, bytes | None]]:
    records = TopicRecords(log.start_offset, log.high_watermark if end is None else end)
    while piece := records.piece(log):
        records.take(piece)
    return [(one.key, one.value) for one in records.in_order()]


def test_all_records_below_an_offset_are_loaded(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for number in range(10):
        add(log, batch_of([(b"%d" % number, b"a"), (b"%d" % number, b"b")], NOW).data)
    assert len(loaded(log)) == 20
    assert loaded(log, 5) == loaded(log)[:5]
    log.close()


@pytest.mark.parametrize(("marker", "counts"), [(COMMIT, True), (ABORT, False), (None, True)])
def test_offsets_of_a_transaction_count_unless_it_was_aborted(
    tmp_path: Path, marker: bytes | None, counts: bool
) -> None:
    log = open_log(tmp_path / "t-0")
    append_raw(log, _of_transaction((b"k", b"in"), (b"l", b"in")))
    add(log, batch_of([(b"k", b"later")], NOW).data)
    if marker is not None:
        append_raw(log, _of_transaction((marker, b"\0\0\0\0\0\0"), attributes=TRANSACTIONAL | CONTROL))
    inside = [(b"k", b"in"), (b"l", b"in")] if counts else []
    assert loaded(log) == [*inside, (b"k", b"later")], "what was committed outside is newer and wins"
    log.close()


def _of_transaction(*rows: tuple[bytes | None, bytes | None], attributes: int = TRANSACTIONAL) -> bytearray:
    sequence = -1 if attributes & CONTROL else 0
    return raw_batch(*rows, attributes=attributes, producer_id=7, producer_epoch=0, sequence=sequence)
