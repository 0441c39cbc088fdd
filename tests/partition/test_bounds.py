"""What users write as bounds, and what that means in a log; trimming to the record. Without a broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from ottla import ConfigError, KafkaError
from ottla.fetching import EARLIEST, LATEST, OffsetReset, TopicAndPartition
from ottla.partition.bounds import (
    Bound,
    LogEnds,
    Moment,
    OffsetRange,
    Passage,
    Trimmer,
    parse_bound,
    parse_bounds,
    passage,
)
from ottla.partition.errors import Untimed
from ottla.records.messages import Message, MessageSet

PLACE = TopicAndPartition("orders", 3)
NOW_MS = 1_800_000_000_000
ENDS = LogEnds(100, 200, {1000: 150, 2000: -1, 3000: None})


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (0, Bound(0)),
        (17, Bound(17)),
        ("earliest", Bound(time=EARLIEST)),
        (" Latest", Bound(time=LATEST)),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), Bound(time=1000)),
        (datetime(1970, 1, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))), Bound(time=1000)),
        (datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), Bound(time=1)),
        (datetime(1960, 1, 1, tzinfo=UTC), Bound(time=0)),
        ("1970-01-01T00:00:01Z", Bound(time=1000)),
        (timedelta(seconds=5), Bound(time=NOW_MS - 5000)),
        (timedelta(days=100_000), Bound(time=0)),
    ],
)
def test_bounds_are_offsets_words_and_times(given: Moment, wanted: Bound) -> None:
    assert parse_bound(given, NOW_MS) == wanted


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (-1, "-1 bounds nothing"),
        (True, "True bounds nothing"),
        (None, "None bounds nothing"),
        ("yesterday", "'yesterday' is neither"),
        (datetime(2026, 1, 1), "no time zone"),  # noqa: DTZ001
        ("2026-01-01", "no time zone"),
    ],
)
def test_anything_else_is_refused(given: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_bound(given, NOW_MS)  # type: ignore[arg-type]


def test_partitions_may_have_bounds_of_their_own() -> None:
    assert parse_bounds("since", 5, "earliest", [0, 1], NOW_MS) == {0: Bound(5), 1: Bound(5)}
    assert parse_bounds("since", {1: 5}, "earliest", [0, 1], NOW_MS) == {0: Bound(time=EARLIEST), 1: Bound(5)}
    with pytest.raises(ConfigError, match="until has a bound for partition 7"):
        parse_bounds("until", {7: 5}, "latest", [0, 1], NOW_MS)


EARLY, LATE = Bound(time=EARLIEST), Bound(time=LATEST)


@pytest.mark.parametrize(
    ("since", "until", "wanted"),
    [
        (EARLY, LATE, Passage(OffsetRange(100, 200))),
        (Bound(120), Bound(130), Passage(OffsetRange(120, 130))),
        (Bound(120), Bound(999), Passage(OffsetRange(120, 200))),
        (Bound(200), LATE, Passage(OffsetRange(200, 200))),
        (LATE, EARLY, Passage(OffsetRange(200, 200))),
        (Bound(time=1000), Bound(time=2000), Passage(OffsetRange(150, 200))),
        (Bound(time=2000), LATE, Passage(OffsetRange(200, 200))),
        (Bound(180), Bound(time=1000), Passage(OffsetRange(180, 180))),
        (EARLY, Bound(50), Passage(OffsetRange(100, 100))),
        (Bound(time=3000), Bound(time=3000), Passage(OffsetRange(100, 200), 3000, 3000)),
    ],
)
def test_a_passage_is_within_the_log(since: Bound, until: Bound, wanted: Passage) -> None:
    assert passage(PLACE, since, until, ENDS, OffsetReset.NONE) == wanted


def test_a_beginning_that_the_log_does_not_have_is_an_error_or_what_is_left() -> None:
    with pytest.raises(KafkaError, match="orders-3: since=50, and the log has offsets 100 to 200"):
        passage(PLACE, Bound(50), LATE, ENDS, OffsetReset.NONE)
    assert passage(PLACE, Bound(50), LATE, ENDS, OffsetReset.SMALLEST).offsets == (100, 200)
    with pytest.raises(KafkaError, match="since=201"):
        passage(PLACE, Bound(201), LATE, ENDS, OffsetReset.SMALLEST)


@pytest.mark.parametrize(("since", "until"), [(Bound(7), Bound(6)), (Bound(time=7), Bound(time=6))])
def test_bounds_the_wrong_way_round_are_refused(since: Bound, until: Bound) -> None:
    with pytest.raises(ConfigError, match="since is behind until"):
        passage(PLACE, since, until, LogEnds(0, 10, {6: 1, 7: 2}), OffsetReset.NONE)


def test_bounds_are_told_as_a_user_would() -> None:
    bounds = [Bound(7), Bound(time=1500), Bound(time=EARLIEST), Bound()]
    assert [*map(str, bounds)] == ["offset 7", "1970-01-01T00:00:01.500+00:00", "earliest", "latest"]


# --- trimming


def batches(times: list[int], *, at_once: int = 2, magic: int = 2) -> list[pa.RecordBatch]:
    """Records with offsets from 10 on."""
    made = []
    for first in range(0, len(times), at_once):
        messages = [Message(b"v", timestamp_ms=time) for time in times[first : first + at_once]]
        (piece,) = MessageSet.of(messages, magic=magic, base_offset=10 + first).decoded()
        made.append(piece.batch)
    return made


def trimmed(given: list[pa.RecordBatch], passage: Passage) -> tuple[list[int], bool]:
    trimmer, found = Trimmer(PLACE, passage), []
    for batch in given:
        if not trimmer.is_done:
            found += trimmer.trim(batch).column("offset").to_pylist()
    return found, trimmer.is_done


def test_offsets_are_cut_exactly() -> None:
    given = batches([0] * 6, at_once=4)
    assert trimmed(given, Passage(OffsetRange(11, 13))) == ([11, 12], True)
    assert trimmed(given, Passage(OffsetRange(10, 16))) == ([*range(10, 16)], False)
    assert trimmed(given, Passage(OffsetRange(0, 5))) == ([], True)


@pytest.mark.parametrize("at_once", [1, 2, 8])
def test_times_begin_and_end_at_the_first_record_of_that_time(at_once: int) -> None:
    given = batches([100, 300, 200, -1, 500, 400, 50], at_once=at_once)
    whole = OffsetRange(10, 17)
    assert trimmed(given, Passage(whole, 200, 450)) == ([11, 12, 13], True)
    assert trimmed(given, Passage(whole, 400)) == ([14, 15, 16], False)
    assert trimmed(given, Passage(whole, None, 50)) == ([], True)
    assert trimmed(given, Passage(whole, 501, 600)) == ([], False)


def test_records_without_times_say_so() -> None:
    with pytest.raises(Untimed, match=r"orders-3: .*format 0 carry none; give since and until as offsets"):
        trimmed(batches([5], magic=0), Passage(OffsetRange(0, 99), 5))
