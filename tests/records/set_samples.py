"""Record sets for the tests of the reader."""

from __future__ import annotations

from ottla.records.compression import Codec
from tests.naive.record_set import (
    batch,
    marker,
    message,
    record,
    wrapper,
)
from tests.naive.spec_examples import TIME
from tests.records.codec_samples import COMPRESSING


def records(count: int, first: int = 0, size: int = 3) -> list[bytes]:
    """Records of format 2 with headers, nulls and growing times."""
    return [
        record(
            n,
            None if n % 3 == 2 else b"k%d" % n,
            None if n % 4 == 3 else b"v" * size,
            timestamp_delta=10 * n,
            headers=[(b"h", b"x"), (b"n", None)][: n % 3],
        )
        for n in range(first, first + count)
    ]


def mixed_set() -> bytes:
    """Every kind of entry, offsets 0 to 37."""
    inner = [message(1, n, b"k", b"v%d" % n, timestamp=TIME + n) for n in range(3)]
    parts = [
        message(0, 0, None, b"hello"),
        message(0, 1, b"k", None),
        wrapper(0, 3, [message(0, n, b"a", b"b") for n in (2, 3)], Codec.GZIP),
        wrapper(0, 5, [message(0, n, b"a", b"b") for n in (4, 5)], Codec.SNAPPY),
        wrapper(0, 7, [message(0, n, b"a", b"b") for n in (6, 7)], Codec.LZ4),
        message(1, 8, b"k", b"v", timestamp=TIME),
        wrapper(1, 11, inner, Codec.GZIP, timestamp=TIME + 2),
        wrapper(1, 14, inner, Codec.SNAPPY, timestamp=TIME + 2),
        wrapper(1, 17, inner, Codec.LZ4, timestamp=TIME + 50, attributes=0x08),
        batch(records(3), base_offset=18, base_timestamp=TIME),
        marker(1, base_offset=21, kind=1),
        batch(base_offset=22, last_delta=3),
        *(batch(records(2), base_offset=26 + 2 * n, codec=codec) for n, codec in enumerate(COMPRESSING)),
        batch(records(2), base_offset=34, attributes=0x08, max_timestamp=TIME),
        message(1, 36, None, b"", timestamp=-1, attributes=0x08),
        message(0, 37, b"", b"last"),
    ]
    return b"".join(parts)
