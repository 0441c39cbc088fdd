"""The encode kernels' answers where the caller broke a promise, and what they write."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ottla.kernels import layout
from ottla.model import record_layout
from ottla.model.errors import LocalProtocolError
from ottla.records import builder
from ottla.records.builder import encode
from ottla.records.inputs import record_bytes_max
from ottla.records.reader import decode


def test_a_kernel_that_ran_out_of_room_is_a_bug_of_ours() -> None:
    with pytest.raises(AssertionError, match="room was computed too small"):
        builder._raise_unless_ok(layout.FULL, np.zeros(2, np.int64))
    with pytest.raises(LocalProtocolError, match="record 3 cannot be encoded"):
        builder._raise_unless_ok(layout.BAD_FIELD, np.array([0, 3]))


def test_the_room_that_is_computed_is_enough_for_the_worst_records() -> None:
    """Every varint at its longest: times far apart, many records, keys and values of awkward lengths."""
    far = (1 << 61) - 1
    for size in (0, 1, 63, 64, 8191, 8192):
        times = [far, -far] * 20
        columns = pa.table({"value": [bytes(size)] * 40, "key": [None, b""] * 20, "timestamp": times})
        for batch_bytes in (1, 61, 100, 122, 123, 300, 10_000, 1 << 20):
            views = encode(columns, batch_bytes=batch_bytes)
            assert decode(b"".join(views)).batch.num_rows == 40


def test_the_room_of_a_record_covers_its_headers() -> None:
    pairs = [{"key": "", "value": None}] * 200
    columns = pa.table({"value": [b""] * 20, "headers": [pairs] * 20})
    for batch_bytes in (1, 500, 1 << 20):
        views = encode(columns, batch_bytes=batch_bytes)
        found = decode(b"".join(views), headers=True).batch
        assert len(found.column("headers").flatten()) == 4000


def test_no_record_takes_more_than_its_share() -> None:
    assert record_bytes_max(10) == 10 * record_layout.RECORD_OVERHEAD_MAX
