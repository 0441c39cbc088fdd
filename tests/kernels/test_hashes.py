"""Hashes over Arrow columns against the naive ones and the spec's vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import kernels
from tests.naive import hashes
from tests.naive.spec_examples import JAVA, MURMUR2


def hashed(column: Callable[..., object], values: list[bytes], shift: int = 0) -> list[int]:
    """The hashes of a column that begins `shift` bytes into its data."""
    data = np.frombuffer(b"\xaa" * shift + b"".join(values), np.uint8)
    ends = np.cumsum([shift, *map(len, values)]).astype(np.int32)
    for array in (data, ends):
        array.flags.writeable = False
    out = np.zeros(len(values), np.int32)
    column(ends, data, out)
    return out.tolist()


def test_java_hashes_are_those_of_the_spec() -> None:
    texts, wanted = zip(*JAVA, strict=True)
    assert hashed(kernels.path().java_hash_column, [text.encode() for text in texts]) == list(wanted)
    assert [hashes.java_hash(text) for text in texts] == list(wanted)


def test_murmur2_is_kafkas() -> None:
    keys, wanted = zip(*MURMUR2, strict=True)
    assert hashed(kernels.path().murmur2_column, list(keys)) == list(wanted)
    assert [hashes.murmur2(key) for key in keys] == list(wanted)


def test_the_naive_placements_are_those_of_the_spec() -> None:
    groups = ["test", "my-group", "group1", "console-consumer-12345", "polygenelubricants"]
    assert [hashes.offsets_partition(group) for group in groups] == [48, 12, 40, 6, 0]
    places = {("topic1", 0): "0002", ("topic1", 1): "0121", ("mytest", 0): "0012", ("mytest", 3): "0111"}
    for place, wanted in places.items():
        assert "".join(str(hashes.fetcher_id(*place, count)) for count in (1, 2, 3, 4)) == wanted


@given(keys=st.lists(st.binary(max_size=40), max_size=10), shift=st.integers(0, 9))
def test_murmur2_of_any_column_is_the_naive_one(keys: list[bytes], shift: int) -> None:
    assert hashed(kernels.path().murmur2_column, keys, shift) == [hashes.murmur2(key) for key in keys]


@given(texts=st.lists(st.text(max_size=20), max_size=10), shift=st.integers(0, 9))
def test_the_java_hash_of_any_text_is_the_naive_one(texts: list[str], shift: int) -> None:
    wanted = [hashes.java_hash(text) for text in texts]
    assert hashed(kernels.path().java_hash_column, [text.encode() for text in texts], shift) == wanted


@pytest.mark.parametrize(
    "text", ["\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff", "😀" * 9, "é€", "\0"], ids=repr
)
def test_characters_of_every_width_count_as_java_counts_them(text: str) -> None:
    assert hashed(kernels.path().java_hash_column, [text.encode()]) == [hashes.java_hash(text)]
