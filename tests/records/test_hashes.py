"""Java's hashes of single values and columns: the spec's vectors, and the naive ones for everything else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.errors import ConfigError
from ottla.records import hashes
from tests.naive import hashes as naive
from tests.naive.spec_examples import JAVA, MURMUR2

texts = st.lists(st.none() | st.text(max_size=12), max_size=8)
keys = st.lists(st.none() | st.binary(max_size=20), max_size=8)


@pytest.mark.parametrize(("text", "wanted"), JAVA)
def test_java_hashes_are_those_of_the_spec(text: str, wanted: int) -> None:
    assert hashes.java_hash(text) == wanted
    assert hashes.java_hash_column(pa.array([text, None])).to_pylist() == [wanted, None]


@pytest.mark.parametrize(("key", "wanted"), MURMUR2)
def test_murmur2_is_kafkas(key: bytes, wanted: int) -> None:
    assert hashes.murmur2(key) == wanted
    assert hashes.murmur2_column(pa.array([None, key])).to_pylist() == [None, wanted]


def test_fetchers_are_those_of_the_spec() -> None:
    places = {("topic1", 0): "0002", ("topic1", 1): "0121", ("mytest", 0): "0012", ("mytest", 3): "0111"}
    for (topic, partition), wanted in places.items():
        found = [hashes.fetcher_id(topic, partition, count) for count in (1, 2, 3, 4)]
        assert "".join(map(str, found)) == wanted


def test_the_smallest_number_has_no_positive_twin() -> None:
    assert hashes.java_abs(-(1 << 31)) == 0
    assert hashes.java_abs(-(1 << 31) + 1) == (1 << 31) - 1
    assert hashes.java_abs(hashes.java_hash("polygenelubricants")) % 50 == 0


@given(text=st.text(), key=st.binary(), partition=st.integers(0, 2**31 - 1), count=st.integers(1, 9))
def test_single_values_hash_as_the_naive_ones(text: str, key: bytes, partition: int, count: int) -> None:
    assert hashes.java_hash(text) == naive.java_hash(text)
    assert hashes.murmur2(key) == naive.murmur2(key)
    assert hashes.key_partition(key, count) == (naive.murmur2(key) & 0x7FFFFFFF) % count
    assert hashes.fetcher_id(text, partition, count) == naive.fetcher_id(text, partition, count)


@given(values=texts, first=st.integers(0, 3))
def test_text_columns_hash_as_single_values(values: list[str | None], first: int) -> None:
    wanted = [None if value is None else naive.java_hash(value) for value in values][first:]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        column = pa.array(values, pa.string()).cast(kind).slice(first)
        assert hashes.java_hash_column(column).to_pylist() == wanted
        assert hashes.java_hash_column(pa.chunked_array([column], kind)).to_pylist() == wanted


@given(values=keys, first=st.integers(0, 3), count=st.integers(1, 100))
def test_key_columns_hash_as_single_values(values: list[bytes | None], first: int, count: int) -> None:
    whole = pa.array(values, pa.binary())
    for column in (whole.slice(first), pa.chunked_array([whole.slice(first, 2), whole.slice(first + 2)])):
        rest = values[first:]
        assert hashes.murmur2_column(column).to_pylist() == [
            None if value is None else naive.murmur2(value) for value in rest
        ]
        assert hashes.key_partition_column(column, count).to_pylist() == [
            None if value is None else (naive.murmur2(value) & 0x7FFFFFFF) % count for value in rest
        ]


@given(
    rows=st.lists(st.tuples(st.text(max_size=12), st.integers(0, 2**31 - 1)), max_size=8),
    count=st.integers(1, 9),
)
def test_fetchers_of_columns_are_those_of_single_partitions(rows: list[tuple[str, int]], count: int) -> None:
    topics = pa.array([topic for topic, _ in rows], pa.string())
    partitions = pa.array([partition for _, partition in rows], pa.int32())
    assert hashes.fetcher_id_column(topics, partitions, count).to_pylist() == [
        naive.fetcher_id(topic, partition, count) for topic, partition in rows
    ]


@pytest.mark.parametrize("count", [0, -1])
def test_a_count_that_leaves_nowhere_to_go_is_refused(count: int) -> None:
    for call in (
        lambda: hashes.key_partition(b"k", count),
        lambda: hashes.key_partition_column(pa.array([b"k"]), count),
        lambda: hashes.fetcher_id("t", 0, count),
        lambda: hashes.fetcher_id_column(pa.array(["t"]), pa.array([0]), count),
    ):
        with pytest.raises(ConfigError, match=f"a count of {count}"):
            call()
