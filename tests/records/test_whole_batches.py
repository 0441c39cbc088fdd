"""Which batches can be handed on as they are, and what is written into their headers."""

from __future__ import annotations

import struct

import crc32c
import pytest

from ottla.records.builder import Stamp
from ottla.records.compression import Codec
from ottla.records.entries import read_only, scan, verified
from ottla.records.reader import decode
from ottla.records.whole_batches import Keeping, is_whole, segments, stamped, whole
from tests.log.record_sets import batch, values

ALL = Keeping(1)
OURS = Stamp(producer_id=9, producer_epoch=3, base_sequence=700)
THEIRS = {"producer_id": 77, "producer_epoch": 1, "base_sequence": 5}


def made(first: int, count: int, codec: Codec = Codec.NONE, magic: int = 2, **stamp: int) -> bytearray:
    stamp = {"base_offset": first, **stamp}
    return batch(*values(first, count), codec=codec, magic=magic, **stamp)


def changed(data: bytearray, at: int, new: bytes) -> bytearray:
    """A batch with other bytes in its header, and the checksum of what it holds now."""
    data[at : at + len(new)] = new
    data[17:21] = struct.pack(">I", crc32c.crc32c(data[21:]))
    return data


def divided(*batches: bytearray, from_offset: int = 0, keeping: Keeping = ALL) -> list[tuple[int, bool]]:
    """Where each segment ends, and whether it stays whole."""
    found = scan(read_only(b"".join(batches)), verify_crc=True)
    return [(one.next_offset, one.is_whole) for one in segments(found, from_offset, None, keeping)]


@pytest.mark.parametrize("codec", Codec)
def test_what_a_producer_wrote_stays_whole(codec: Codec) -> None:
    assert divided(made(0, 5, codec), made(5, 5, codec, **THEIRS)) == [(10, True)]


@pytest.mark.parametrize(
    ("why", "odd"),
    [
        ("formats 0 and 1", made(5, 5, magic=1)),
        ("the time of the log", changed(made(5, 5), 21, b"\0\x08")),
        ("gaps of compaction", changed(made(5, 5), 23, struct.pack(">i", 7))),
    ],
)
def test_what_a_broker_would_refuse_does_not(why: str, odd: bytearray) -> None:
    ends = divided(made(0, 5), odd, made(20, 5))
    assert [is_kept for _, is_kept in ends] == [True, False, True], why


def test_a_batch_that_was_read_in_part_goes_as_records_and_what_was_read_goes_not() -> None:
    some = made(0, 5), made(5, 5), made(10, 5)
    assert divided(*some, from_offset=5) == [(15, True)]
    assert divided(*some, from_offset=7) == [(10, False), (15, True)]


def test_small_batches_side_by_side_go_as_records() -> None:
    small, large = [made(n, 1) for n in range(4)], made(4, 50)
    assert divided(*small, large, keeping=Keeping(1000)) == [(4, False), (54, True)]
    compressed = made(4, 50, Codec.ZSTD)
    assert len(compressed) < 1000  # it counts four times
    assert divided(*small, compressed, keeping=Keeping(1000)) == [(4, False), (54, True)]


def test_a_small_batch_alone_stays_whole() -> None:
    assert divided(made(0, 50), made(50, 1), made(51, 50), keeping=Keeping(1000)) == [(101, True)]
    assert divided(made(0, 1), keeping=Keeping(1000)) == [(1, True)]


def test_old_messages_are_sets_without_gaps() -> None:
    data = made(0, 5, magic=0) + made(9, 3, magic=0) + made(12, 4, Codec.GZIP, magic=0) + made(16, 2)
    entries = scan(read_only(data), verify_crc=True)
    parts = segments(entries, 2, None, Keeping(1, magic=0))
    assert [(one.next_offset, one.is_whole) for one in parts] == [(2, False), (12, True), (18, False)]
    rows = whole(entries, parts[1])
    assert rows.column("offset").to_pylist() == [2, 9]
    assert rows.column("records").to_pylist() == [3, 3]
    sets = b"".join(rows.column("batch").to_pylist())
    assert decode(sets).batch.column("offset").to_pylist() == [2, 3, 4, 9, 10, 11]


def test_a_codec_can_be_asked_for() -> None:
    some = made(0, 5, Codec.LZ4), made(5, 5, Codec.ZSTD), made(10, 5)
    assert divided(*some, keeping=Keeping(1, Codec.ZSTD)) == [(5, False), (10, True), (15, False)]
    assert divided(*some, keeping=Keeping(1, Codec.NONE)) == [(10, False), (15, True)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("stamp", [OURS, Stamp()])
def test_a_stamp_changes_numbers_and_no_record(codec: Codec, stamp: Stamp) -> None:
    transactional = changed(made(40, 5, codec, **THEIRS), 21, bytes([0, codec | 0x10]))
    entries = verified(scan(read_only(transactional), verify_crc=True))
    (segment,) = segments(entries, 0, None, ALL)
    rows = whole(entries, segment)
    assert is_whole(rows)
    assert rows.column("offset").to_pylist() == [40]
    assert rows.column("records").to_pylist() == [5]
    out = stamped(memoryview(rows.column("batch")[0].as_buffer()), stamp)
    assert bytes(out[61:]) == bytes(transactional[61:])
    assert struct.unpack_from(">qhi", out, 43) == (
        stamp.producer_id,
        stamp.producer_epoch,
        stamp.base_sequence,
    )
    assert struct.unpack_from(">h", out, 21)[0] == codec  # and no transaction
    assert struct.unpack_from(">i", out, 12)[0] == -1
    found = decode(out)  # which verifies the checksum
    assert found.damage is None
    assert found.batch.column("offset").to_pylist() == list(range(5))
