"""A partition's part of an answer into chunks: offsets, limits, damage, transactions, old formats."""

from __future__ import annotations

import struct
from dataclasses import replace

import crc32c
import pytest

from ottla.fetching.collector import Collected, collect, glance
from ottla.fetching.cursor import CHUNK_BYTES_MAX
from ottla.fetching.fetch_config import FetchConfig, IsolationLevel
from ottla.records.compression import Codec
from ottla.records.slabs import SlabPool
from ottla.records.whole_batches import is_whole
from ottla.wire.api.fetch import AbortedTransaction
from tests.fetching.tables import PLACE, answer, offsets_of, records
from tests.naive.record_set import marker

POOL = SlabPool(reserve_bytes=0)


def collected(
    data: bytes | None,
    offset: int = 0,
    config: FetchConfig | None = None,
    *,
    bytes_max: int = CHUNK_BYTES_MAX,
    **about: object,
) -> Collected:
    told = answer(data, **about)  # type: ignore[arg-type]
    return collect(PLACE, offset, told, config or FetchConfig(), POOL, bytes_max=bytes_max)


def offsets(found: Collected) -> list[int]:
    return offsets_of(found.chunks)


def resealed(data: bytearray) -> bytes:
    """A batch with the checksum of what it holds now."""
    data[17:21] = struct.pack(">I", crc32c.crc32c(data[21:]))
    return bytes(data)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def test_records_below_the_position_are_left_out() -> None:
    found = collected(records(0, 10) + records(10, 5), 7)
    assert offsets(found) == list(range(7, 15))
    (chunk,) = found.chunks
    assert (chunk.fetch_offset, chunk.next_offset, chunk.high_watermark) == (7, 15, 1000)
    assert (found.next_offset, found.damage) == (15, None)


@pytest.mark.parametrize("data", [None, b""])
def test_no_records_are_no_chunk(data: bytes | None) -> None:
    found = collected(data, 7)
    assert (found.chunks, found.next_offset, found.damage) == ((), 7, None)


@pytest.mark.parametrize("cut", [1, 11, 12, 40, 60])
def test_a_cut_tail_is_fetched_again(cut: int) -> None:
    data = records(0, 3) + records(3, 3)[:cut]
    found = collected(data)
    assert offsets(found) == [0, 1, 2]
    assert found.next_offset == 3
    assert glance(data, 0).next_offset == 3


def test_a_first_entry_that_is_cut_is_told() -> None:
    assert glance(records(5, 3)[:-1], 5) == (5, None)
    assert not collected(records(5, 3)[:-1], 5).chunks


@pytest.mark.parametrize(("magic", "codec"), [(0, Codec.NONE), (1, Codec.GZIP), (2, Codec.ZSTD)])
def test_a_glance_promises_what_decoding_keeps(magic: int, codec: Codec) -> None:
    data = b"".join(records(first, 10, magic=magic, codec=codec) for first in (0, 10, 20))
    assert glance(data, 4).next_offset == collected(data, 4).next_offset == 30


def test_damage_comes_behind_what_is_sound_and_is_named() -> None:
    rest = flipped(records(3, 4), 70) + records(7, 1)
    found = collected(records(0, 3) + rest)
    assert (offsets(found), found.next_offset, found.damage) == ([0, 1, 2], 3, None)
    found = collected(rest, 3)
    assert (offsets(found), found.next_offset) == ([], 3)
    assert found.damage is not None
    assert (found.damage.offset, found.damage.next_offset) == (3, 7)
    assert "t-0 at offset 3" in str(found.damage)
    assert "skip() goes on at offset 7" in str(found.damage)


def test_damage_at_the_position_moves_nothing() -> None:
    found = collected(flipped(records(3, 4), 70), 5)
    assert (found.chunks, found.next_offset) == ((), 5)
    assert found.damage is not None
    assert (found.damage.offset, found.damage.next_offset) == (5, 7)


def test_offsets_of_damaged_bytes_are_not_believed_beyond_the_logs_end() -> None:
    broken = bytearray(flipped(records(3, 4), 70))
    broken[23:27] = struct.pack(">i", 1_000_000)  # the last offset's delta
    found = collected(bytes(broken), 3, high_watermark=8)
    assert found.damage is not None
    assert found.damage.next_offset == 4


def test_checksums_are_looked_at_only_on_request() -> None:
    broken = flipped(records(0, 2), 80)
    assert collected(broken).damage is not None
    assert collected(broken, config=FetchConfig(check_crcs=False)).damage is None


def test_offsets_that_compaction_emptied_are_passed() -> None:
    emptied = bytearray(records(5, 3))[:61]
    emptied[8:12] = struct.pack(">i", 61 - 12)
    emptied[57:61] = bytes(4)
    found = collected(resealed(emptied), 5)
    assert (found.chunks, found.next_offset) == ((), 8)


def test_aborted_transactions_are_hidden_from_readers_of_what_is_committed() -> None:
    stamp = {"producer_id": 77, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = records(0, 2) + records(2, 2, **stamp) + records(4, 2)
    listed = [AbortedTransaction(producer_id=77, first_offset=2)]
    committed = FetchConfig(isolation_level=IsolationLevel.READ_COMMITTED)
    assert offsets(collected(data, config=committed, aborted_transactions=listed)) == [0, 1, 4, 5]
    assert offsets(collected(data, aborted_transactions=listed)) == list(range(6))


def test_headers_are_a_column_on_request() -> None:
    (chunk,) = collected(records(0, 1), config=FetchConfig(include_headers=True)).chunks
    assert chunk.batch.column_names[-1] == "headers"


def test_only_so_much_is_decompressed_and_the_rest_is_left_to_the_next_answer() -> None:
    data = b"".join(records(first, 10, size=300, codec=Codec.GZIP) for first in (0, 10, 20))
    found = collected(data, 5, bytes_max=7000)
    assert (offsets(found), found.next_offset) == (list(range(5, 20)), 20)
    assert 0 < found.used_bytes < len(data)


def test_a_batch_that_alone_is_larger_than_that_is_decoded_alone() -> None:
    data = b"".join(records(first, 10, size=300, codec=Codec.GZIP) for first in (0, 10))
    found = collected(data, 5, bytes_max=1000)
    assert (offsets(found), found.next_offset, found.damage) == (list(range(5, 10)), 10, None)


def test_a_broker_may_send_as_much_as_it_likes_from_below_the_position() -> None:
    data = b"".join(records(first, 10, size=300, codec=Codec.GZIP) for first in (0, 10, 20, 30))
    found = collected(data, 25, bytes_max=4000)
    assert (offsets(found), found.next_offset) == (list(range(25, 30)), 30)


WHOLE = FetchConfig(whole_batches_min_bytes=500, include_headers=True)


def shapes(found: Collected) -> list[tuple[bool, int, int]]:
    """Of each chunk: whether its batches came as they are, where it begins, where it ends."""
    return [(is_whole(one.batch), one.fetch_offset, one.next_offset) for one in found.chunks]


def test_large_batches_come_as_they_are_and_others_as_columns_between_them() -> None:
    parts = [records(0, 2, size=300), records(2, 1), records(3, 1), records(4, 3, size=300)]
    found = collected(b"".join(parts), config=WHOLE)
    assert shapes(found) == [(True, 0, 2), (False, 2, 4), (True, 4, 7)]
    assert offsets(found) == [0, 2, 3, 4]
    assert found.chunks[2].batch.column("batch")[0].as_py() == parts[3]
    assert (found.next_offset, found.used_bytes) == (7, sum(map(len, parts)))
    # The first one was read in part.
    assert shapes(collected(b"".join(parts), 1, WHOLE)) == [(False, 1, 4), (True, 4, 7)]


def test_damage_behind_batches_that_stay_whole_is_left_to_the_next_answer() -> None:
    sound, broken = records(0, 2, size=300), flipped(records(2, 2, size=300), 80)
    found = collected(sound + broken, config=WHOLE)
    assert (shapes(found), found.next_offset, found.damage) == ([(True, 0, 2)], 2, None)
    found = collected(broken, 2, WHOLE)
    assert not found.chunks
    assert found.damage is not None
    assert (found.damage.offset, found.damage.next_offset) == (2, 4)


def test_aborted_transactions_are_not_among_batches_that_stay_whole() -> None:
    """The producer goes on behind the marker, in a transaction that is committed."""
    stamp = {"producer_id": 77, "producer_epoch": 0, "base_sequence": 0, "transactional": True, "size": 300}
    data = records(0, 2, size=300) + records(2, 2, **stamp) + marker(77, base_offset=4, kind=0)
    data += records(5, 1) + records(6, 1) + records(7, 2, **stamp) + marker(77, base_offset=9, kind=1)
    listed = [AbortedTransaction(producer_id=77, first_offset=2)]
    committed = replace(WHOLE, isolation_level=IsolationLevel.READ_COMMITTED)
    found = collected(data, config=committed, aborted_transactions=listed)
    assert shapes(found) == [(True, 0, 2), (False, 2, 7), (True, 7, 10)]
    assert offsets(found) == [0, 5, 6, 7]
    assert offsets(collected(data, config=WHOLE, aborted_transactions=listed)) == [0, 2, 5, 6, 7]
