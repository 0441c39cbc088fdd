"""Record sets for Hypothesis: any mixture of formats, codecs and kinds of entries, offsets ascending."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from ottla.records.compression import Codec
from tests.naive import record_set

# Lengths around the ends of varint sizes and of the blocks in which kernels copy.
SIZES = st.sampled_from([0, 1, 2, 31, 32, 63, 64, 65, 127, 128, 129, 200])
VALUES = st.none() | st.binary(max_size=12) | SIZES.map(lambda size: bytes(range(256))[:size])
TIMESTAMPS = st.sampled_from([-1, 0, 1, 1_500_000_000_000, -(1 << 40), (1 << 61) - 1]) | st.integers(
    -(1 << 45), 1 << 45
)
HEADERS = st.lists(st.tuples(st.text(max_size=5).map(str.encode), VALUES), max_size=3)
LEGACY_CODECS = st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
CODECS = st.sampled_from([Codec.NONE, Codec.NONE, *Codec])


@st.composite
def batches(draw: Callable[..., Any], base_offset: int) -> tuple[bytes, int]:
    """A batch of format 2 and the offset behind it; with gaps, as compaction leaves them."""
    deltas = sorted(draw(st.sets(st.integers(0, 300), max_size=5)))
    base_timestamp = draw(TIMESTAMPS)
    records = [
        record_set.record(
            delta,
            draw(VALUES),
            draw(VALUES),
            timestamp_delta=draw(st.integers(-200, 200)),
            headers=draw(HEADERS),
        )
        for delta in deltas
    ]
    last_delta = (deltas[-1] if deltas else 0) + draw(st.sampled_from([0, 0, 0, 1, 20]))
    attributes = draw(st.sampled_from([0, 0, 0, 0x08, 0x10, 0x10, 0x18, 0x40]))
    data = record_set.batch(
        records,
        base_offset=base_offset,
        last_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=draw(TIMESTAMPS),
        attributes=attributes,
        codec=draw(CODECS),
        producer_id=draw(st.integers(0, 2)),
    )
    return data, base_offset + last_delta + 1


@st.composite
def markers(draw: Callable[..., Any], base_offset: int) -> tuple[bytes, int]:
    """The end of a transaction."""
    producer_id, kind = draw(st.integers(0, 2)), draw(st.integers(0, 1))
    return record_set.marker(producer_id, base_offset=base_offset, kind=kind), base_offset + 1


@st.composite
def message_runs(draw: Callable[..., Any], base_offset: int) -> tuple[bytes, int]:
    """Messages of format 0 or 1, alone or in a wrapper."""
    magic, codec = draw(st.integers(0, 1)), draw(LEGACY_CODECS)
    gaps = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    offsets = [base_offset + sum(gaps[: n + 1]) + n for n in range(len(gaps))]
    attributes = draw(st.sampled_from([0, 0, 0x08])) if magic else 0
    relative = magic == 1 and codec is not Codec.NONE
    messages = [
        record_set.message(
            magic,
            offset - offsets[0] if relative else offset,
            draw(VALUES),
            draw(VALUES),
            timestamp=draw(TIMESTAMPS),
            attributes=attributes if codec is Codec.NONE else 0,
        )
        for offset in offsets
    ]
    if codec is Codec.NONE:
        return b"".join(messages), offsets[-1] + 1
    wrapper = record_set.wrapper(
        magic, offsets[-1], messages, codec, timestamp=draw(TIMESTAMPS), attributes=attributes
    )
    return wrapper, offsets[-1] + 1


@st.composite
def record_sets(draw: Callable[..., Any], max_entries: int = 5) -> bytes:
    """Sound record sets."""
    offset = draw(st.sampled_from([0, 0, 3, 1 << 40]))
    parts = []
    for _ in range(draw(st.integers(0, max_entries))):
        kind = draw(st.sampled_from([batches, batches, message_runs, message_runs, markers]))
        data, offset = draw(kind(offset))
        parts.append(data)
    return b"".join(parts)


ABORTED = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2)), max_size=3)
