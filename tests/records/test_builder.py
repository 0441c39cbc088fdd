"""Arrow columns into record sets: round trips, the naive encoder, inputs of any shape, stamps, refusals."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernels import kernel
from ottla.model.errors import ConfigError, LocalProtocolError, OttlaError
from ottla.records.builder import BATCH_BYTES_MAX, Numbering, Stamp, encode
from ottla.records.columns import HEADERS, SCHEMA_WITH_HEADERS
from ottla.records.compression import Codec
from ottla.records.reader import decode
from ottla.records.slabs import SlabPool
from tests.naive import record_set
from tests.naive.comparison import assert_agreement, records_of
from tests.naive.record_set import Record
from tests.naive.spec_examples import MESSAGES, TIME
from tests.naive.strategies import TIMESTAMPS, VALUES

Row = tuple[Any, ...]
"""Key, value, timestamp, headers."""

LIMIT = 1 << 61
PAIRS = [
    (magic, codec) for magic, codec in product((0, 1, 2), Codec) if magic == 2 or codec is not Codec.ZSTD
]
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
each_pair = pytest.mark.parametrize(
    ("magic", "codec"), PAIRS, ids=lambda value: getattr(value, "label", str(value))
)

headers = st.lists(st.tuples(st.text(max_size=4), VALUES), max_size=3)
rows = st.lists(st.tuples(VALUES, VALUES, st.none() | TIMESTAMPS, headers), max_size=12)


def table(rows: list[Row], *, with_headers: bool = True) -> pa.RecordBatch:
    """Columns of (key, value, timestamp, headers)."""
    columns = {
        "key": pa.array([row[0] for row in rows], pa.binary()),
        "value": pa.array([row[1] for row in rows], pa.binary()),
        "timestamp": pa.array([row[2] for row in rows], pa.int64()),
    }
    if with_headers:
        pairs = [[{"key": key, "value": value} for key, value in row[3]] for row in rows]
        columns["headers"] = pa.array(pairs, HEADERS)
    return pa.RecordBatch.from_pydict(columns)


def wanted(rows: list[Row], magic: int, first: int = 0) -> list[Record]:
    """What a reader should see of them."""
    found = []
    for n, (key, value, timestamp, pairs) in enumerate(rows, first):
        present = None if timestamp == -1 or magic == 0 else timestamp
        kind = -1 if magic == 0 else 0
        found.append(Record(n, present, kind, key, value, tuple(pairs) if magic == 2 else ()))
    return found


def joined(views: list[memoryview]) -> bytes:
    return b"".join(views)


def values_of(columns: pa.RecordBatch | pa.Table, **options: Any) -> list[bytes | None]:
    return decode(joined(encode(columns, **options))).batch.column("value").to_pylist()


# ---- round trips


@each_pair
@given(
    rows=rows, batch_bytes=st.sampled_from([1, 70, 150, 400, 1 << 20]), first=st.sampled_from([0, 5, 1 << 40])
)
def test_any_columns_survive_the_round_trip(
    magic: int, codec: Codec, rows: list[Row], batch_bytes: int, first: int
) -> None:
    columns = table(rows, with_headers=magic == 2)
    views = encode(columns, magic=magic, codec=codec, batch_bytes=batch_bytes, stamp=Stamp(base_offset=first))
    data = joined(views)
    outcome = assert_agreement(data, headers=True)
    assert outcome.damage is None
    assert outcome.records == wanted(rows, magic, first)
    assert outcome.valid_bytes == len(data)


@given(rows=rows)
def test_the_bytes_are_those_of_the_naive_encoder(rows: list[Row]) -> None:
    data = joined(encode(table(rows)))
    if not rows:
        assert data == b""
        return
    times = [-1 if row[2] is None else row[2] for row in rows]
    naive = [
        record_set.record(
            n,
            key,
            value,
            timestamp_delta=times[n] - times[0],
            headers=[(name.encode(), content) for name, content in pairs],
        )
        for n, (key, value, _, pairs) in enumerate(rows)
    ]
    assert data == record_set.batch(naive, base_timestamp=times[0], max_timestamp=max(times))


@pytest.mark.parametrize("magic", [0, 1])
@given(rows=rows)
def test_messages_are_those_of_the_naive_encoder(magic: int, rows: list[Row]) -> None:
    data = joined(encode(table(rows, with_headers=False), magic=magic))
    naive = [
        record_set.message(magic, n, key, value, timestamp=-1 if timestamp is None else timestamp)
        for n, (key, value, timestamp, _) in enumerate(rows)
    ]
    assert data == b"".join(naive)


@pytest.mark.parametrize(("encoded", "record"), MESSAGES)
def test_messages_of_the_spec_are_written(encoded: str, record: Record) -> None:
    magic = {-1: 0, 0: 1}[record.timestamp_type] if not record.headers else 2
    columns = table([(record.key, record.value, record.timestamp, record.headers)], with_headers=magic == 2)
    views = encode(columns, magic=magic, stamp=Stamp(base_offset=record.offset))
    assert joined(views).hex() == encoded.replace(" ", "")


@each_pair
def test_what_was_decoded_can_be_encoded_again(magic: int, codec: Codec) -> None:
    original: list[Row] = [(b"k%d" % n, b"v" * n, TIME + n, []) for n in range(30)]
    first = decode(joined(encode(table(original, with_headers=False), magic=magic, codec=codec))).batch
    again = decode(joined(encode(first, magic=magic, codec=codec))).batch
    assert again.equals(first)


def test_what_was_decoded_with_headers_can_be_encoded_again() -> None:
    original = [
        (b"k", b"v", TIME, [("a", b"1"), ("b", None)]),
        (None, None, None, []),
        (b"", b"", 5, [("", b"")]),
    ]
    first = decode(joined(encode(table(original))), headers=True).batch
    assert first.schema == SCHEMA_WITH_HEADERS
    assert decode(joined(encode(first)), headers=True).batch.equals(first)
    assert records_of(decode(joined(encode(first.slice(1))), headers=True).batch)[1].headers == (("", b""),)


@each_pair
def test_many_records_of_many_lengths_survive_the_round_trip(magic: int, codec: Codec) -> None:
    count = 50_000 if kernel.JIT else 500
    text = bytes(range(256)) * 2
    keys = pa.array([None if n % 7 == 0 else text[: n % 70] for n in range(count)], pa.binary())
    values = pa.array([None if n % 11 == 0 else text[n % 9 : n % 331] for n in range(count)], pa.binary())
    times = pa.array([TIME + n * n % 1009 for n in range(count)], pa.int64())
    columns = pa.table({"key": keys, "value": values, "timestamp": times})
    data = joined(encode(columns, magic=magic, codec=codec, batch_bytes=200_000))
    found = decode(data).batch
    found.validate(full=True)
    assert found.column("key").equals(keys)
    assert found.column("value").equals(values)
    assert found.column("offset").equals(pa.array(range(count), pa.int64()))
    if magic:
        assert found.column("timestamp").cast(pa.int64()).equals(times)


def test_a_view_is_a_whole_batch_within_its_bytes() -> None:
    columns = table([(b"k", bytes(50), TIME, [])] * 100)
    views = encode(columns, batch_bytes=500)
    assert len(views) > 10
    assert all(len(view) <= 500 for view in views)
    assert all(len(decode(view).batch) for view in views)
    larger = encode(
        table([(None, b"s", 0, []), (None, bytes(900), 0, []), (None, b"s", 0, [])]), batch_bytes=100
    )
    assert [decode(view).batch.num_rows for view in larger] == [1, 1, 1]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_cut_by_bytes_too(magic: int) -> None:
    columns = table([(b"k", bytes(50), TIME, [])] * 100, with_headers=False)
    for codec in (Codec.NONE, Codec.GZIP):
        views = encode(columns, magic=magic, codec=codec, batch_bytes=1000)
        assert len(views) >= 8
        assert [one.offset for one in records_of(decode(joined(views)).batch)] == [*range(100)]
    assert all(len(view) <= 1000 for view in encode(columns, magic=magic, batch_bytes=1000))


@each_pair
def test_views_for_requests_are_numbered_from_0_each(magic: int, codec: Codec) -> None:
    columns = pa.table({"value": [b"v%030d" % n for n in range(100)]})
    stamp = Stamp(producer_id=7, producer_epoch=0, base_sequence=5)
    views = encode(
        columns, magic=magic, codec=codec, batch_bytes=500, stamp=stamp, numbering=Numbering.REQUEST
    )
    assert len(views) > 3
    pieces = [records_of(decode(view).batch) for view in views]  # whose checksums `decode` has verified
    for piece in pieces:
        assert [one.offset for one in piece] == [*range(len(piece))]
    assert [one.value for piece in pieces for one in piece] == columns.column("value").to_pylist()
    if magic == 2:
        sequences = [struct.unpack_from(">i", view, 53)[0] for view in views]
        counts = [len(piece) for piece in pieces]
        assert sequences == [5 + sum(counts[:n]) for n in range(len(counts))]


def test_a_request_has_no_base_offset() -> None:
    with pytest.raises(ConfigError, match="base_offset 3 is for a log"):
        encode(pa.table({"value": [b"v"]}), stamp=Stamp(base_offset=3), numbering=Numbering.REQUEST)


@pytest.mark.parametrize(
    "size", [0, 1, 60, 61, 62, 63, 64, 65, 66, 8100, 8185, 8186, 8187, 8190, 8192, 1_100_000]
)
def test_lengths_around_every_varint_width_are_right(size: int) -> None:
    if size > 10_000 and not kernel.JIT:
        size = 20_000
    rows: list[Row] = [
        (None, b"a", 0, []),
        (None, bytes(size), 0, []),
        (bytes(size), b"b", 0, []),
        (None, b"c", 0, []),
    ]
    assert assert_agreement(joined(encode(table(rows)))).records == wanted(rows, 2)


def test_times_far_apart_fit_into_one_batch() -> None:
    rows: list[Row] = [(None, None, at, []) for at in (0, LIMIT - 1, -LIMIT + 1, -1, 7)]
    assert assert_agreement(joined(encode(table(rows)))).records == wanted(rows, 2)


def test_nothing_becomes_nothing() -> None:
    empty = table([])
    for magic, codec in PAIRS:
        columns = empty if magic == 2 else empty.select(["key", "value"])
        assert encode(columns, magic=magic, codec=codec) == []
    assert encode(pa.table({"value": pa.chunked_array([], pa.binary())})) == []


# ---- inputs of any shape

TEXTS = ["a", None, "", "é€😀", "x" * 200, None]
BYTES = [None if text is None else text.encode() for text in TEXTS]
KINDS = [
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.binary())),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bytes_and_text_of_any_arrow_type_are_taken(kind: pa.DataType) -> None:
    for array in (
        pa.array(TEXTS, pa.string()).cast(kind),
        pa.chunked_array([pa.array(TEXTS, pa.string()).cast(kind)]),
    ):
        for column in ("key", "value"):
            columns = pa.table({"value": BYTES, column: array})
            found = decode(joined(encode(columns))).batch.column(column)
            assert found.to_pylist() == BYTES


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_slices_of_any_arrow_type_are_taken(kind: pa.DataType) -> None:
    array = pa.array(TEXTS * 4, pa.string()).cast(kind)
    for start, length in ((0, 0), (1, 1), (3, 9), (7, 17), (23, 1)):
        assert (
            values_of(pa.table({"value": array.slice(start, length)})) == (BYTES * 4)[start : start + length]
        )


def test_fixed_size_bytes_are_taken() -> None:
    array = pa.array([b"abc", None, b"xyz"], pa.binary(3))
    assert values_of(pa.table({"value": array})) == [b"abc", None, b"xyz"]


def test_chunks_are_joined_in_order() -> None:
    chunks = [
        pa.array(BYTES[:2], pa.binary()),
        pa.array([], pa.binary()),
        pa.array(BYTES, pa.binary()).slice(2),
    ]
    assert values_of(pa.table({"value": pa.chunked_array(chunks)})) == BYTES


def test_a_column_of_nulls_has_no_bytes() -> None:
    assert values_of(pa.table({"value": pa.nulls(3)})) == [None] * 3
    assert values_of(pa.table({"value": pa.nulls(3, pa.binary())})) == [None] * 3


def test_bytes_under_a_null_are_not_sent() -> None:
    """Arrow allows a null to have a length."""
    ends, data = struct.pack("<4i", 0, 3, 6, 9), b"abcdefghi"
    array = pa.Array.from_buffers(
        pa.binary(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(ends), pa.py_buffer(data)]
    )
    for magic in (0, 1, 2):
        assert values_of(pa.table({"value": array}), magic=magic) == [b"abc", None, b"ghi"]


def test_columns_with_other_names_are_ignored() -> None:
    columns = pa.table({"value": [b"v"], "offset": [99], "partition": ["x"], "timestamp_type": [1]})
    assert records_of(decode(joined(encode(columns))).batch) == [Record(0, None, 0, None, b"v")]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([TIME, None], pa.int64()),
        pa.array([TIME, None], pa.timestamp("ms")),
        pa.array([TIME, None], pa.timestamp("ms", "UTC")),
        pa.array([TIME * 1000 + 999, None], pa.timestamp("us")),
        pa.array([TIME * 1_000_000 + 5, None], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([TIME // 1000, None], pa.timestamp("s")),
        pa.array([datetime.fromtimestamp(TIME / 1000, UTC), None]),
    ],
    ids=lambda array: str(array.type),
)
def test_times_of_any_unit_become_milliseconds(array: pa.Array) -> None:
    for times in (
        array,
        pa.chunked_array([array.slice(0, 1), array.slice(1)]),
        pa.concat_arrays([array, array]).slice(2),
    ):
        columns = pa.table({"value": [b"a", b"b"], "timestamp": times})
        for magic in (1, 2):
            found = records_of(decode(joined(encode(columns, magic=magic, timestamp_ms=77))).batch)
            assert [one.timestamp for one in found] == [TIME, 77]


def test_records_without_a_time_get_the_given_one_or_none() -> None:
    columns = pa.table({"value": [b"a", b"b"]})
    for magic in (1, 2):
        stamped = records_of(decode(joined(encode(columns, magic=magic, timestamp_ms=TIME))).batch)
        assert [one.timestamp for one in stamped] == [TIME, TIME]
        assert decode(joined(encode(columns, magic=magic))).batch.column("timestamp").null_count == 2


def test_headers_may_be_null_sliced_chunked_or_of_other_text_types() -> None:
    kind = pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    lists = [[("a", b"1")], None, [], [("b", None), ("c", b"")], [("a", b"1")] * 3]
    pairs = [None if one is None else [{"key": key, "value": value} for key, value in one] for one in lists]
    whole = pa.array(pairs, kind)
    for first in range(5):
        for column in (whole.slice(first), pa.chunked_array([whole.slice(first, 1), whole.slice(first + 1)])):
            columns = pa.table({"value": [b"v"] * (5 - first), "headers": column})
            found = decode(joined(encode(columns)), headers=True)
            assert [one.headers for one in records_of(found.batch)] == [
                tuple(one or ()) for one in lists[first:]
            ]


# ---- stamps


def header_of(view: memoryview) -> tuple[int, ...]:
    """base offset, leader epoch, attributes, last delta, producer id, epoch, sequence, count."""
    offset, _, epoch = struct.unpack_from(">qii", view)
    attributes, last = struct.unpack_from(">hi", view, 21)
    return (offset, epoch, attributes, last, *struct.unpack_from(">qhii", view, 43))


def test_a_plain_batch_has_no_producer() -> None:
    (view,) = encode(table([(b"k", b"v", 1, [])] * 3))
    assert header_of(view) == (0, -1, 0, 2, -1, -1, -1, 3)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_offsets_and_sequences_count_on_over_batches(codec: Codec) -> None:
    stamp = Stamp(base_offset=100, producer_id=7, producer_epoch=3, base_sequence=50, transactional=True)
    views = encode(table([(b"k", bytes(40), 1, [])] * 6), codec=codec, batch_bytes=200, stamp=stamp)
    counts = [header_of(view)[-1] for view in views]
    assert len(counts) > 1
    for n, view in enumerate(views):
        before = sum(counts[:n])
        assert header_of(view) == (
            *(100 + before, -1, 0x10 | codec, counts[n] - 1),
            *(7, 3, 50 + before, counts[n]),
        )
    assert sum(counts) == 6


def test_behind_the_largest_sequence_comes_0() -> None:
    stamp = Stamp(producer_id=1, producer_epoch=0, base_sequence=0x7FFFFFFF - 1)
    views = encode(table([(None, b"v", 1, [])] * 4), batch_bytes=1, stamp=stamp)
    assert [header_of(view)[6] for view in views] == [0x7FFFFFFE, 0x7FFFFFFF, 0, 1]


@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers_are_numbered_as_their_format_wants(magic: int) -> None:
    columns = table([(b"k", b"v", TIME - n, []) for n in range(3)], with_headers=False)
    (view,) = encode(columns, magic=magic, codec=Codec.GZIP, stamp=Stamp(base_offset=8))
    assert struct.unpack_from(">q", view) == (10,)
    assert [one.offset for one in assert_agreement(bytes(view)).records] == [8, 9, 10]
    if magic == 1:
        assert struct.unpack_from(">q", view, 18) == (TIME,)


# ---- what is refused


@pytest.mark.parametrize("magic", [-1, 3, 127])
def test_a_format_that_does_not_exist_is_refused(magic: int) -> None:
    with pytest.raises(ConfigError, match=f"message format {magic} does not exist"):
        encode(table([]), magic=magic)


@pytest.mark.parametrize("size", [0, -1, BATCH_BYTES_MAX + 1])
def test_batches_of_impossible_size_are_refused(size: int) -> None:
    with pytest.raises(ConfigError, match=f"batch_bytes {size} is not within 1 to"):
        encode(table([]), batch_bytes=size)


def test_a_missing_value_column_is_named_with_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"no column 'value' among \['body', 'key'\]"):
        encode(pa.table({"key": [b"k"], "body": [b"v"]}))


@pytest.mark.parametrize("name", ["key", "value"])
def test_columns_that_hold_no_bytes_are_refused(name: str) -> None:
    columns = pa.table({"value": [b"v"], name: pa.array([[1]], pa.list_(pa.int8()))})
    with pytest.raises(ConfigError, match=f"column '{name}' of type list.* does not hold bytes"):
        encode(columns)


def test_a_timestamp_column_without_times_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"column 'timestamp' of type list.* is no time"):
        encode(pa.table({"value": [b"v"], "timestamp": pa.array([[1]], pa.list_(pa.int8()))}))


def test_a_headers_column_of_another_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="column 'headers' of type int64"):
        encode(pa.table({"value": [b"v"], "headers": [1]}))


def test_a_header_without_a_key_is_refused() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = pa.table({"value": [b"v"], "headers": pa.array([[{"key": None, "value": b"x"}]], kind)})
    with pytest.raises((ConfigError, LocalProtocolError), match="key"):
        encode(columns)


@pytest.mark.parametrize("magic", [0, 1])
def test_headers_in_old_formats_are_refused(magic: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"message format {magic} has no headers"):
        encode(table([(b"k", b"v", 1, [("h", b"x")])]), magic=magic)
    without = table([(b"k", b"v", 1, [])])
    assert encode(without, magic=magic)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_in_old_formats_is_refused(magic: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"zstd needs message format 2, not {magic}"):
        encode(table([(b"k", b"v", 1, [])], with_headers=False), magic=magic, codec=Codec.ZSTD)


@pytest.mark.parametrize("timestamp", [LIMIT, -LIMIT, (1 << 63) - 1])
def test_times_that_no_delta_can_span_are_refused_with_their_record(timestamp: int) -> None:
    with pytest.raises(LocalProtocolError, match="record 1 cannot be encoded"):
        encode(table([(b"k", b"v", 1, []), (b"k", b"v", timestamp, [])]))


def test_a_header_that_is_null_is_refused() -> None:
    with pytest.raises(OttlaError, match="header"):
        encode(pa.table({"value": [b"v"], "headers": pa.array([[None]], pa.list_(PAIR))}))


def test_times_that_milliseconds_cannot_say_are_refused() -> None:
    with pytest.raises(OttlaError, match="timestamp"):
        encode(pa.table({"value": [b"v"], "timestamp": pa.array([1 << 62], pa.timestamp("s"))}))


@pytest.mark.parametrize(
    "kind", [pa.list_view(PAIR), pa.large_list_view(PAIR)], ids=["list_view", "large_list_view"]
)
def test_headers_in_list_views_are_sent_or_refused(kind: pa.DataType) -> None:
    """pyarrow 26 loses lists when it casts them to `list`."""
    pairs = [[{"key": "a", "value": b"1"}], [{"key": "b", "value": b"2"}]]
    columns = pa.table({"value": [b"v", b"w"], "headers": pa.array(pairs, kind)})
    try:
        data = joined(encode(columns))
    except ConfigError:
        return
    assert [one.headers for one in assert_agreement(data, headers=True).records] == [
        (("a", b"1"),),
        (("b", b"2"),),
    ]


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="value"):
        encode(pa.Table.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["value", "value"]))


@pytest.mark.parametrize(
    ("name", "value"),
    [("producer_epoch", 1 << 15), ("base_sequence", 1 << 31), ("base_offset", -5), ("producer_id", 1 << 63)],
)
def test_stamps_that_do_not_fit_their_fields_are_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{name} {value} is not within"):
        Stamp(**{name: value})  # type: ignore[arg-type]


def test_a_default_time_that_does_not_fit_is_refused() -> None:
    with pytest.raises(OttlaError):
        encode(pa.table({"value": [b"v"]}), timestamp_ms=1 << 70)


def test_a_headers_column_of_nulls_means_no_headers() -> None:
    data = joined(encode(pa.table({"value": [b"v"], "headers": pa.nulls(1)})))
    assert assert_agreement(data, headers=True).records[0].headers == ()


# ---- lifetime


def test_views_stay_as_they_are_while_slabs_are_used_again() -> None:
    pool = SlabPool(reserve_bytes=1 << 20)
    held = encode(table([(b"k", b"value", TIME, [])] * 20), pool=pool)[0]
    copy = bytes(held)
    for n in range(50):
        encode(table([(b"\xee" * 30, b"\xdd" * 70, n, [])] * 20), pool=pool)
    assert bytes(held) == copy


def test_views_can_be_sent_but_not_changed() -> None:
    for magic, codec in PAIRS:
        (view,) = encode(table([(b"k", b"v", 1, [])], with_headers=False), magic=magic, codec=codec)
        assert view.c_contiguous
        assert view.readonly
