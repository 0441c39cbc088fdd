"""Which rows are repeats: told by their last header, within one partition of a topic."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from ottla.records.columns import HEADERS
from ottla.spark.row_identity import NAME, RepeatFilter, TaskIdentity, partitioned_by_identity, with_identity


def batch(identities: Sequence[str | None]) -> pa.RecordBatch:
    rows = [[("other", b"x")] + ([(NAME, one.encode())] if one is not None else []) for one in identities]
    lists = pa.array([[{"key": key, "value": value} for key, value in row] for row in rows], HEADERS)
    return pa.record_batch({"offset": pa.array(range(len(identities)), pa.int64()), "headers": lists})


def kept(rows: RepeatFilter, identities: Sequence[str | None]) -> list[int]:
    return rows.first_seen(batch(identities)).column("offset").to_pylist()


def test_headers_get_one_more() -> None:
    task = TaskIdentity("q", 7, 3)
    alone = with_identity(None, task, 10, 2).to_pylist()
    assert alone == [[{"key": NAME, "value": b"q/7/3/10"}], [{"key": NAME, "value": b"q/7/3/11"}]]
    given = pa.array([[{"key": "a", "value": None}], None, []], HEADERS)
    got = with_identity(given, task, 0, 3).to_pylist()
    assert [[pair["key"] for pair in row] for row in got] == [["a", NAME], [NAME], [NAME]]
    assert got[2][-1]["value"] == b"q/7/3/2"
    assert with_identity(given[:0], task, 0, 0).to_pylist() == []


def test_repeats_go_and_all_else_stays() -> None:
    rows = RepeatFilter()
    assert kept(rows, ["q/0/0/0", "q/0/0/5", None, "q/0/1/0", "q/0/0/5", "r/0/0/5"]) == [0, 1, 2, 3, 5]
    assert kept(rows, ["q/0/0/0", "q/0/0/5", "q/0/0/6", "q/1/0/0", "q/1/0/0"]) == [2, 3]
    assert kept(rows, [None, None]) == [0, 1]
    assert kept(rows, ["no identity", "q/x/y/z", "\udcff".encode("utf-8", "replace").decode()]) == [0, 1, 2]


def test_a_header_of_that_name_that_is_not_the_last_is_the_users() -> None:
    lists = pa.array([[{"key": NAME, "value": b"q/0/0/0"}, {"key": "z", "value": b""}]] * 2, HEADERS)
    records = pa.record_batch({"offset": pa.array([0, 1]), "headers": lists})
    assert RepeatFilter().first_seen(records).num_rows == 2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_attempts_in_any_mixture_leave_each_row_once(seed: int) -> None:
    chance = random.Random(seed)
    sizes = {epoch: [*chance.choices(range(20), k=chance.randrange(4)), 20] for epoch in range(5)}
    attempts = [  # some stop early; the last one of an epoch is whole
        [f"q/{epoch}/0/{index}" for index in range(size)] for epoch in sizes for size in sizes[epoch]
    ]
    stream = [one for attempt in attempts for one in attempt]
    rows, seen = RepeatFilter(), []
    while stream:
        size = chance.randrange(1, 15)
        piece, stream = stream[:size], stream[size:]
        seen += [piece[place] for place in kept(rows, piece)]
    assert seen == [f"q/{epoch}/0/{index}" for epoch in range(5) for index in range(20)]


def test_a_row_always_goes_to_the_same_partition() -> None:
    headers = with_identity(None, TaskIdentity("q", 1, 2), 0, 100)
    keys = pa.array([b"k" if number % 2 else None for number in range(100)])
    columns = pa.record_batch({"key": keys, "value": keys, "headers": headers})
    first = partitioned_by_identity("t", columns, 7)
    again = np.concatenate(
        [
            partitioned_by_identity("t", columns.slice(0, 33), 7),
            partitioned_by_identity("t", columns.slice(33), 7),
        ]
    )
    assert (first == again).all()
    assert len(set(first[1::2].tolist())) == 1
    assert len(set(first[0::2].tolist())) == 7
    assert (partitioned_by_identity("t", columns.drop_columns(["key"]), 7)[0::2] == first[0::2]).all()
